//! Versions in a bucket that never had any: each object is its own only version, `null`.

use super::client::{Endpoint, Reply};

const OTHER: &str = "3sL4kqtJlcpXroDTDmJ_rmSpXd3dIbrH";

fn texts(reply: &Reply, name: &str) -> Vec<String> {
    let text = reply.text();
    let start = format!("<{name}>");
    let pieces = text.split(&start).skip(1);
    let inner = pieces.map(|piece| piece.split_once("</").unwrap().0.to_owned());
    inner.collect()
}

/// A listing of objects shows neither old versions nor delete markers.
#[tokio::test]
async fn a_bucket_that_keeps_versions_says_that_they_must_be_deleted() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let told = async || {
        let refused = s3.call("DELETE", "/bucket", &[], "").await;
        refused.is(409, "BucketNotEmpty");
        refused.element("Message").unwrap()
    };
    assert!(!told().await.contains("versions"));
    for status in ["Enabled", "Suspended"] {
        let document =
            format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
        s3.put("/bucket?versioning", document).await.ok();
        let why = told().await;
        assert!(why.ends_with("You must delete all versions in the bucket."));
    }
}

#[tokio::test]
async fn every_object_is_listed_as_the_latest_null_version() {
    let s3 = Endpoint::open().await;
    for key in ["a", "dir/1", "dir/2", "z ü"] {
        s3.put(&format!("/bucket/{key}"), "x").await.ok();
    }
    let whole = s3.get("/bucket?versions").await.ok();
    assert_eq!(texts(&whole, "Key"), ["a", "dir/1", "dir/2", "z ü"]);
    assert_eq!(texts(&whole, "VersionId"), ["null"; 4]);
    assert_eq!(texts(&whole, "IsLatest"), ["true"; 4]);
    assert_eq!(texts(&whole, "Owner").len(), 4);
    assert_eq!(whole.element("IsTruncated").unwrap(), "false");
    assert_eq!(whole.element("NextKeyMarker"), None);

    let path = "/bucket?versions&delimiter=/&max-keys=2&encoding-type=url";
    let first = s3.get(path).await.ok();
    assert_eq!(texts(&first, "Key"), ["a"]);
    assert_eq!(texts(&first, "CommonPrefixes").len(), 1);
    assert_eq!(first.element("NextKeyMarker").unwrap(), "dir/");
    assert_eq!(first.element("NextVersionIdMarker"), None);
    let second = s3.get(&format!("{path}&key-marker=dir/")).await.ok();
    assert_eq!(texts(&second, "Key"), ["z%20%C3%BC"]);

    let path = "/bucket?versions&max-keys=1&prefix=dir";
    let first = s3.get(path).await.ok();
    assert_eq!(first.element("NextKeyMarker").unwrap(), "dir/1");
    assert_eq!(first.element("NextVersionIdMarker").unwrap(), "null");
    let next = format!("{path}&key-marker=dir/1&version-id-marker=null");
    let second = s3.get(&next).await.ok();
    assert_eq!(texts(&second, "Key"), ["dir/2"]);
    assert_eq!(second.element("IsTruncated").unwrap(), "false");

    for (query, code) in [
        ("version-id-marker=null", "InvalidArgument"),
        ("key-marker=a&version-id-marker=", "InvalidArgument"),
        ("key-marker=a&version-id-marker=1", "InvalidArgument"),
        ("max-keys=-1", "InvalidArgument"),
        ("encoding-type=base64", "InvalidArgument"),
    ] {
        s3.get(&format!("/bucket?versions&{query}"))
            .await
            .is(400, code);
    }
}

#[tokio::test]
async fn the_null_version_is_the_object() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let null = "/bucket/k?versionId=null";
    assert_eq!(s3.get(null).await.ok().text(), "x");
    s3.call("HEAD", null, &[], "").await.ok();
    let attributes = ("x-amz-object-attributes", "ETag");
    let path = "/bucket/k?attributes&versionId=null";
    s3.call("GET", path, &[attributes], "").await.ok();
    s3.get("/bucket/k?tagging&versionId=null").await.ok();
    let source = ("x-amz-copy-source", "bucket/k?versionId=null");
    s3.call("PUT", "/bucket/copy", &[source], "").await.ok();
    let body = "<Delete><Object><Key>copy</Key><VersionId>null</VersionId></Object></Delete>";
    let deleted = s3.call("POST", "/bucket?delete", &[], body).await.ok();
    assert_eq!(texts(&deleted, "VersionId"), ["null"]);
    s3.get("/bucket/copy").await.is(404, "NoSuchKey");
    s3.call("DELETE", null, &[], "").await.ok();
    s3.get("/bucket/k").await.is(404, "NoSuchKey");
    s3.get(null).await.is(404, "NoSuchVersion");
}

#[tokio::test]
async fn other_versions_do_not_exist() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", "x").await.ok();
    let begun = s3.call("POST", "/bucket/k?uploads", &[], "").await.ok();
    let upload = begun.element("UploadId").unwrap();
    let part = format!("/bucket/k?partNumber=1&uploadId={upload}");
    let malformed = "1".repeat(33);
    for (id, status, code) in [
        (OTHER, 404, "NoSuchVersion"),
        ("1", 400, "InvalidArgument"),
        ("", 400, "InvalidArgument"),
        (&malformed, 400, "InvalidArgument"),
        ("3sL4kqtJlcpXroDTDmJ/rmSpXd3dIbrH", 400, "InvalidArgument"),
    ] {
        for path in ["/bucket/k?", "/bucket/k?tagging&", "/bucket/k?attributes&"] {
            let attributes = ("x-amz-object-attributes", "ETag");
            let path = format!("{path}versionId={id}");
            let reply = s3.call("GET", &path, &[attributes], "").await;
            reply.is(status, code);
        }
        let source = format!("bucket/k?versionId={id}");
        for path in ["/bucket/copy", &part] {
            let headers = [("x-amz-copy-source", source.as_str())];
            let copied = s3.call("PUT", path, &headers, "").await;
            copied.is(status, code);
        }
    }
    // There is nothing to delete. S3 confirms that.
    let path = format!("/bucket/k?versionId={OTHER}");
    let deleted = s3.call("DELETE", &path, &[], "").await;
    assert_eq!(deleted.status, 204);
    s3.call("DELETE", "/bucket/k?versionId=1", &[], "")
        .await
        .is(400, "InvalidArgument");
    let entry = |id: &str| format!("<Object><Key>k</Key><VersionId>{id}</VersionId></Object>");
    let body = format!("<Delete>{}{}</Delete>", entry(OTHER), entry("1"));
    let deleted = s3.call("POST", "/bucket?delete", &[], body).await.ok();
    assert_eq!(texts(&deleted, "Deleted").len(), 1);
    assert_eq!(texts(&deleted, "Code"), ["NoSuchVersion"]);
    assert_eq!(s3.get("/bucket/k").await.text(), "x");
}
