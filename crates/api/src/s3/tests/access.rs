//! Policies and anonymous clients, through the endpoint.

use std::sync::Arc;

use archipel_access::ACCOUNT;
use archipel_model::AccessKey;
use archipel_model::identity::NewKey;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::client::{Endpoint, Reply, signed};

const PUBLIC: &str = r#"{"Version": "2012-10-17", "Statement": {"Sid": "PublicRead",
    "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
    "Resource": "arn:aws:s3:::bucket/*"}}"#;

impl Endpoint {
    pub async fn anonymous(&self, method: &str, path: &str, body: &str) -> Reply {
        self.anonymous_with(method, path, &[], body).await
    }

    pub async fn anonymous_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
        self.send(request.body(body).unwrap()).await
    }

    pub async fn by(&self, key: &AccessKey, method: &str, path: &str, body: &str) -> Reply {
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.send(signed(key, method, path, &[], body)).await
    }

    pub async fn lift_block(&self) {
        self.call("DELETE", "/bucket?publicAccessBlock", &[], "")
            .await
            .ok();
    }

    async fn put_policy(&self, text: &str) -> Reply {
        self.call("PUT", "/bucket?policy", &[], text.to_owned())
            .await
    }

    pub async fn stranger(&self) -> Arc<AccessKey> {
        let key = self.model.create_access_key("stranger").await;
        key.unwrap()
    }
}

/// A statement that allows a key some actions on the bucket and all of its objects.
fn allow(key: &AccessKey, actions: &str, more: &str) -> String {
    format!(
        r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow",
            "Principal": {{"AWS": "arn:aws:iam::{ACCOUNT}:user/{}"}}, "Action": {actions},
            "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]{more}}}]}}"#,
        key.id
    )
}

#[tokio::test]
async fn anonymous_clients_read_a_published_bucket_and_nothing_else() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "public").await.ok();
    let denied = s3.anonymous("GET", "/bucket/k", "").await;
    denied.is(403, "AccessDenied");
    // A new bucket blocks public policies.
    s3.put_policy(PUBLIC).await.is(403, "AccessDenied");
    s3.get("/bucket?policy").await.is(404, "NoSuchBucketPolicy");
    s3.lift_block().await;
    s3.put_policy(PUBLIC).await.ok();
    let status = s3.get("/bucket?policyStatus").await.ok();
    assert_eq!(status.element("IsPublic").unwrap(), "true");
    assert_eq!(s3.get("/bucket?policy").await.ok().text(), PUBLIC);

    assert_eq!(
        s3.anonymous("GET", "/bucket/k", "").await.ok().text(),
        "public"
    );
    s3.anonymous("HEAD", "/bucket/k", "").await.ok();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/bucket"),
        ("GET", "/bucket?list-type=2"),
        ("GET", "/bucket?policy"),
        ("GET", "/bucket?unheard-of"),
        ("GET", "/other"),
        ("GET", "/other/k"),
        ("PUT", "/new-bucket"),
        ("PUT", "/bucket/k"),
        ("DELETE", "/bucket/k"),
        ("POST", "/bucket/k?uploads"),
        ("GET", "/bucket/k?tagging"),
        ("GET", "/bucket/k?attributes"),
        // Without the right to list, nobody learns which keys there are.
        ("GET", "/bucket/missing"),
        ("GET", "/bucket/missing?prefix=x"),
        ("PATCH", "/bucket/k"),
    ] {
        let reply = s3.anonymous(method, path, "").await;
        reply.is(403, "AccessDenied");
    }
    assert_eq!(s3.get("/bucket/k").await.text(), "public");
    let restrict = "<PublicAccessBlockConfiguration>\
        <RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
    s3.call("PUT", "/bucket?publicAccessBlock", &[], restrict)
        .await
        .ok();
    let denied = s3.anonymous("GET", "/bucket/k", "").await;
    denied.is(403, "AccessDenied");
    s3.lift_block().await;
    s3.anonymous("GET", "/bucket/k", "").await.ok();
    s3.call("DELETE", "/bucket?policy", &[], "").await.ok();
    let denied = s3.anonymous("GET", "/bucket/k", "").await;
    denied.is(403, "AccessDenied");
}

