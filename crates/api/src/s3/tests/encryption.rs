//! Server-side encryption: headers, errors, and what they protect.

use archipel_model::RingSecrets;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::client::{Endpoint, Reply, signed};
use crate::serve::Secure;

const SERVER: (&str, &str) = ("x-amz-server-side-encryption", "AES256");
const ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";
const KEY: &str = "x-amz-server-side-encryption-customer-key";
const MD5: &str = "x-amz-server-side-encryption-customer-key-md5";

pub async fn open() -> Endpoint {
    let s3 = Endpoint::open().await;
    s3.model.set_ring_secrets(RingSecrets {
        present: vec![b"secret".to_vec()],
        earlier: Vec::new(),
    });
    s3
}

/// A request over TLS.
pub async fn secure(
    s3: &Endpoint,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &'static str,
) -> Reply {
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let mut request = signed(&s3.key, method, path, &headers, body.into());
    request.extensions_mut().insert(Secure);
    s3.send(request).await
}

/// The headers of a customer's key, with this beginning.
fn key_of(prefix: &str, byte: u8) -> Vec<(String, String)> {
    let key = [byte; 32];
    let name = |name: &str| format!("{prefix}{name}");
    vec![
        (name(ALGORITHM), "AES256".into()),
        (name(KEY), STANDARD.encode(key)),
        (name(MD5), STANDARD.encode(Md5::digest(key))),
    ]
}

pub fn key(byte: u8) -> Vec<(String, String)> {
    key_of("", byte)
}

/// The headers of a copy's source and its key.
pub fn copying(source: &str, byte: u8) -> Vec<(String, String)> {
    let mut headers: Vec<_> = key_of("", byte)
        .into_iter()
        .map(|(name, value)| (name.replacen("x-amz-", "x-amz-copy-source-", 1), value))
        .collect();
    headers.push(("x-amz-copy-source".into(), source.into()));
    headers
}

#[tokio::test]
async fn object_under_the_clusters_key_reads_as_any_other_and_says_so() {
    let s3 = open().await;
    let put = s3.call("PUT", "/bucket/k", &[SERVER], "content").await.ok();
    assert_eq!(put.header(SERVER.0), "AES256");
    assert_eq!(
        put.header("etag"),
        format!("\"{}\"", hex::encode(Md5::digest("content")))
    );
    let got = s3.get("/bucket/k").await.ok();
    assert_eq!(
        (got.text().as_str(), got.header(SERVER.0)),
        ("content", "AES256")
    );
    let head = s3.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(
        (head.header(SERVER.0), head.header("content-length")),
        ("AES256", "7")
    );
    let range = s3
        .call("GET", "/bucket/k", &[("range", "bytes=2-4")], "")
        .await
        .ok();
    assert_eq!(range.text(), "nte");
    // S3 refuses the header where it can mean nothing.
    for method in ["GET", "HEAD", "DELETE"] {
        let refused = s3.call(method, "/bucket/k", &[SERVER], "").await;
        assert_eq!(refused.status, 400, "{method}");
    }
}

