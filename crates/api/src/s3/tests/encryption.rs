//! Server-side encryption: headers, errors, and what they protect.

use archipel_model::RingSecrets;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::client::{Door, Reply, signed};
use crate::serve::Secure;

const SERVER: (&str, &str) = ("x-amz-server-side-encryption", "AES256");
const ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";
const KEY: &str = "x-amz-server-side-encryption-customer-key";
const MD5: &str = "x-amz-server-side-encryption-customer-key-md5";

async fn open() -> Door {
    let door = Door::open().await;
    door.model.set_ring_secrets(RingSecrets {
        present: vec![b"secret".to_vec()],
        earlier: Vec::new(),
    });
    door
}

/// A request over TLS.
async fn secure(
    door: &Door,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &'static str,
) -> Reply {
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let mut request = signed(&door.key, method, path, &headers, body.into());
    request.extensions_mut().insert(Secure);
    door.send(request).await
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

fn key(byte: u8) -> Vec<(String, String)> {
    key_of("", byte)
}

/// The headers of a copy's source and its key.
fn copying(source: &str, byte: u8) -> Vec<(String, String)> {
    let mut headers: Vec<_> = key_of("", byte)
        .into_iter()
        .map(|(name, value)| (name.replacen("x-amz-", "x-amz-copy-source-", 1), value))
        .collect();
    headers.push(("x-amz-copy-source".into(), source.into()));
    headers
}

#[tokio::test]
async fn object_under_the_clusters_key_reads_as_any_other_and_says_so() {
    let door = open().await;
    let put = door
        .call("PUT", "/bucket/k", &[SERVER], "content")
        .await
        .ok();
    assert_eq!(put.header(SERVER.0), "AES256");
    assert_eq!(
        put.header("etag"),
        format!("\"{}\"", hex::encode(Md5::digest("content")))
    );
    let got = door.get("/bucket/k").await.ok();
    assert_eq!(
        (got.text().as_str(), got.header(SERVER.0)),
        ("content", "AES256")
    );
    let head = door.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(
        (head.header(SERVER.0), head.header("content-length")),
        ("AES256", "7")
    );
    let range = door
        .call("GET", "/bucket/k", &[("range", "bytes=2-4")], "")
        .await
        .ok();
    assert_eq!(range.text(), "nte");
    // S3 refuses the header where it can mean nothing.
    for method in ["GET", "HEAD", "DELETE"] {
        let refused = door.call(method, "/bucket/k", &[SERVER], "").await;
        assert_eq!(refused.status, 400, "{method}");
    }
}

#[tokio::test]
async fn customers_key_is_needed_for_all_that_shows_the_content() {
    let door = open().await;
    let put = secure(&door, "PUT", "/bucket/k", &key(1), "content")
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
        let right = secure(&door, method, path, &with(key(1)), "").await;
        assert!(
            right.status.is_success(),
            "{method} {path}: {}",
            right.text()
        );
        let wrong = secure(&door, method, path, &with(key(2)), "").await;
        let none = secure(&door, method, path, &with(Vec::new()), "").await;
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
    let got = secure(&door, "GET", "/bucket/k", &key(1), "").await.ok();
    assert_eq!(
        (got.text().as_str(), got.header(MD5)),
        ("content", key(1)[2].1.as_str())
    );
    // What needs no content needs no key.
    assert!(
        door.get("/bucket")
            .await
            .ok()
            .text()
            .contains("<Key>k</Key>")
    );
    door.call("DELETE", "/bucket/k", &[], "").await.ok();
    // A key for an object that takes none.
    door.put("/bucket/plain", "x").await.ok();
    let refused = secure(&door, "GET", "/bucket/plain", &key(1), "").await;
    refused.is(400, "InvalidRequest");
}

#[tokio::test]
async fn customers_keys_are_refused_over_plain_http_and_if_they_are_malformed() {
    let door = open().await;
    let headers = key(1);
    let plain: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let refused = door.call("PUT", "/bucket/k", &plain, "x").await;
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
        let refused = secure(&door, "PUT", "/bucket/k", &headers, "x").await;
        refused.is(400, code);
        assert!(!refused.text().contains(&key(1)[1].1));
    }
    let other = [(SERVER.0, "AES512")];
    door.call("PUT", "/bucket/k", &other, "x")
        .await
        .is(400, "InvalidEncryptionAlgorithmError");
    for kms in ["aws:kms", "aws:kms:dsse"] {
        door.call("PUT", "/bucket/k", &[(SERVER.0, kms)], "x")
            .await
            .is(501, "NotImplemented");
    }
    let with_id = [
        SERVER,
        ("x-amz-server-side-encryption-aws-kms-key-id", "id"),
    ];
    door.call("PUT", "/bucket/k", &with_id, "x")
        .await
        .is(501, "NotImplemented");
    door.get("/bucket/k").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn copy_opens_by_one_key_and_seals_by_another() {
    let door = open().await;
    secure(&door, "PUT", "/bucket/k", &key(1), "content")
        .await
        .ok();
    let headers = [copying("bucket/k", 1), key(2)].concat();
    let copied = secure(&door, "PUT", "/bucket/copy", &headers, "")
        .await
        .ok();
    assert_eq!(copied.header(MD5), key(2)[2].1);
    let got = secure(&door, "GET", "/bucket/copy", &key(2), "").await.ok();
    assert_eq!(got.text(), "content");
    secure(&door, "PUT", "/bucket/plain", &copying("bucket/k", 1), "")
        .await
        .ok();
    assert_eq!(door.get("/bucket/plain").await.text(), "content");
    let wrong = secure(&door, "PUT", "/bucket/copy", &copying("bucket/k", 2), "").await;
    wrong.is(403, "AccessDenied");
    let none = [("x-amz-copy-source", "bucket/k")];
    door.call("PUT", "/bucket/copy", &none, "")
        .await
        .is(400, "InvalidRequest");
    // A copy to itself may change the encryption and nothing else.
    let same = [("x-amz-copy-source", "bucket/plain")];
    door.call("PUT", "/bucket/plain", &same, "")
        .await
        .is(400, "InvalidRequest");
    let encrypted = [("x-amz-copy-source", "bucket/plain"), SERVER];
    door.call("PUT", "/bucket/plain", &encrypted, "").await.ok();
    assert_eq!(door.get("/bucket/plain").await.header(SERVER.0), "AES256");
}

#[tokio::test]
async fn parts_take_the_key_of_their_upload() {
    let door = open().await;
    let begun = secure(&door, "POST", "/bucket/k?uploads", &key(1), "")
        .await
        .ok();
    assert_eq!(begun.header(MD5), key(1)[2].1);
    let id = begun.element("UploadId").unwrap();
    let path = format!("/bucket/k?partNumber=1&uploadId={id}");
    let refused = secure(&door, "PUT", &path, &key(2), "x").await;
    refused.is(400, "InvalidRequest");
    door.put(&path, "x").await.is(400, "InvalidRequest");
    let part = secure(&door, "PUT", &path, &key(1), "part").await.ok();
    assert_eq!(part.header(MD5), key(1)[2].1);
    let etag = part.header("etag").to_owned();
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let path = format!("/bucket/k?uploadId={id}");
    door.call("POST", &path, &[], document).await.ok();
    door.get("/bucket/k").await.is(400, "InvalidRequest");
    let got = secure(&door, "GET", "/bucket/k", &key(1), "").await.ok();
    assert_eq!(got.text(), "part");
    // An upload without a customer's key takes none.
    let begun = door
        .call("POST", "/bucket/s?uploads", &[SERVER], "")
        .await
        .ok();
    assert_eq!(begun.header(SERVER.0), "AES256");
    let id = begun.element("UploadId").unwrap();
    let path = format!("/bucket/s?partNumber=1&uploadId={id}");
    secure(&door, "PUT", &path, &key(1), "x")
        .await
        .is(400, "InvalidRequest");
    assert_eq!(door.put(&path, "x").await.ok().header(SERVER.0), "AES256");
}

/// minio-go repeats the header, except to AWS, which refuses it.
#[tokio::test]
async fn a_completion_may_repeat_how_its_upload_is_encrypted() {
    let door = open().await;
    for (begin, expected) in [(&[SERVER][..], 200), (&[], 400)] {
        let begun = door.call("POST", "/bucket/k?uploads", begin, "").await.ok();
        let id = begun.element("UploadId").unwrap();
        let part = format!("/bucket/k?partNumber=1&uploadId={id}");
        let refused = door.call("PUT", &part, &[SERVER], "x").await;
        refused.is(400, "InvalidArgument");
        let etag = door.put(&part, "x").await.ok().header("etag").to_owned();
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        let path = format!("/bucket/k?uploadId={id}");
        let other = [(SERVER.0, "aws:kms")];
        let refused = door.call("POST", &path, &other, document.clone()).await;
        refused.is(400, "InvalidArgument");
        let completed = door.call("POST", &path, &[SERVER], document).await;
        assert_eq!(completed.status, expected);
    }
}

#[tokio::test]
async fn bucket_may_encrypt_by_default() {
    let door = open().await;
    let path = "/bucket?encryption";
    let none = "ServerSideEncryptionConfigurationNotFoundError";
    door.get(path).await.is(404, none);
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
    door.put(path, by_default("aws:kms"))
        .await
        .is(501, "NotImplemented");
    door.put(path, by_default("AES1"))
        .await
        .is(400, "MalformedXML");
    let kms = by_default("AES256").replace(
        "</SSEAlgorithm>",
        "</SSEAlgorithm><KMSMasterKeyID>key</KMSMasterKeyID>",
    );
    door.put(path, kms).await.is(400, "InvalidArgument");
    door.put(path, document("<BucketKeyEnabled>true</BucketKeyEnabled>"))
        .await
        .ok();
    door.get(path).await.ok();
    door.call("DELETE", path, &[], "").await.ok();
    door.put("/bucket/before", "x").await.ok();
    door.put(path, by_default("AES256")).await.ok();
    assert_eq!(
        door.get(path).await.ok().element("SSEAlgorithm").unwrap(),
        "AES256"
    );
    let bucket_key = |answer: Reply| answer.element("BucketKeyEnabled").unwrap();
    assert_eq!(bucket_key(door.get(path).await.ok()), "false");
    let with_key = by_default("AES256").replace("false", "true");
    door.put(path, with_key).await.ok();
    assert_eq!(bucket_key(door.get(path).await.ok()), "true");
    let put = door.put("/bucket/k", "content").await.ok();
    assert_eq!(put.header(SERVER.0), "AES256");
    assert_eq!(door.get("/bucket/k").await.text(), "content");
    assert_eq!(door.get("/bucket/before").await.header(SERVER.0), "");
    let customer = secure(&door, "PUT", "/bucket/c", &key(1), "x").await.ok();
    assert_eq!(customer.header(SERVER.0), "");
    door.call("DELETE", path, &[], "").await.ok();
    door.get(path).await.is(404, none);
    assert_eq!(door.put("/bucket/k", "x").await.ok().header(SERVER.0), "");
}

#[tokio::test]
async fn policy_may_demand_encryption() {
    let door = open().await;
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*",
        "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}}]}"#;
    door.put("/bucket?policy", policy).await.ok();
    door.put("/bucket/k", "x").await.is(403, "AccessDenied");
    door.call("PUT", "/bucket/k", &[SERVER], "x").await.ok();
    secure(&door, "PUT", "/bucket/k", &key(1), "x")
        .await
        .is(403, "AccessDenied");
}
