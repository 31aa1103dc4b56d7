use bytes::Bytes;

use super::client::{Endpoint, signed};
use super::objects::form;

fn set(tags: &[(&str, &str)]) -> String {
    let tag =
        |(key, value): &(&str, &str)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
    let tags: String = tags.iter().map(tag).collect();
    format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")
}

/// Returns the tags as the document lists them.
async fn tags_of(s3: &Endpoint, path: &str) -> String {
    let text = s3.get(&format!("{path}?tagging")).await.ok().text();
    let (_, rest) = text.split_once("<TagSet>").unwrap();
    let (tags, _) = rest.split_once("</TagSet>").unwrap();
    let tags = tags
        .replace("<Tag><Key>", "")
        .replace("</Value></Tag>", ";");
    tags.replace("</Key><Value>", "=")
}

#[tokio::test]
async fn tags_of_objects_are_set_and_told() {
    let s3 = Endpoint::open().await;
    let given = [("x-amz-tagging", "b=2&a=%C3%A4")];
    let put = s3.call("PUT", "/bucket/k", &given, "x").await.ok();
    assert_eq!(tags_of(&s3, "/bucket/k").await, "b=2;a=ä;");
    let got = s3.get("/bucket/k").await.ok();
    assert_eq!(got.header("x-amz-tagging-count"), "2");
    let body = set(&[("c", "3")]);
    s3.put("/bucket/k?tagging&versionId=null", body).await.ok();
    assert_eq!(tags_of(&s3, "/bucket/k").await, "c=3;");
    let head = s3.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(head.header("x-amz-tagging-count"), "1");
    assert_eq!(head.header("etag"), put.header("etag"));
    assert_eq!(head.header("last-modified"), got.header("last-modified"));
    let deleted = s3.call("DELETE", "/bucket/k?tagging", &[], "").await;
    assert_eq!(deleted.status, 204);
    assert_eq!(tags_of(&s3, "/bucket/k").await, "");
    let got = s3.get("/bucket/k").await.ok();
    assert_eq!(
        (got.header("x-amz-tagging-count"), got.text()),
        ("", "x".to_owned())
    );
    for method in ["GET", "PUT", "DELETE"] {
        let body = if method == "PUT" {
            set(&[])
        } else {
            String::new()
        };
        let reply = s3.call(method, "/bucket/none?tagging", &[], body).await;
        reply.is(404, "NoSuchKey");
    }
    s3.call("PUT", "/bucket/k", &[("x-amz-tagging", "aws:a=1")], "new")
        .await
        .is(400, "InvalidTag");
    assert_eq!(s3.get("/bucket/k").await.text(), "x");
}

#[tokio::test]
async fn copies_take_tags_from_the_source_or_the_request() {
    let s3 = Endpoint::open().await;
    let given = [("x-amz-tagging", "a=1")];
    s3.call("PUT", "/bucket/k", &given, "x").await.ok();
    let source = ("x-amz-copy-source", "bucket/k");
    let new = ("x-amz-tagging", "b=2");
    let directive = |name| ("x-amz-tagging-directive", name);
    let copy = async |headers: &[(&str, &str)]| {
        s3.call("PUT", "/bucket/copy", headers, "").await.ok();
        tags_of(&s3, "/bucket/copy").await
    };
    assert_eq!(copy(&[source]).await, "a=1;");
    assert_eq!(copy(&[source, directive("REPLACE"), new]).await, "b=2;");
    assert_eq!(copy(&[source, directive("REPLACE")]).await, "");
    assert_eq!(copy(&[source, directive("COPY"), new]).await, "a=1;");
    let unknown = [source, directive("MERGE")];
    s3.call("PUT", "/bucket/copy", &unknown, "")
        .await
        .is(400, "InvalidArgument");
}

#[tokio::test]
async fn uploads_and_forms_carry_tags() {
    let s3 = Endpoint::open().await;
    let given = [("x-amz-tagging", "a=1")];
    let begun = s3.call("POST", "/bucket/k?uploads", &given, "").await.ok();
    let id = begun.element("UploadId").unwrap();
    let path = format!("/bucket/k?partNumber=1&uploadId={id}");
    let refused = s3.call("PUT", &path, &given, "x").await;
    refused.is(501, "NotImplemented");
    let part = s3.put(&path, "x").await.ok();
    let etag = part.header("etag");
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let path = format!("/bucket/k?uploadId={id}");
    s3.call("POST", &path, &[], body).await.ok();
    assert_eq!(tags_of(&s3, "/bucket/k").await, "a=1;");

    let allowed = ",[\"starts-with\",\"$tagging\",\"\"]";
    let send = |tags: &str| {
        let fields = [("key", "up/f"), ("tagging", tags)];
        s3.send(form(&s3, &fields, allowed, "content"))
    };
    send(&set(&[("f", "1")])).await.ok();
    assert_eq!(tags_of(&s3, "/bucket/up/f").await, "f=1;");
    send("f=2").await.is(400, "MalformedXML");
    send(&set(&[("f", "1"), ("f", "2")]))
        .await
        .is(400, "InvalidTag");
    assert_eq!(tags_of(&s3, "/bucket/up/f").await, "f=1;");
}