#[tokio::test]
async fn anonymous_clients_may_write_where_a_policy_says_so() {
    let s3 = Endpoint::open().await;
    s3.lift_block().await;
    let text = PUBLIC.replace("s3:GetObject", "s3:PutObject");
    s3.put_policy(&text).await.ok();
    s3.anonymous("PUT", "/bucket/inbox", "letter").await.ok();
    assert_eq!(s3.get("/bucket/inbox").await.ok().text(), "letter");
    let hash = [("x-amz-content-sha256", &*"0".repeat(64))];
    let wrong = s3.anonymous_with("PUT", "/bucket/x", &hash, "letter").await;
    wrong.is(400, "XAmzContentSHA256Mismatch");
    let chunked = [
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("x-amz-decoded-content-length", "1"),
    ];
    let signed = s3.anonymous_with("PUT", "/bucket/x", &chunked, "x").await;
    signed.is(403, "AccessDenied");
    s3.get("/bucket/x").await.is(404, "NoSuchKey");
    // Nobody would be named for an upload or a copy.
    let begun = s3.anonymous("POST", "/bucket/m?uploads", "").await;
    begun.is(403, "AccessDenied");
    let source = [("x-amz-copy-source", "bucket/inbox")];
    let copied = s3.anonymous_with("PUT", "/bucket/m", &source, "").await;
    copied.is(403, "AccessDenied");
    // A form that nobody signed.
    let form = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nform\r\n--b\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nfile\r\n--b--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    s3.anonymous_with("POST", "/bucket", &kind, form).await.ok();
    assert_eq!(s3.get("/bucket/form").await.ok().text(), "file");
    s3.call("DELETE", "/bucket?policy", &[], "").await.ok();
    let refused = s3.anonymous_with("POST", "/bucket", &kind, form).await;
    refused.is(403, "AccessDenied");
}

#[tokio::test]
async fn key_is_limited_to_a_prefix() {
    let s3 = Endpoint::open().await;
    let key = s3.stranger().await;
    s3.put("/bucket/home/a", "a").await.ok();
    s3.put("/bucket/other/b", "b").await.ok();
    let text = format!(
        r#"{{"Version": "2012-10-17", "Statement": [
            {{"Effect": "Allow", "Principal": {{"AWS": "{id}"}}, "Action": "s3:ListBucket",
              "Resource": "arn:aws:s3:::bucket",
              "Condition": {{"StringLike": {{"s3:prefix": "home/*"}}}}}},
            {{"Effect": "Allow", "Principal": {{"AWS": "{id}"}},
              "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
              "Resource": "arn:aws:s3:::bucket/home/*"}}]}}"#,
        id = key.id
    );
    s3.put_policy(&text).await.ok();
    let status = s3.get("/bucket?policyStatus").await.ok();
    assert_eq!(status.element("IsPublic").unwrap(), "false");
    for (method, path, expected) in [
        ("GET", "/bucket?list-type=2&prefix=home/", 200),
        ("GET", "/bucket?prefix=home/", 200),
        ("GET", "/bucket?prefix=other/", 403),
        ("GET", "/bucket", 403),
        ("GET", "/bucket?versions&prefix=home/", 403),
        ("GET", "/bucket/home/a", 200),
        ("PUT", "/bucket/home/new", 200),
        ("PUT", "/bucket/other/new", 403),
        ("GET", "/bucket/other/b", 403),
        // It may not list without a prefix, so that a missing key is denied.
        ("GET", "/bucket/home/missing", 403),
        ("HEAD", "/bucket", 403),
        ("DELETE", "/bucket", 403),
        ("DELETE", "/bucket/home/new", 204),
    ] {
        let reply = s3.by(&key, method, path, "").await;
        assert_eq!(reply.status, expected, "{method} {path}: {}", reply.text());
    }
    // Each key of DeleteObjects is decided by itself.
    let keys = "<Delete><Object><Key>home/a</Key></Object>\
        <Object><Key>other/b</Key></Object></Delete>";
    let reply = s3.by(&key, "POST", "/bucket?delete", keys).await.ok();
    assert!(
        reply
            .text()
            .contains("<Deleted><Key>home/a</Key></Deleted>"),
        "{}",
        reply.text()
    );
    assert!(
        reply
            .text()
            .contains("<Key>other/b</Key><Code>AccessDenied</Code>")
    );
    s3.get("/bucket/home/a").await.is(404, "NoSuchKey");
    s3.get("/bucket/other/b").await.ok();
    // A key that is imported again under its id is another one.
    let again = NewKey {
        name: "again".to_owned(),
        imported: Some((key.id.clone(), key.secret.clone())),
        ..NewKey::default()
    };
    s3.model.delete_access_key(&key.id).await.unwrap();
    let again = s3.model.create_key(again).await.unwrap();
    let reply = s3.by(&again, "PUT", "/bucket/home/new", "").await;
    reply.is(403, "AccessDenied");
}

#[tokio::test]
async fn denials_bind_owners_but_for_the_policy_itself() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "kept").await.ok();
    let deny = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "*"}}"#;
    s3.put_policy(deny).await.ok();
    s3.get("/bucket/k").await.is(403, "AccessDenied");
    s3.call("DELETE", "/bucket", &[], "")
        .await
        .is(403, "AccessDenied");
    let head = s3.call("HEAD", "/bucket", &[], "").await;
    assert_eq!(head.status, 403);
    assert_eq!(s3.get("/bucket?policy").await.ok().text(), deny);
    s3.call("DELETE", "/bucket?policy", &[], "").await.ok();
    assert_eq!(s3.get("/bucket/k").await.ok().text(), "kept");
}

