use archipel_access::{Action, ResourceKind};
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use proptest::prelude::*;

use super::{BucketOp, ObjectOp, Operation, SUB_RESOURCES, refuse_headers, route};
use crate::s3::error::{Code, S3Result};
use crate::s3::target::Target;

fn routed(method: &str, uri: &str, copy: bool) -> S3Result<Operation> {
    let uri: Uri = uri.parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("h"));
    if copy {
        headers.insert("x-amz-copy-source", HeaderValue::from_static("/b/k"));
    }
    let target = Target::of(&uri, &headers, Version::HTTP_11, &[])?;
    route(
        &Method::from_bytes(method.as_bytes()).unwrap(),
        &target,
        &headers,
    )
}

fn code(method: &str, uri: &str) -> Option<Code> {
    routed(method, uri, false).err().map(|e| e.code())
}

#[test]
fn implemented_operations_are_routed() {
    let bucket =
        |method, uri, op| assert_eq!(routed(method, uri, false), Ok(Operation::Bucket(op)));
    let object =
        |method, uri, op| assert_eq!(routed(method, uri, false), Ok(Operation::Object(op)));
    assert_eq!(routed("GET", "/", false), Ok(Operation::ListBuckets));
    assert_eq!(
        routed("GET", "/?x-id=ListBuckets&max-buckets=3", false),
        Ok(Operation::ListBuckets)
    );
    assert_eq!(routed("PUT", "/b", false), Ok(Operation::CreateBucket));
    assert_eq!(routed("POST", "/b", false), Ok(Operation::PostObject));
    bucket("GET", "/b?prefix=&delimiter=/", BucketOp::ListObjects);
    bucket("GET", "/b?list-type=2&prefix=acl", BucketOp::ListObjectsV2);
    bucket("GET", "/b/?location", BucketOp::GetBucketLocation);
    bucket("GET", "/b?prefix=x&versions", BucketOp::ListObjectVersions);
    bucket("GET", "/b?uploads&prefix=x", BucketOp::ListMultipartUploads);
    let listen = BucketOp::ListenBucketNotification;
    bucket(
        "GET",
        "/b?events=s3:ObjectCreated:*&events=x&ping=10",
        listen,
    );
    bucket("GET", "/b?events=x&uploads", BucketOp::ListMultipartUploads);
    assert_eq!(
        routed("GET", "/?events=x", false),
        Ok(Operation::ListenNotification)
    );
    object("GET", "/b/k?events=x", ObjectOp::GetObject);
    bucket("HEAD", "/b?events=x", BucketOp::HeadBucket);
    bucket("POST", "/b?delete=", BucketOp::DeleteObjects);
    bucket("DELETE", "/b?cors", BucketOp::DeleteBucketCors);
    let put = BucketOp::PutBucketLifecycleConfiguration;
    bucket("PUT", "/b?lifecycle", put);
    bucket("PUT", "/b?tagging", BucketOp::PutBucketTagging);
    object("PUT", "/b/k?tagging", ObjectOp::PutObjectTagging);
    object(
        "GET",
        "/b/k?partNumber=1&versionId=null",
        ObjectOp::GetObject,
    );
    object("GET", "/b/k?uploadId=1", ObjectOp::ListParts);
    object("PUT", "/b/k?uploadId=1&partNumber=2", ObjectOp::UploadPart);
    object("POST", "/b/k?uploads", ObjectOp::CreateMultipartUpload);
    let copied = |uri| routed("PUT", uri, true);
    assert_eq!(copied("/b/k"), Ok(Operation::Object(ObjectOp::CopyObject)));
    assert_eq!(
        copied("/b/k?uploadId=1&partNumber=1"),
        Ok(Operation::Object(ObjectOp::UploadPartCopy))
    );
}