#[tokio::test]
async fn customers_key_is_needed_for_all_that_shows_the_content() {
    let s3 = open().await;
    let put = secure(&s3, "PUT", "/bucket/k", &key(1), "content")
        .await
        .ok();
    assert_eq!(put.header(ALGORITHM), "AES256");
    assert_eq!(put.header(MD5), key(1)[2].1);
    assert_ne!(
        put.header("etag"),
        format!("\"{}\"", hex::encode(Md5::digest("content")))
    );
    let attributes = (
        "x-amz-object-attributes".to_owned(),
        "ObjectSize".to_owned(),
    );
    for (method, path) in [
        ("GET", "/bucket/k"),
        ("HEAD", "/bucket/k"),
        ("GET", "/bucket/k?attributes"),
    ] {
        let with = |mut headers: Vec<(String, String)>| {
            headers.push(attributes.clone());
            headers
        };
        let right = secure(&s3, method, path, &with(key(1)), "").await;
        assert!(
            right.status.is_success(),
            "{method} {path}: {}",
            right.text()
        );
        let wrong = secure(&s3, method, path, &with(key(2)), "").await;
        let none = secure(&s3, method, path, &with(Vec::new()), "").await;
        assert_eq!(
            (wrong.status.as_u16(), none.status.as_u16()),
            (403, 400),
            "{method} {path}"
        );
        if method == "GET" {
            wrong.is(403, "AccessDenied");
            none.is(400, "InvalidRequest");
        }
    }
    let got = secure(&s3, "GET", "/bucket/k", &key(1), "").await.ok();
    assert_eq!(
        (got.text().as_str(), got.header(MD5)),
        ("content", key(1)[2].1.as_str())
    );
    // Requests that need no content need no key.
    assert!(s3.get("/bucket").await.ok().text().contains("<Key>k</Key>"));
    s3.call("DELETE", "/bucket/k", &[], "").await.ok();
    // A key for an object that takes none.
    s3.put("/bucket/plain", "x").await.ok();
    let refused = secure(&s3, "GET", "/bucket/plain", &key(1), "").await;
    refused.is(400, "InvalidRequest");
}