#[tokio::test]
async fn malformed_policies_are_refused_with_the_place() {
    let s3 = Endpoint::open().await;
    let refused = s3.put_policy(&PUBLIC.replace("bucket/", "other/")).await;
    refused.is(400, "MalformedPolicy");
    let why = refused.element("Message").unwrap();
    assert!(
        why.starts_with("Policy has invalid resource: Statement[0].Resource"),
        "{why}"
    );
    let unknown = PUBLIC.replace("\"*\"", r#"{"AWS": "AKNOBODY"}"#);
    let refused = s3.put_policy(&unknown).await;
    refused.is(400, "MalformedPolicy");
    assert!(
        refused.text().contains("there is no &quot;AKNOBODY&quot;"),
        "{}",
        refused.text()
    );
    let long = format!("{PUBLIC}{}", " ".repeat(20 << 10));
    s3.put_policy(&long).await.is(400, "MalformedPolicy");
    s3.put_policy("").await.is(400, "MissingRequestBodyError");
    s3.get("/bucket?policy").await.is(404, "NoSuchBucketPolicy");
    s3.get("/bucket?policyStatus")
        .await
        .is(404, "NoSuchBucketPolicy");
}

#[tokio::test]
async fn source_of_a_copy_is_decided_too() {
    let s3 = Endpoint::open().await;
    let key = s3.stranger().await;
    s3.model.create_bucket("mine", Some(&key.id)).await.unwrap();
    s3.put("/bucket/public/k", "public").await.ok();
    s3.put("/bucket/private/k", "private").await.ok();
    let read = allow(&key, "\"s3:GetObject\"", "");
    let read = read.replace("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/public/*");
    let read = read.replace("\"arn:aws:s3:::bucket\", ", "");
    s3.put_policy(&read).await.ok();
    let copy = |source: &'static str| {
        let source = [("x-amz-copy-source", source)];
        s3.send(signed(&key, "PUT", "/mine/copy", &source, Bytes::new()))
    };
    copy("/bucket/private/k").await.is(403, "AccessDenied");
    copy("/bucket/public/missing").await.is(403, "AccessDenied");
    copy("/bucket/public/k?versionId=null")
        .await
        .is(403, "AccessDenied");
    s3.by(&key, "GET", "/mine/copy", "")
        .await
        .is(404, "NoSuchKey");
    copy("/bucket/public/k").await.ok();
    assert_eq!(s3.by(&key, "GET", "/mine/copy", "").await.text(), "public");
    // The tags of the source come along only if they may be read.
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    s3.call("PUT", "/bucket/public/k?tagging", &[], tags)
        .await
        .ok();
    copy("/bucket/public/k").await.is(403, "AccessDenied");
}

#[tokio::test]
async fn tags_of_objects_and_requests_decide() {
    let s3 = Endpoint::open().await;
    let key = s3.stranger().await;
    let tags = |value: &str| {
        format!(
            "<Tagging><TagSet><Tag><Key>class</Key><Value>{value}</Value></Tag></TagSet></Tagging>"
        )
    };
    for (name, value) in [("a", "open"), ("b", "closed")] {
        s3.put(&format!("/bucket/{name}"), name).await.ok();
        let path = format!("/bucket/{name}?tagging");
        s3.call("PUT", &path, &[], tags(value)).await.ok();
    }
    s3.put("/bucket/c", "c").await.ok();
    let condition = r#", "Condition": {"StringEquals": {"s3:ExistingObjectTag/class": "open"}}"#;
    let text = allow(
        &key,
        r#"["s3:GetObject", "s3:PutObjectTagging", "s3:GetObjectTagging"]"#,
        condition,
    );
    s3.put_policy(&text).await.ok();
    for (path, expected) in [
        ("/bucket/a", 200),
        ("/bucket/b", 403),
        ("/bucket/c", 403),
        ("/bucket/missing", 403),
        ("/bucket/a?tagging", 200),
        ("/bucket/b?tagging", 403),
    ] {
        let reply = s3.by(&key, "GET", path, "").await;
        assert_eq!(reply.status, expected, "{path}");
        let put = if path.ends_with("tagging") {
            "PUT"
        } else {
            "HEAD"
        };
        let reply = s3.by(&key, put, path, &tags("open")).await;
        assert_eq!(reply.status, expected, "{put} {path}");
    }
    let condition = r#", "Condition": {"StringEquals": {"s3:RequestObjectTag/class": "open"}}"#;
    let text = allow(
        &key,
        r#"["s3:PutObject", "s3:PutObjectTagging"]"#,
        condition,
    );
    s3.put_policy(&text).await.ok();
    let put = |value: &str| {
        let tags = [("x-amz-tagging", value)];
        s3.send(signed(&key, "PUT", "/bucket/new", &tags, Bytes::new()))
    };
    put("class=closed").await.is(403, "AccessDenied");
    put("class=open").await.ok();
    let again = s3
        .by(&key, "PUT", "/bucket/new?tagging", &tags("closed"))
        .await;
    again.is(403, "AccessDenied");
    s3.by(&key, "PUT", "/bucket/new?tagging", &tags("open"))
        .await
        .ok();
}