/// A sub-resource is never taken for the plain operation.
#[test]
fn missing_features_are_not_implemented() {
    for name in SUB_RESOURCES {
        for (method, path) in [
            ("GET", "/b"),
            ("PUT", "/b"),
            ("DELETE", "/b"),
            ("GET", "/b/k"),
            ("PUT", "/b/k"),
            ("DELETE", "/b/k"),
        ] {
            let result = routed(method, &format!("{path}?{name}=1"), false);
            let plain = routed(method, path, false);
            assert_ne!(result, plain, "{method} {path}?{name}");
        }
    }
    assert_eq!(code("PUT", "/b?unheard-of"), Some(Code::NotImplemented));
    assert_eq!(code("GET", "/?session"), Some(Code::NotImplemented));
    // Links have such parameters.
    assert_eq!(
        routed("GET", "/b/k?unheard-of&v=", false),
        Ok(Operation::Object(ObjectOp::GetObject))
    );
    for (method, uri) in [
        ("PUT", "/b?replication"),
        ("PUT", "/b?metadataAnnotationTable"),
        ("POST", "/b?metadataConfiguration"),
        ("POST", "/b?metadataTable"),
        ("GET", "/b?session"),
        ("GET", "/b/k?torrent"),
        ("POST", "/b/k?select&select-type=2"),
        ("PUT", "/b/k?encryption"),
        ("DELETE", "/b/k?annotation"),
    ] {
        assert_eq!(
            code(method, uri),
            Some(Code::NotImplemented),
            "{method} {uri}"
        );
    }
    assert_eq!(code("PATCH", "/b/k"), Some(Code::MethodNotAllowed));
    assert_eq!(code("PUT", "/"), Some(Code::MethodNotAllowed));
    assert_eq!(code("POST", "/b/k"), Some(Code::MethodNotAllowed));
    assert_eq!(
        code("PUT", "/b/k?partNumber=1"),
        Some(Code::InvalidArgument)
    );
}

/// Where S3 has no such operation, nothing is missing: the method is wrong.
#[test]
fn wrong_methods_are_not_allowed() {
    for (method, uri) in [
        ("POST", "/b?cors"),
        ("POST", "/b?policy"),
        ("PUT", "/b?location"),
        ("PUT", "/b?policyStatus"),
        ("PUT", "/b?versions"),
        ("DELETE", "/b?acl"),
        ("DELETE", "/b?versioning"),
        ("GET", "/b?delete"),
        ("GET", "/b?restore"),
        ("DELETE", "/b?abac"),
        ("GET", "/b?metadataAnnotationTable"),
        ("PUT", "/b?metadataConfiguration"),
        ("PUT", "/b?metadataTable"),
        ("DELETE", "/b/k?acl"),
        ("PUT", "/b/k?torrent"),
    ] {
        assert_eq!(
            code(method, uri),
            Some(Code::MethodNotAllowed),
            "{method} {uri}"
        );
    }
}

/// Each operation needs an action, and the action is on what the operation is on.
#[test]
fn every_operation_has_its_action() {
    for op in BucketOp::ALL {
        // Its keys are in the body.
        let kind = match op {
            BucketOp::DeleteObjects => ResourceKind::Object,
            _ => ResourceKind::Bucket,
        };
        assert!(!op.actions().is_empty());
        assert!(op.actions().iter().all(|a| a.resource() == kind), "{op:?}");
    }
    for op in ObjectOp::ALL {
        assert!(!op.actions().is_empty());
        let on_object = |action: &Action| action.resource() == ResourceKind::Object;
        assert!(op.actions().iter().all(on_object), "{op:?}");
        assert!(!(op.reads_object() && op.makes_object()));
    }
}

#[test]
fn headers_of_missing_features_are_refused() {
    let code = |name: &str, value: &str| {
        let pairs = [(name, value.as_bytes())];
        refuse_headers(pairs.into_iter()).err().map(|e| e.code())
    };
    let refused = Some(Code::NotImplemented);
    assert_eq!(code("x-amz-write-offset-bytes", "5"), refused);
    assert_eq!(code("x-amz-acl", "public-read"), None);
    let namespace = |value| code("x-amz-bucket-namespace", value);
    assert_eq!(namespace("global"), None);
    assert_eq!(namespace("account-regional"), refused);
    assert_eq!(namespace("bogus"), Some(Code::InvalidArgument));
    assert_eq!(code("x-amz-date", "x"), None);
}

proptest! {
    #[test]
    fn noise_is_an_error_not_a_panic(method in "[A-Z]{1,7}", path in "[a-z/%2F]{0,20}", query in "[a-zA-Z=&-]{0,30}") {
        let _ = routed(&method, &format!("/{}?{query}", path.replace('%', "")), false);
    }
}