#[tokio::test]
async fn customers_keys_are_refused_over_plain_http_and_if_they_are_malformed() {
    let s3 = open().await;
    let headers = key(1);
    let plain: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let refused = s3.call("PUT", "/bucket/k", &plain, "x").await;
    refused.is(400, "InvalidRequest");
    assert!(refused.text().contains("secure connection"));
    let changed = |at: usize, value: &str| {
        let mut headers = key(1);
        headers[at].1 = value.into();
        headers
    };
    let without = |at: usize| {
        let mut headers = key(1);
        headers.remove(at);
        headers
    };
    let short = STANDARD.encode([1; 16]);
    for (headers, code) in [
        (changed(0, "AES128"), "InvalidEncryptionAlgorithmError"),
        (changed(1, &short), "InvalidArgument"),
        (changed(1, "%%%"), "InvalidArgument"),
        (changed(2, &key(2)[2].1), "InvalidArgument"),
        (without(0), "InvalidArgument"),
        (without(1), "InvalidArgument"),
        (without(2), "InvalidArgument"),
        (
            [key(1), vec![(SERVER.0.into(), SERVER.1.into())]].concat(),
            "InvalidArgument",
        ),
    ] {
        let refused = secure(&s3, "PUT", "/bucket/k", &headers, "x").await;
        refused.is(400, code);
        assert!(!refused.text().contains(&key(1)[1].1));
    }
    let other = [(SERVER.0, "AES512")];
    s3.call("PUT", "/bucket/k", &other, "x")
        .await
        .is(400, "InvalidArgument");
    for kms in ["aws:kms", "aws:kms:dsse"] {
        s3.call("PUT", "/bucket/k", &[(SERVER.0, kms)], "x")
            .await
            .is(501, "NotImplemented");
    }
    // The id of a key is nothing without the method that takes it.
    let id = ("x-amz-server-side-encryption-aws-kms-key-id", "id");
    for (headers, given) in [(&[SERVER, id][..], "AES256"), (&[id], "null")] {
        let refused = s3.call("PUT", "/bucket/k", headers, "x").await;
        refused.is(400, "InvalidArgument");
        assert_eq!(refused.element("ArgumentValue").unwrap(), given);
    }
    let bucket_key = ("x-amz-server-side-encryption-bucket-key-enabled", "true");
    s3.call("PUT", "/bucket/k", &[bucket_key], "x")
        .await
        .is(501, "NotImplemented");
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn copy_opens_by_one_key_and_seals_by_another() {
    let s3 = open().await;
    secure(&s3, "PUT", "/bucket/k", &key(1), "content")
        .await
        .ok();
    let headers = [copying("bucket/k", 1), key(2)].concat();
    let copied = secure(&s3, "PUT", "/bucket/copy", &headers, "").await.ok();
    assert_eq!(copied.header(MD5), key(2)[2].1);
    let got = secure(&s3, "GET", "/bucket/copy", &key(2), "").await.ok();
    assert_eq!(got.text(), "content");
    secure(&s3, "PUT", "/bucket/plain", &copying("bucket/k", 1), "")
        .await
        .ok();
    assert_eq!(s3.get("/bucket/plain").await.text(), "content");
    let wrong = secure(&s3, "PUT", "/bucket/copy", &copying("bucket/k", 2), "").await;
    wrong.is(403, "AccessDenied");
    let none = [("x-amz-copy-source", "bucket/k")];
    s3.call("PUT", "/bucket/copy", &none, "")
        .await
        .is(400, "InvalidRequest");
    // A copy to itself may change the encryption and nothing else.
    let same = [("x-amz-copy-source", "bucket/plain")];
    s3.call("PUT", "/bucket/plain", &same, "")
        .await
        .is(400, "InvalidRequest");
    let encrypted = [("x-amz-copy-source", "bucket/plain"), SERVER];
    s3.call("PUT", "/bucket/plain", &encrypted, "").await.ok();
    assert_eq!(s3.get("/bucket/plain").await.header(SERVER.0), "AES256");
}

#[tokio::test]
async fn parts_take_the_key_of_their_upload() {
    let s3 = open().await;
    let begun = secure(&s3, "POST", "/bucket/k?uploads", &key(1), "")
        .await
        .ok();
    assert_eq!(begun.header(MD5), key(1)[2].1);
    let id = begun.element("UploadId").unwrap();
    let path = format!("/bucket/k?partNumber=1&uploadId={id}");
    let refused = secure(&s3, "PUT", &path, &key(2), "x").await;
    refused.is(400, "InvalidRequest");
    s3.put(&path, "x").await.is(400, "InvalidRequest");
    let part = secure(&s3, "PUT", &path, &key(1), "part").await.ok();
    assert_eq!(part.header(MD5), key(1)[2].1);
    let etag = part.header("etag").to_owned();
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let path = format!("/bucket/k?uploadId={id}");
    s3.call("POST", &path, &[], document).await.ok();
    s3.get("/bucket/k").await.is(400, "InvalidRequest");
    let got = secure(&s3, "GET", "/bucket/k", &key(1), "").await.ok();
    assert_eq!(got.text(), "part");
    // An upload without a customer's key takes none.
    let begun = s3
        .call("POST", "/bucket/s?uploads", &[SERVER], "")
        .await
        .ok();
    assert_eq!(begun.header(SERVER.0), "AES256");
    let id = begun.element("UploadId").unwrap();
    let path = format!("/bucket/s?partNumber=1&uploadId={id}");
    secure(&s3, "PUT", &path, &key(1), "x")
        .await
        .is(400, "InvalidRequest");
    assert_eq!(s3.put(&path, "x").await.ok().header(SERVER.0), "AES256");
}

/// minio-go repeats the header, except to AWS, which refuses it.
#[tokio::test]
async fn a_completion_may_repeat_how_its_upload_is_encrypted() {
    let s3 = open().await;
    for (begin, expected) in [(&[SERVER][..], 200), (&[], 400)] {
        let begun = s3.call("POST", "/bucket/k?uploads", begin, "").await.ok();
        let id = begun.element("UploadId").unwrap();
        let part = format!("/bucket/k?partNumber=1&uploadId={id}");
        let refused = s3.call("PUT", &part, &[SERVER], "x").await;
        refused.is(400, "InvalidArgument");
        let etag = s3.put(&part, "x").await.ok().header("etag").to_owned();
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        let path = format!("/bucket/k?uploadId={id}");
        let other = [(SERVER.0, "aws:kms")];
        let refused = s3.call("POST", &path, &other, document.clone()).await;
        refused.is(400, "InvalidArgument");
        let completed = s3.call("POST", &path, &[SERVER], document).await;
        assert_eq!(completed.status, expected);
    }
}

#[tokio::test]
async fn bucket_may_encrypt_by_default() {
    let s3 = open().await;
    let path = "/bucket?encryption";
    let none = "ServerSideEncryptionConfigurationNotFoundError";
    s3.get(path).await.is(404, none);
    let document = |inner: &str| {
        format!(
            "<ServerSideEncryptionConfiguration><Rule>{inner}</Rule></ServerSideEncryptionConfiguration>"
        )
    };
    let by_default = |algorithm: &str| {
        document(&format!(
            "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>{algorithm}</SSEAlgorithm>\
             </ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled>"
        ))
    };
    s3.put(path, by_default("aws:kms"))
        .await
        .is(501, "NotImplemented");
    s3.put(path, by_default("AES1"))
        .await
        .is(400, "MalformedXML");
    let kms = by_default("AES256").replace(
        "</SSEAlgorithm>",
        "</SSEAlgorithm><KMSMasterKeyID>key</KMSMasterKeyID>",
    );
    s3.put(path, kms).await.is(400, "InvalidArgument");
    s3.put("/bucket/before", "x").await.ok();
    // A rule that blocks nothing and names no algorithm is about the default all the same.
    let only_key = document("<BucketKeyEnabled>true</BucketKeyEnabled>");
    for (rule, has_key) in [(only_key.clone(), "true"), (document(""), "false")] {
        s3.put(path, rule).await.ok();
        let shown = s3.get(path).await.ok();
        assert_eq!(shown.element("SSEAlgorithm").as_deref(), Some("AES256"));
        assert_eq!(shown.element("BucketKeyEnabled").as_deref(), Some(has_key));
        let put = s3.put("/bucket/k", "x").await.ok();
        assert_eq!(put.header(SERVER.0), "AES256");
        s3.call("DELETE", path, &[], "").await.ok();
        s3.get(path).await.is(404, none);
    }
    s3.put(path, by_default("AES256")).await.ok();
    assert_eq!(
        s3.get(path).await.ok().element("SSEAlgorithm").unwrap(),
        "AES256"
    );
    let bucket_key = |answer: Reply| answer.element("BucketKeyEnabled").unwrap();
    assert_eq!(bucket_key(s3.get(path).await.ok()), "false");
    s3.put(path, only_key).await.ok();
    assert_eq!(bucket_key(s3.get(path).await.ok()), "true");
    s3.put(path, by_default("AES256")).await.ok();
    assert_eq!(bucket_key(s3.get(path).await.ok()), "false");
    let with_key = by_default("AES256").replace("false", "true");
    s3.put(path, with_key).await.ok();
    assert_eq!(bucket_key(s3.get(path).await.ok()), "true");
    let put = s3.put("/bucket/k", "content").await.ok();
    assert_eq!(put.header(SERVER.0), "AES256");
    assert_eq!(s3.get("/bucket/k").await.text(), "content");
    assert_eq!(s3.get("/bucket/before").await.header(SERVER.0), "");
    let customer = secure(&s3, "PUT", "/bucket/c", &key(1), "x").await.ok();
    assert_eq!(customer.header(SERVER.0), "");
    s3.call("DELETE", path, &[], "").await.ok();
    s3.get(path).await.is(404, none);
    assert_eq!(s3.put("/bucket/k", "x").await.ok().header(SERVER.0), "");
}

#[tokio::test]
async fn policy_may_demand_encryption() {
    let s3 = open().await;
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*",
        "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}}]}"#;
    s3.put("/bucket?policy", policy).await.ok();
    s3.put("/bucket/k", "x").await.is(403, "AccessDenied");
    s3.call("PUT", "/bucket/k", &[SERVER], "x").await.ok();
    secure(&s3, "PUT", "/bucket/k", &key(1), "x")
        .await
        .is(403, "AccessDenied");
}
