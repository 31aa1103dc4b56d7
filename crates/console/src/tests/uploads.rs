//! Uploads in parts, and previews.

use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};

use super::{Reply, Site, logged_in};

const PARTS: &str = "/buckets/photos/parts";
const MIB: usize = 1 << 20;

impl Site {
    async fn script(&self, method: Method, path: &str, csrf: &str, body: Vec<u8>) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-console-csrf", csrf)
            .header(header::CONTENT_LENGTH, body.len())
            .body(Body::from(body));
        self.send(request.unwrap()).await
    }

    async fn does(&self, method: Method, path: &str, body: Vec<u8>) -> Reply {
        self.script(method, path, &self.csrf, body).await
    }

    /// Sends a part, and returns its tag.
    async fn sent(&self, path: &str, body: Vec<u8>) -> Value {
        let sent = self.does(Method::PUT, path, body).await;
        assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
        let sent: Value = serde_json::from_str(&sent.text).unwrap();
        sent["etag"].clone()
    }

    async fn begin(&self, bytes: usize) -> String {
        let path = format!("{PARTS}?o=film&bytes={bytes}");
        let begun = self.does(Method::POST, &path, Vec::new()).await;
        assert_eq!(begun.status, StatusCode::OK, "{}", begun.text);
        let begun: Value = serde_json::from_str(&begun.text).unwrap();
        assert_eq!(begun["part_bytes"], 16 << 20);
        begun["id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn store_as(&self, name: &str, content_type: &str, content: &'static str) {
        let request = Request::put(format!("/buckets/photos/upload?o={name}"))
            .header("x-console-csrf", &self.csrf)
            .header(header::CONTENT_LENGTH, content.len())
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(content));
        let stored = self.send(request.unwrap()).await;
        assert_eq!(stored.status, StatusCode::NO_CONTENT, "{}", stored.text);
    }
}

#[tokio::test]
async fn upload_in_parts_goes_on_with_those_that_are_missing() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let (first, second) = (vec![1; 16 * MIB], vec![2; MIB]);
    let bytes = first.len() + second.len();
    let id = site.begin(bytes).await;
    let part = |n: u32| format!("{PARTS}?o=film&u={id}&n={n}");
    let done = format!("{PARTS}/complete?o=film&u={id}&bytes={bytes}");
    let complete = async |tags: &[&Value]| {
        let names = (1..).zip(tags);
        let names = names.map(|(number, etag)| json!({"number": number, "etag": etag}));
        let names = Value::from_iter(names).to_string();
        site.does(Method::POST, &done, names.into_bytes()).await
    };
    let one = site.sent(&part(1), first).await;
    let early = complete(&[&one]).await;
    assert_eq!(early.status, StatusCode::BAD_REQUEST);
    assert!(early.text.contains("does not match"), "{}", early.text);
    let listed = site.get(&part(0)).await.text;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["parts"][0]["number"], 1);
    assert_eq!(listed["parts"][0]["size"], 16 * MIB);
    assert_eq!(listed["parts"][0]["etag"], one);
    let two = site.sent(&part(2), second).await;
    for wrong in [
        &b""[..],
        b"[]",
        b"{}",
        br#"[{"number":1,"etag":"</ETag>"}]"#,
    ] {
        let refused = site.does(Method::POST, &done, wrong.to_vec()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    }
    // The answer to the first one may be lost.
    for _ in 0..3 {
        let whole = complete(&[&one, &two]).await;
        assert_eq!(whole.status, StatusCode::NO_CONTENT, "{}", whole.text);
    }
    let page = site.get("/buckets/photos/object?o=film").await.text;
    assert!(page.contains("<dt>Parts</dt><dd>2</dd>"), "{page}");
    let gone = site.get(&part(0)).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    let other = complete(&[&two, &one]).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND, "{}", other.text);
}

/// S3 takes a request without a key for one about the bucket.
#[tokio::test]
async fn upload_without_a_name_is_refused() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let path = format!("{PARTS}?o=&bytes=1&u=1&n=1");
    for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
        let refused = site.does(method, &path, Vec::new()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    }
    let done = format!("{PARTS}/complete?o=&bytes=1&u=1");
    let refused = site.does(Method::POST, &done, b"[]".to_vec()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
}

#[tokio::test]
async fn upload_is_given_up_and_needs_the_secret() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let id = site.begin(20 * MIB).await;
    let path = format!("{PARTS}?o=film&u={id}&n=1");
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let forged = site.script(method, &path, "", Vec::new()).await;
        assert_eq!(forged.status, StatusCode::FORBIDDEN);
    }
    let done = format!("{PARTS}/complete?o=film&u={id}");
    let forged = site.script(Method::POST, &done, "", Vec::new()).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let given_up = site.does(Method::DELETE, &path, Vec::new()).await;
    assert_eq!(given_up.status, StatusCode::NO_CONTENT);
    assert_eq!(site.get(&path).await.status, StatusCode::NOT_FOUND);
    let huge = format!("{PARTS}?o=film&bytes={}", u64::MAX);
    let refused = site.does(Method::POST, &huge, Vec::new()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn preview_runs_nothing() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let script = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    site.store_as("a.svg", "image/svg+xml", script).await;
    let page = site.get("/buckets/photos/object?o=a.svg").await.text;
    assert!(
        page.contains("<img src=\"/buckets/photos/preview?o=a.svg\""),
        "{page}"
    );
    let image = site.get("/buckets/photos/preview?o=a.svg").await;
    assert_eq!(image.header("content-type"), "image/svg+xml");
    let policy = image.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && policy.ends_with("sandbox"));
    assert_eq!(image.header("x-content-type-options"), "nosniff");
    site.store_as("page", "text/html", "<script>alert(1)</script>")
        .await;
    let page = site.get("/buckets/photos/object?o=page").await.text;
    assert!(
        page.contains("&#60;script&#62;alert(1)&#60;/script&#62;</pre>"),
        "{page}"
    );
    let raw = site.get("/buckets/photos/preview?o=page").await;
    assert_eq!(raw.status, StatusCode::BAD_REQUEST);
    site.store_as("no.pdf", "application/pdf", "<script>alert(1)</script>")
        .await;
    let raw = site.get("/buckets/photos/preview?o=no.pdf").await;
    assert_eq!(raw.status, StatusCode::BAD_REQUEST);
    site.store_as("yes.pdf", "application/pdf", "%PDF-1.4")
        .await;
    let raw = site.get("/buckets/photos/preview?o=yes.pdf").await;
    assert_eq!(raw.header("content-type"), "application/pdf");
    assert_eq!(raw.header("x-frame-options"), "SAMEORIGIN");
}
