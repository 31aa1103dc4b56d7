//! Conditions and limits of deletions.

use bytes::Bytes;

use super::client::{Endpoint, Reply, signed};

/// Returns what DeleteObjects says of each key that was not deleted.
fn codes(reply: &Reply) -> Vec<(String, String)> {
    let text = reply.text();
    let between = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>")).unwrap();
        rest.split_once("</").unwrap().0.to_owned()
    };
    let errors = text.split("<Error>").skip(1);
    errors
        .map(|error| (between(error, "Key"), between(error, "Code")))
        .collect()
}

fn document(entries: &str) -> String {
    format!("<Delete><Quiet>true</Quiet>{entries}</Delete>")
}

#[tokio::test]
async fn the_condition_of_a_deletion_that_names_a_version_is_about_that_version() {
    let s3 = Endpoint::open().await;
    let put = s3.put("/bucket/k", "x").await.ok();
    let tag = put.header("etag");
    let delete = |id: &str, tag: &str| {
        let path = format!("/bucket/k?versionId={id}");
        let tag = tag.to_owned();
        let s3 = &s3;
        async move { s3.call("DELETE", &path, &[("if-match", &tag)], "").await }
    };
    delete("null", "\"other\"")
        .await
        .is(412, "PreconditionFailed");
    let unknown = delete("3sL4kqtJlcpXroDTDmJ_rmSpXd3dIbrH", tag).await;
    unknown.is(404, "NoSuchKey");
    for (condition, code) in [
        ("<ETag>\"other\"</ETag>", "PreconditionFailed"),
        ("<Size>1</Size>", "NotImplemented"),
        (
            "<LastModifiedTime>2026-01-01T00:00:00Z</LastModifiedTime>",
            "NotImplemented",
        ),
    ] {
        let entry = format!("<Object><Key>k</Key><VersionId>null</VersionId>{condition}</Object>");
        let reply = s3.call("POST", "/bucket?delete", &[], document(&entry));
        let refused = ("k".to_owned(), code.to_owned());
        assert_eq!(codes(&reply.await.ok()), [refused]);
    }
    assert_eq!(s3.get("/bucket/k").await.ok().text(), "x");
    delete("null", tag).await.ok();
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
}

