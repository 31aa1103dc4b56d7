//! SSE-C, blocked in a bucket: no request makes content under a customer's key, and what is there
//! stays readable.

use http::Request;

use super::client::{Endpoint, Reply, signed};
use super::encryption::{copying, key, open, secure};
use super::objects::form;
use crate::serve::Secure;

const SERVER: &str = "x-amz-server-side-encryption";

/// Sets the default encryption of the bucket with these elements of its rule.
async fn set(s3: &Endpoint, rule: &str) {
    let root = "ServerSideEncryptionConfiguration";
    let document = format!("<{root}><Rule>{rule}</Rule></{root}>");
    s3.put("/bucket?encryption", document).await.ok();
}

fn blocked(what: &str) -> String {
    format!(
        "<BlockedEncryptionTypes><EncryptionType>{what}</EncryptionType></BlockedEncryptionTypes>"
    )
}

async fn put(s3: &Endpoint, path: &str, body: &'static str) -> Reply {
    secure(s3, "PUT", path, &key(1), body).await
}

#[track_caller]
fn is_blocked(reply: &Reply) {
    reply.is(403, "AccessDenied");
    let why = reply.element("Message").unwrap();
    assert!(
        why.contains("this bucket has blocked upload requests"),
        "{why}"
    );
}

/// Begins an upload and sends it one part, under a customer's key. Returns the query that names it,
/// and its completion.
async fn begin(s3: &Endpoint) -> (String, String) {
    let begun = secure(s3, "POST", "/bucket/m?uploads", &key(1), "").await;
    let id = begun.ok().element("UploadId").unwrap();
    let part = put(s3, &format!("/bucket/m?partNumber=1&uploadId={id}"), "part").await;
    let etag = part.ok().header("etag").to_owned();
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    (format!("uploadId={id}"), document)
}

/// Completes an upload that [`begin`] began, with these headers.
async fn complete(
    s3: &Endpoint,
    (upload, completion): &(String, String),
    headers: &[(String, String)],
) -> Reply {
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let path = format!("/bucket/m?{upload}");
    let body = completion.clone().into();
    let mut request = signed(&s3.key, "POST", &path, &headers, body);
    request.extensions_mut().insert(Secure);
    s3.send(request).await
}

#[tokio::test]
async fn no_request_makes_content_under_a_customers_key() {
    let s3 = open().await;
    put(&s3, "/bucket/before", "content").await.ok();
    let upload = begin(&s3).await;
    set(&s3, &blocked("SSE-C")).await;
    is_blocked(&put(&s3, "/bucket/k", "x").await);
    // Nothing about the key is looked at.
    let (name, _) = key(1).swap_remove(0);
    let half = [(name.clone(), "AES256".to_owned())];
    is_blocked(&secure(&s3, "PUT", "/bucket/k", &half, "x").await);
    let plain = [(name.as_str(), "x")];
    is_blocked(&s3.call("PUT", "/bucket/k", &plain, "x").await);
    let copy = [copying("bucket/before", 1), key(2)].concat();
    is_blocked(&secure(&s3, "PUT", "/bucket/k", &copy, "").await);
    is_blocked(&secure(&s3, "POST", "/bucket/k?uploads", &key(1), "").await);
    let second = |(upload, _): &(String, String)| format!("/bucket/m?partNumber=2&{upload}");
    let part = second(&upload);
    is_blocked(&put(&s3, &part, "x").await);
    let copied = [copying("bucket/before", 1), key(1)].concat();
    is_blocked(&secure(&s3, "PUT", &part, &copied, "").await);
    is_blocked(&complete(&s3, &upload, &key(1)).await);
    let fields = key(1);
    let mut fields: Vec<_> = fields
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let condition = |(name, _): &(&str, &str)| format!(",[\"starts-with\",\"${name}\",\"\"]");
    let conditions: String = fields.iter().map(condition).collect();
    fields.push(("key", "up/k"));
    let posted = || {
        let mut request: Request<_> = form(&s3, &fields, &conditions, "x");
        request.extensions_mut().insert(Secure);
        s3.send(request)
    };
    is_blocked(&posted().await);
    let listed = s3.get("/bucket").await.ok().text();
    assert_eq!(listed.matches("<Key>").count(), 1, "{listed}");
    // Without a key, a completion does not ask for SSE-C.
    complete(&s3, &upload, &[]).await.ok();
    let got = secure(&s3, "GET", "/bucket/m", &key(1), "").await.ok();
    assert_eq!(got.text(), "part");
    // Once the block is lifted, all goes on.
    set(&s3, &blocked("NONE")).await;
    put(&s3, "/bucket/k", "x").await.ok();
    secure(&s3, "PUT", "/bucket/copy", &copy, "").await.ok();
    posted().await.ok();
    let upload = begin(&s3).await;
    let part = second(&upload);
    secure(&s3, "PUT", &part, &copied, "").await.ok();
    complete(&s3, &upload, &key(1)).await.ok();
}