#[tokio::test]
async fn tags_of_buckets_are_set_and_told() {
    let s3 = Endpoint::open().await;
    s3.get("/bucket?tagging").await.is(404, "NoSuchTagSet");
    s3.put("/bucket?tagging", set(&[("a", "1"), ("b", "")]))
        .await
        .ok();
    assert_eq!(tags_of(&s3, "/bucket").await, "a=1;b=;");
    let twice = set(&[("a", "1"), ("a", "2")]);
    s3.put("/bucket?tagging", twice).await.is(400, "InvalidTag");
    s3.put("/bucket?tagging", "<Tagging/>")
        .await
        .is(400, "MalformedXML");
    assert_eq!(tags_of(&s3, "/bucket").await, "a=1;b=;");
    let deleted = s3.call("DELETE", "/bucket?tagging", &[], "").await;
    assert_eq!(deleted.status, 204);
    s3.get("/bucket?tagging").await.is(404, "NoSuchTagSet");
}

/// TagResource and UntagResource of S3 Control: policies decide by the tags that a request sets or
/// removes.
#[tokio::test]
async fn policies_see_the_tags_that_a_bucket_is_given() {
    const PATH: &str = "/v20180820/tags/arn:aws:s3:::bucket";
    let s3 = Endpoint::open().await;
    let key = s3.stranger().await;
    let statement = |effect: &str, condition: &str| {
        format!(
            r#"{{"Effect": "{effect}", "Principal": {{"AWS": "{}"}},
            "Action": ["s3:TagResource", "s3:UntagResource"],
            "Resource": "arn:aws:s3:::bucket"{condition}}}"#,
            key.id
        )
    };
    let by_value = r#", "Condition": {"StringEquals": {"aws:RequestTag/a": "no"}}"#;
    let by_name = r#", "Condition": {"ForAnyValue:StringEquals": {"aws:TagKeys": "secret"}}"#;
    let statements = [
        statement("Allow", ""),
        statement("Deny", by_value),
        statement("Deny", by_name),
        statement("Allow", by_name).replace("s3:TagResource", "s3:ListBucket"),
    ];
    let policy = format!(r#"{{"Statement": [{}]}}"#, statements.join(","));
    s3.call("PUT", "/bucket?policy", &[], policy).await.ok();
    let account = [("x-amz-account-id", "000000000000")];
    let tag = |name: &str, value: &str| {
        let body = format!(
            "<TagResourceRequest><Tags><Tag><Key>{name}</Key><Value>{value}</Value></Tag></Tags>\
             </TagResourceRequest>"
        );
        s3.send(signed(&key, "POST", PATH, &account, body.into()))
    };
    let untag = |name: &str| {
        let path = format!("{PATH}?tagKeys={name}");
        s3.send(signed(&key, "DELETE", &path, &account, Bytes::new()))
    };
    assert_eq!(tag("a", "yes").await.status, 204);
    assert_eq!(tag("a", "no").await.status, 403);
    // A second tag whose name differs in case does not hide it.
    let both = "<TagResourceRequest><Tags><Tag><Key>a</Key><Value>no</Value></Tag>\
                <Tag><Key>A</Key><Value>yes</Value></Tag></Tags></TagResourceRequest>";
    let both = signed(&key, "POST", PATH, &account, both.into());
    assert_eq!(s3.send(both).await.status, 403);
    assert_eq!(tag("secret", "x").await.status, 403);
    assert_eq!(untag("secret").await.status, 403);
    let bucket = s3.model.bucket("bucket").unwrap().unwrap();
    assert_eq!(bucket.tags, [("a".to_owned(), "yes".to_owned())]);
    assert_eq!(untag("a").await.status, 204);
    // The parameter says nothing in a request of another kind.
    let list = signed(&key, "GET", "/bucket?tagKeys=secret", &[], Bytes::new());
    assert_eq!(s3.send(list).await.status, 403);
}
