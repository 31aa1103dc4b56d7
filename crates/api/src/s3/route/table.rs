//! The operations by method and sub-resource: those that are implemented, and those that only S3
//! has.

use http::Method;

use super::{BucketOp, ObjectOp, Operation};
use crate::s3::error::{Code, S3Error};

/// Method, parameter, operation.
type Row = (&'static str, &'static str, Operation);

const fn bucket(method: &'static str, parameter: &'static str, op: BucketOp) -> Row {
    (method, parameter, Operation::Bucket(op))
}

const fn object(method: &'static str, parameter: &'static str, op: ObjectOp) -> Row {
    (method, parameter, Operation::Object(op))
}

/// The operations on buckets, by method and parameter; the first match counts.
#[rustfmt::skip]
const BUCKET: [Row; 66] = [
    bucket("GET", "abac", BucketOp::GetBucketAbac),
    bucket("PUT", "abac", BucketOp::PutBucketAbac),
    bucket("GET", "accelerate", BucketOp::GetBucketAccelerateConfiguration),
    bucket("PUT", "accelerate", BucketOp::PutBucketAccelerateConfiguration),
    bucket("GET", "acl", BucketOp::GetBucketAcl),
    bucket("PUT", "acl", BucketOp::PutBucketAcl),
    bucket("GET", "analytics", BucketOp::ListBucketAnalyticsConfigurations),
    bucket("DELETE", "analytics", BucketOp::DeleteBucketAnalyticsConfiguration),
    bucket("GET", "intelligent-tiering", BucketOp::ListBucketIntelligentTieringConfigurations),
    bucket("DELETE", "intelligent-tiering", BucketOp::DeleteBucketIntelligentTieringConfiguration),
    bucket("GET", "inventory", BucketOp::ListBucketInventoryConfigurations),
    bucket("DELETE", "inventory", BucketOp::DeleteBucketInventoryConfiguration),
    bucket("GET", "logging", BucketOp::GetBucketLogging),
    bucket("PUT", "logging", BucketOp::PutBucketLogging),
    bucket("GET", "metadataConfiguration", BucketOp::GetBucketMetadataConfiguration),
    bucket("DELETE", "metadataConfiguration", BucketOp::DeleteBucketMetadataConfiguration),
    bucket("GET", "metadataTable", BucketOp::GetBucketMetadataTableConfiguration),
    bucket("DELETE", "metadataTable", BucketOp::DeleteBucketMetadataTableConfiguration),
    bucket("GET", "metrics", BucketOp::ListBucketMetricsConfigurations),
    bucket("DELETE", "metrics", BucketOp::DeleteBucketMetricsConfiguration),
    bucket("GET", "ownershipControls", BucketOp::GetBucketOwnershipControls),
    bucket("PUT", "ownershipControls", BucketOp::PutBucketOwnershipControls),
    bucket("DELETE", "ownershipControls", BucketOp::DeleteBucketOwnershipControls),
    bucket("GET", "policy", BucketOp::GetBucketPolicy),
    bucket("PUT", "policy", BucketOp::PutBucketPolicy),
    bucket("DELETE", "policy", BucketOp::DeleteBucketPolicy),
    bucket("GET", "policyStatus", BucketOp::GetBucketPolicyStatus),
    bucket("GET", "publicAccessBlock", BucketOp::GetPublicAccessBlock),
    bucket("PUT", "publicAccessBlock", BucketOp::PutPublicAccessBlock),
    bucket("DELETE", "publicAccessBlock", BucketOp::DeletePublicAccessBlock),
    bucket("GET", "replication", BucketOp::GetBucketReplication),
    bucket("DELETE", "replication", BucketOp::DeleteBucketReplication),
    bucket("GET", "requestPayment", BucketOp::GetBucketRequestPayment),
    bucket("PUT", "requestPayment", BucketOp::PutBucketRequestPayment),
    bucket("GET", "cors", BucketOp::GetBucketCors),
    bucket("PUT", "cors", BucketOp::PutBucketCors),
    bucket("DELETE", "cors", BucketOp::DeleteBucketCors),
    bucket("GET", "encryption", BucketOp::GetBucketEncryption),
    bucket("PUT", "encryption", BucketOp::PutBucketEncryption),
    bucket("DELETE", "encryption", BucketOp::DeleteBucketEncryption),
    bucket("GET", "lifecycle", BucketOp::GetBucketLifecycleConfiguration),
    bucket("PUT", "lifecycle", BucketOp::PutBucketLifecycleConfiguration),
    bucket("DELETE", "lifecycle", BucketOp::DeleteBucketLifecycle),
    bucket("GET", "notification", BucketOp::GetBucketNotificationConfiguration),
    bucket("PUT", "notification", BucketOp::PutBucketNotificationConfiguration),
    bucket("GET", "tagging", BucketOp::GetBucketTagging),
    bucket("PUT", "tagging", BucketOp::PutBucketTagging),
    bucket("DELETE", "tagging", BucketOp::DeleteBucketTagging),
    bucket("GET", "location", BucketOp::GetBucketLocation),
    bucket("GET", "object-lock", BucketOp::GetObjectLockConfiguration),
    bucket("PUT", "object-lock", BucketOp::PutObjectLockConfiguration),
    bucket("GET", "versioning", BucketOp::GetBucketVersioning),
    bucket("PUT", "versioning", BucketOp::PutBucketVersioning),
    bucket("GET", "versions", BucketOp::ListObjectVersions),
    bucket("GET", "uploads", BucketOp::ListMultipartUploads),
    bucket("GET", "website", BucketOp::GetBucketWebsite),
    bucket("PUT", "website", BucketOp::PutBucketWebsite),
    bucket("DELETE", "website", BucketOp::DeleteBucketWebsite),
    bucket("POST", "delete", BucketOp::DeleteObjects),
    bucket("GET", "", BucketOp::ListObjects),
    bucket("HEAD", "", BucketOp::HeadBucket),
    ("PUT", "", Operation::CreateBucket),
    bucket("DELETE", "", BucketOp::DeleteBucket),
    ("POST", "", Operation::PostObject),
    bucket("GET", "list-type", BucketOp::ListObjectsV2),
    bucket("GET", "events", BucketOp::ListenBucketNotification),
];