/// A condition tells what an object is, so that the right to read it decides, by its tags, too.
#[tokio::test]
async fn tags_decide_about_conditions_of_many_deletions_as_about_that_of_one() {
    let s3 = Endpoint::open().await;
    let key = s3.stranger().await;
    let mut entries = "<Object><Key>missing</Key><ETag>tag</ETag></Object>".to_owned();
    let mut etag = String::new();
    for class in ["open", "closed"] {
        let tags = format!("class={class}");
        let path = format!("/bucket/{class}");
        let tags = [("x-amz-tagging", tags.as_str())];
        let put = s3.call("PUT", &path, &tags, "x").await.ok();
        etag = put.header("etag").to_owned();
        entries += &format!("<Object><Key>{class}</Key><ETag>{etag}</ETag></Object>");
    }
    let statement = |effect: &str, who: &str, action: &str, condition: &str| {
        format!(
            r#"{{"Effect": "{effect}", "Principal": {{"AWS": "{who}"}}, "Action": "s3:{action}",
                "Resource": "arn:aws:s3:::bucket/*"{condition}}}"#
        )
    };
    let of_class = |class: &str| {
        format!(r#", "Condition": {{"StringEquals": {{"s3:ExistingObjectTag/class": "{class}"}}}}"#)
    };
    let deletes = statement("Allow", &key.id, "DeleteObject", "");
    let reads = statement("Allow", &key.id, "GetObject", &of_class("open"));
    let policy = format!(r#"{{"Statement": [{deletes}, {reads}]}}"#);
    s3.call("PUT", "/bucket?policy", &[], policy).await.ok();

    let one = |path: &'static str| {
        let condition = [("if-match", etag.as_str())];
        s3.send(signed(&key, "DELETE", path, &condition, Bytes::new()))
    };
    let denied = |keys: &[&str]| -> Vec<_> {
        let pairs = keys.iter().map(|key| (*key, "AccessDenied"));
        pairs
            .map(|(key, code)| (key.to_owned(), code.to_owned()))
            .collect()
    };
    one("/bucket/closed").await.is(403, "AccessDenied");
    one("/bucket/missing").await.is(403, "AccessDenied");
    let body = document(&entries);
    let reply = s3.by(&key, "POST", "/bucket?delete", &body).await.ok();
    assert_eq!(codes(&reply), denied(&["missing", "closed"]));
    s3.get("/bucket/open").await.is(404, "NoSuchKey");

    // A policy that denies by tags denies owners, too.
    let policy = statement("Deny", "*", "GetObject", &of_class("closed"));
    let policy = format!(r#"{{"Statement": {policy}}}"#);
    s3.call("PUT", "/bucket?policy", &[], policy).await.ok();
    let entry = format!("<Object><Key>closed</Key><ETag>{etag}</ETag></Object>");
    let body = document(&entry);
    let reply = s3.call("POST", "/bucket?delete", &[], body).await.ok();
    assert_eq!(codes(&reply), denied(&["closed"]));
    s3.call("DELETE", "/bucket?policy", &[], "").await.ok();
    assert_eq!(s3.get("/bucket/closed").await.text(), "x");
}

#[tokio::test]
async fn a_thousand_keys_fit_however_long_and_escaped() {
    let s3 = Endpoint::open().await;
    let key = |n: usize| format!("{n:04}{}", "&".repeat(1020));
    let entry = |n: usize| {
        let key = key(n).replace('&', "&amp;");
        format!("<Object><Key>{key}</Key></Object>")
    };
    let path = format!("/bucket/{}", key(7));
    s3.put(&path, "x").await.ok();
    let body = document(&(0..1000).map(entry).collect::<String>());
    assert!(body.len() > 5_000_000);
    let reply = s3.call("POST", "/bucket?delete", &[], body).await.ok();
    assert!(codes(&reply).is_empty(), "{}", reply.text());
    s3.get(&path).await.is(404, "NoSuchKey");

    let long = document(&format!("<!--{}-->", " ".repeat(8 << 20)));
    let refused = s3.call("POST", "/bucket?delete", &[], long).await;
    refused.is(400, "MaxMessageLengthExceeded");
}

/// Escapes could make it many times as large as the request.
#[tokio::test]
async fn an_answer_does_not_repeat_more_than_a_key_can_be() {
    let s3 = Endpoint::open().await;
    let long = "\"".repeat(100_000);
    let entry = format!("<Object><Key>{long}</Key><VersionId>{long}</VersionId></Object>");
    let body = document(&entry);
    let reply = s3.call("POST", "/bucket?delete", &[], body).await.ok();
    assert_eq!(reply.element("Key").unwrap(), long[..1024]);
    assert_eq!(reply.element("VersionId").unwrap(), long[..1024]);
}

/// Source: AWS, "How to perform conditional deletes": a delete marker fails the condition "*" of
/// DeleteObject, which needs no right to read.
#[tokio::test]
async fn the_condition_that_there_is_an_object_needs_no_right_to_read() {
    let s3 = Endpoint::open().await;
    let any = [("if-match", "*")];
    s3.call("DELETE", "/bucket/none", &any, "")
        .await
        .is(404, "NoSuchKey");
    let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    s3.put("/bucket?versioning", enabled).await.ok();
    s3.put("/bucket/k", "x").await.ok();
    let key = s3.stranger().await;
    let policy = format!(
        r#"{{"Statement": {{"Effect": "Allow", "Principal": {{"AWS": "{}"}},
        "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::bucket/*"}}}}"#,
        key.id
    );
    s3.put("/bucket?policy", policy).await.ok();
    let delete = |tag: &str| {
        s3.send(signed(
            &key,
            "DELETE",
            "/bucket/k",
            &[("if-match", tag)],
            "".into(),
        ))
    };
    delete("\"tag\"").await.is(403, "AccessDenied");
    let many = |tag: &str| {
        let document = format!("<Delete><Object><Key>k</Key><ETag>{tag}</ETag></Object></Delete>");
        s3.send(signed(&key, "POST", "/bucket?delete", &[], document.into()))
    };
    let reply = many("tag").await.ok();
    assert_eq!(reply.element("Code").as_deref(), Some("AccessDenied"));
    assert_eq!(delete("*").await.status, 204);
    delete("*").await.is(412, "PreconditionFailed");
    let reply = many("*").await.ok();
    assert_eq!(reply.element("Code").as_deref(), Some("PreconditionFailed"));
    s3.put("/bucket/k", "x").await.ok();
    let reply = many("*").await.ok();
    assert_eq!(reply.element("Code"), None, "{}", reply.text());
}