#[tokio::test]
async fn what_is_there_and_other_encryption_stay() {
    let s3 = open().await;
    put(&s3, "/bucket/before", "content").await.ok();
    let (upload, _) = begin(&s3).await;
    set(&s3, &blocked("SSE-C")).await;
    for method in ["GET", "HEAD"] {
        secure(&s3, method, "/bucket/before", &key(1), "")
            .await
            .ok();
    }
    let parts = format!("/bucket/m?{upload}");
    secure(&s3, "GET", &parts, &key(1), "").await.ok();
    s3.call("DELETE", &parts, &[], "").await.ok();
    // A copy from a customer's key to one of the cluster.
    let mut source = copying("bucket/before", 1);
    source.push((SERVER.into(), "AES256".into()));
    secure(&s3, "PUT", "/bucket/copy", &source, "").await.ok();
    let copied = s3.get("/bucket/copy").await.ok();
    assert_eq!(
        (copied.text().as_str(), copied.header(SERVER)),
        ("content", "AES256")
    );
    s3.put("/bucket/plain", "x").await.ok();
    s3.call("DELETE", "/bucket/before", &[], "").await.ok();
}

#[tokio::test]
async fn a_block_is_shown_and_lasts_until_it_is_lifted() {
    let s3 = open().await;
    let path = "/bucket?encryption";
    let shown = async || {
        let reply = s3.get(path).await;
        let (algorithm, blocked) = (
            reply.element("SSEAlgorithm"),
            reply.element("EncryptionType"),
        );
        (algorithm.is_some(), blocked.unwrap_or_default())
    };
    let by_default = "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
                      </ApplyServerSideEncryptionByDefault>";
    // A rule without a default changes none, neither on nor off.
    set(&s3, &blocked("SSE-C")).await;
    assert_eq!(shown().await, (false, "SSE-C".into()));
    assert_eq!(s3.put("/bucket/k", "x").await.ok().header(SERVER), "");
    let with_key = format!("{by_default}<BucketKeyEnabled>true</BucketKeyEnabled>");
    set(&s3, &with_key).await;
    set(&s3, &blocked("NONE")).await;
    assert_eq!(shown().await, (true, "NONE".into()));
    let bucket_key = s3.get(path).await.element("BucketKeyEnabled");
    assert_eq!(bucket_key.as_deref(), Some("true"));
    set(&s3, &blocked("SSE-C")).await;
    assert_eq!(s3.put("/bucket/k", "x").await.ok().header(SERVER), "AES256");
    // Neither a document that says nothing of it nor a deletion lifts it.
    set(&s3, by_default).await;
    assert_eq!(shown().await, (true, "SSE-C".into()));
    s3.call("DELETE", path, &[], "").await.ok();
    assert_eq!(shown().await, (false, "SSE-C".into()));
    is_blocked(&put(&s3, "/bucket/k", "x").await);
    assert_eq!(s3.put("/bucket/k", "x").await.ok().header(SERVER), "");
    set(&s3, &blocked("NONE")).await;
    put(&s3, "/bucket/k", "x").await.ok();
    // It is shown that nothing is blocked, until the deletion of all settings.
    assert_eq!(shown().await, (false, "NONE".into()));
    s3.call("DELETE", path, &[], "").await.ok();
    let none = "ServerSideEncryptionConfigurationNotFoundError";
    s3.get(path).await.is(404, none);
}

/// AWS refuses no such rule. Tools expect to read what they have set.
#[tokio::test]
async fn a_bucket_key_beside_a_block_alone_is_kept() {
    let s3 = open().await;
    let path = "/bucket?encryption";
    let rule = format!(
        "<BucketKeyEnabled>true</BucketKeyEnabled>{}",
        blocked("SSE-C")
    );
    set(&s3, &rule).await;
    let bucket_key = async || s3.get(path).await.ok().element("BucketKeyEnabled");
    assert_eq!(bucket_key().await.as_deref(), Some("true"));
    assert_eq!(s3.get(path).await.element("SSEAlgorithm"), None);
    assert_eq!(s3.put("/bucket/k", "x").await.ok().header(SERVER), "");
    s3.call("DELETE", path, &[], "").await.ok();
    assert_eq!(bucket_key().await, None);
}