/// The operations on objects.
const OBJECT: [Row; 21] = [
    object("GET", "acl", ObjectOp::GetObjectAcl),
    object("PUT", "acl", ObjectOp::PutObjectAcl),
    object("GET", "attributes", ObjectOp::GetObjectAttributes),
    object("GET", "legal-hold", ObjectOp::GetObjectLegalHold),
    object("PUT", "legal-hold", ObjectOp::PutObjectLegalHold),
    object("GET", "retention", ObjectOp::GetObjectRetention),
    object("PUT", "retention", ObjectOp::PutObjectRetention),
    object("GET", "tagging", ObjectOp::GetObjectTagging),
    object("PUT", "tagging", ObjectOp::PutObjectTagging),
    object("DELETE", "tagging", ObjectOp::DeleteObjectTagging),
    object("GET", "uploadId", ObjectOp::ListParts),
    object("PUT", "uploadId", ObjectOp::UploadPart),
    object("DELETE", "uploadId", ObjectOp::AbortMultipartUpload),
    object("POST", "uploadId", ObjectOp::CompleteMultipartUpload),
    object("POST", "uploads", ObjectOp::CreateMultipartUpload),
    object("POST", "restore", ObjectOp::RestoreObject),
    object("GET", "", ObjectOp::GetObject),
    object("HEAD", "", ObjectOp::HeadObject),
    object("PUT", "", ObjectOp::PutObject),
    object("DELETE", "", ObjectOp::DeleteObject),
    ("POST", "", Operation::PostObject),
];

/// The operations on buckets that S3 has and we do not.
const MISSING_OF_BUCKETS: [(&str, &str); 11] = [
    ("PUT", "analytics"),
    ("PUT", "intelligent-tiering"),
    ("PUT", "inventory"),
    ("PUT", "metadataAnnotationTable"),
    ("POST", "metadataConfiguration"),
    ("PUT", "metadataInventoryTable"),
    ("PUT", "metadataJournalTable"),
    ("POST", "metadataTable"),
    ("PUT", "metrics"),
    ("PUT", "replication"),
    ("GET", "session"),
];

/// The operations on objects that S3 has and we do not.
const MISSING_OF_OBJECTS: [(&str, &str); 7] = [
    ("GET", "annotation"),
    ("PUT", "annotation"),
    ("DELETE", "annotation"),
    ("PUT", "encryption"),
    ("PUT", "renameObject"),
    ("POST", "select"),
    ("GET", "torrent"),
];

/// The level of an address that names a bucket.
#[derive(Clone, Copy)]
pub enum Level {
    Bucket,
    Object,
}

impl Level {
    fn rows(self) -> &'static [Row] {
        match self {
            Level::Bucket => &BUCKET,
            Level::Object => &OBJECT,
        }
    }

    fn missing(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Level::Bucket => &MISSING_OF_BUCKETS,
            Level::Object => &MISSING_OF_OBJECTS,
        }
    }

    /// Returns the operation of a method on a sub-resource; without a name, on the bucket or object
    /// itself.
    pub fn find(self, method: &Method, name: &str) -> Option<Operation> {
        let mut rows = self.rows().iter();
        let found = rows.find(|(known, of, _)| *known == method.as_str() && *of == name);
        found.map(|(.., operation)| *operation)
    }

    /// Returns the error for a method on a sub-resource that has no operation here.
    ///
    /// Where S3 has no such operation either, nothing is missing: the method is wrong.
    pub fn refuse(self, method: &Method, name: &str) -> S3Error {
        let is_missing = self.missing().contains(&(method.as_str(), name));
        let levels = [Level::Bucket, Level::Object];
        let is_of_s3 = levels.iter().any(|level| {
            let rows = level.rows().iter().map(|(_, of, _)| *of);
            let missing = level.missing().iter().map(|(_, of)| *of);
            rows.chain(missing).any(|of| of == name)
        });
        if is_of_s3 && !is_missing {
            let methods = self.rows().iter().filter(|(_, of, _)| *of == name);
            let methods: Vec<&str> = methods.map(|(method, ..)| *method).collect();
            return S3Error::from(Code::MethodNotAllowed).with_header("allow", methods.join(", "));
        }
        let what = match self {
            Level::Bucket => "a bucket",
            Level::Object => "an object",
        };
        S3Error::not_implemented(&format!("{method} of the sub-resource {name} of {what}"))
    }
}
