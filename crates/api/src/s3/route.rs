//! The operation of a request: one table of all that S3 has, implemented or not.
//!
//! Invariant: a query parameter that names a sub-resource which is not implemented is never
//! ignored.

use http::{HeaderMap, Method};

use super::error::{Code, S3Error, S3Result};
use super::target::Target;
use super::uri::Query;

/// The permission that an operation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Any permission on the bucket.
    Any,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Owner.
    Owner,
}

/// Defines a group of operations: the name in S3, the permission.
macro_rules! operations {
    ($(#[$doc:meta])* $group:ident { $($name:ident $need:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $group {
            $(#[allow(missing_docs)] $name,)*
        }

        impl $group {
            /// Returns the name that S3 gives it.
            pub fn name(self) -> &'static str {
                match self { $($group::$name => stringify!($name),)* }
            }

            /// Returns the permission that it needs.
            pub fn need(self) -> Need {
                match self { $($group::$name => Need::$need,)* }
            }
        }
    };
}

operations! {
    /// Operations on an existing bucket.
    BucketOp {
        DeleteBucket Owner,
        DeleteBucketCors Owner,
        DeleteBucketLifecycle Owner,
        DeleteBucketTagging Owner,
        DeleteBucketWebsite Owner,
        DeleteObjects Write,
        GetBucketCors Owner,
        GetBucketLifecycleConfiguration Owner,
        GetBucketLocation Any,
        GetBucketTagging Owner,
        GetBucketVersioning Any,
        GetBucketWebsite Owner,
        HeadBucket Any,
        ListMultipartUploads Read,
        ListObjectVersions Read,
        ListObjects Read,
        ListObjectsV2 Read,
        PutBucketCors Owner,
        PutBucketLifecycleConfiguration Owner,
        PutBucketTagging Owner,
        PutBucketWebsite Owner,
    }
}

operations! {
    /// Operations on an object or an upload.
    ObjectOp {
        AbortMultipartUpload Write,
        CompleteMultipartUpload Write,
        CopyObject Write,
        CreateMultipartUpload Write,
        DeleteObject Write,
        DeleteObjectTagging Write,
        GetObject Read,
        GetObjectAttributes Read,
        GetObjectTagging Read,
        HeadObject Read,
        ListParts Write,
        PutObject Write,
        PutObjectTagging Write,
        UploadPart Write,
        UploadPartCopy Write,
    }
}

/// An operation that is implemented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Operation {
    /// `ListBuckets`.
    ListBuckets,
    /// `CreateBucket`.
    CreateBucket,
    /// `PostObject`, whose signature is in its form.
    PostObject,
    /// On an existing bucket.
    Bucket(BucketOp),
    /// On an object.
    Object(ObjectOp),
}

impl Operation {
    /// Returns the name that S3 gives it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::ListBuckets => "ListBuckets",
            Operation::CreateBucket => "CreateBucket",
            Operation::PostObject => "PostObject",
            Operation::Bucket(op) => op.name(),
            Operation::Object(op) => op.name(),
        }
    }

    /// Returns true if the operation reads the request's body and checks it while it does.
    pub fn reads_body(self) -> bool {
        use BucketOp::{
            DeleteObjects, PutBucketCors, PutBucketLifecycleConfiguration, PutBucketTagging,
            PutBucketWebsite,
        };
        use ObjectOp::{CompleteMultipartUpload, PutObject, PutObjectTagging, UploadPart};
        match self {
            Operation::CreateBucket | Operation::PostObject => true,
            Operation::ListBuckets => false,
            Operation::Bucket(op) => matches!(
                op,
                DeleteObjects
                    | PutBucketCors
                    | PutBucketLifecycleConfiguration
                    | PutBucketTagging
                    | PutBucketWebsite
            ),
            Operation::Object(op) => matches!(
                op,
                CompleteMultipartUpload | PutObject | PutObjectTagging | UploadPart
            ),
        }
    }
}

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
const BUCKET: [Row; 23] = [
    bucket("GET", "cors", BucketOp::GetBucketCors),
    bucket("PUT", "cors", BucketOp::PutBucketCors),
    bucket("DELETE", "cors", BucketOp::DeleteBucketCors),
    bucket("GET", "lifecycle", BucketOp::GetBucketLifecycleConfiguration),
    bucket("PUT", "lifecycle", BucketOp::PutBucketLifecycleConfiguration),
    bucket("DELETE", "lifecycle", BucketOp::DeleteBucketLifecycle),
    bucket("GET", "tagging", BucketOp::GetBucketTagging),
    bucket("PUT", "tagging", BucketOp::PutBucketTagging),
    bucket("DELETE", "tagging", BucketOp::DeleteBucketTagging),
    bucket("GET", "location", BucketOp::GetBucketLocation),
    bucket("GET", "versioning", BucketOp::GetBucketVersioning),
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
];

/// The operations on objects.
const OBJECT: [Row; 14] = [
    object("GET", "attributes", ObjectOp::GetObjectAttributes),
    object("GET", "tagging", ObjectOp::GetObjectTagging),
    object("PUT", "tagging", ObjectOp::PutObjectTagging),
    object("DELETE", "tagging", ObjectOp::DeleteObjectTagging),
    object("GET", "uploadId", ObjectOp::ListParts),
    object("PUT", "uploadId", ObjectOp::UploadPart),
    object("DELETE", "uploadId", ObjectOp::AbortMultipartUpload),
    object("POST", "uploadId", ObjectOp::CompleteMultipartUpload),
    object("POST", "uploads", ObjectOp::CreateMultipartUpload),
    object("GET", "", ObjectOp::GetObject),
    object("HEAD", "", ObjectOp::HeadObject),
    object("PUT", "", ObjectOp::PutObject),
    object("DELETE", "", ObjectOp::DeleteObject),
    ("POST", "", Operation::PostObject),
];

/// S3's sub-resources: parameters that select another operation.
const SUB_RESOURCES: [&str; 46] = [
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "append",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "publicaccessblock",
    "ownershipcontrols",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "select-type",
    "session",
    "tagging",
    "torrent",
    "updateObjectEncryption",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
];

/// Parameters that name no sub-resource even without a value.
const PLAIN_PARAMETERS: [&str; 20] = [
    "bucket-region",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "response-cache-control",
    "response-content-type",
    "start-after",
    "upload-id-marker",
    "versionId",
    "x-id",
];

/// Returns the operation of a request.
///
/// # Errors
/// [`Code::NotImplemented`] for what S3 has and we do not, [`Code::MethodNotAllowed`].
pub fn route(method: &Method, target: &Target, headers: &HeaderMap) -> S3Result<Operation> {
    let (table, level) = match (&target.bucket, &target.key) {
        (None, _) => return service(method, &target.query),
        (Some(_), None) => (&BUCKET[..], "a bucket"),
        (Some(_), Some(_)) => (&OBJECT[..], "an object"),
    };
    let asked = sub_resource(&target.query);
    let same_method = |(m, ..): &&(&str, &str, Operation)| *m == method.as_str();
    let found = table
        .iter()
        .filter(same_method)
        .find(|(_, name, _)| *name == asked.unwrap_or_default());
    match (found, asked) {
        (Some((_, _, operation)), _) => refine(*operation, target, headers),
        (None, Some(name)) => Err(S3Error::not_implemented(&format!(
            "{method} of the sub-resource {name} of {level}"
        ))),
        (None, None) => Err(Code::MethodNotAllowed.into()),
    }
}

fn service(method: &Method, query: &Query) -> S3Result<Operation> {
    match (method, sub_resource(query)) {
        (&Method::GET, None) => Ok(Operation::ListBuckets),
        (_, Some(name)) => Err(S3Error::not_implemented(&format!("{method} of {name}"))),
        _ => Err(Code::MethodNotAllowed.into()),
    }
}

/// The parameter that names a sub-resource: a known one, or any unknown one without a value.
fn sub_resource(query: &Query) -> Option<&str> {
    let known = |(name, _): &(&str, &str)| SUB_RESOURCES.contains(name);
    let bare = |(name, value): &(&str, &str)| {
        value.is_empty()
            && !PLAIN_PARAMETERS.contains(name)
            && !name.starts_with("response-")
            && !is_amz(name)
    };
    let found = query.iter().find(|pair| known(pair));
    found
        .or_else(|| query.iter().find(bare))
        .map(|(name, _)| name)
}

/// Returns true for a parameter of the signature or a header in the query.
fn is_amz(name: &str) -> bool {
    let prefix = name.get(..6);
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-amz-"))
}

/// Refines an operation by its headers.
fn refine(operation: Operation, target: &Target, headers: &HeaderMap) -> S3Result<Operation> {
    let copies = headers.contains_key("x-amz-copy-source");
    let part = target.query.has("partNumber");
    Ok(match operation {
        Operation::Object(ObjectOp::PutObject) if part => {
            let why = "The request has a partNumber and no uploadId.";
            return Err(S3Error::new(Code::InvalidArgument, why));
        }
        Operation::Object(ObjectOp::PutObject) if copies => Operation::Object(ObjectOp::CopyObject),
        Operation::Object(ObjectOp::UploadPart) if copies => {
            Operation::Object(ObjectOp::UploadPartCopy)
        }
        // Forms are posted to a bucket only.
        Operation::PostObject if target.key.is_some() => {
            return Err(Code::MethodNotAllowed.into());
        }
        other => other,
    })
}

/// The beginnings of headers that ask for missing features; such headers are refused.
const REFUSED_PREFIXES: [&str; 9] = [
    "x-amz-bypass-governance-retention",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-grant-",
    "x-amz-if-match-",
    "x-amz-mfa",
    "x-amz-object-lock-",
    "x-amz-rename-source",
    "x-amz-server-side-encryption",
    "x-amz-write-offset-bytes",
];

/// Headers that are accepted with these values only, because they then change nothing.
const ONLY_VALUES: [(&str, &[&str]); 3] = [
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-bucket-object-lock-enabled", &["false"]),
    ("x-amz-object-ownership", &["BucketOwnerEnforced"]),
];

/// Refuses headers that would change the meaning of a request if they were implemented.
///
/// # Errors
/// [`Code::NotImplemented`], with the header's name.
pub fn refuse_headers<'h>(headers: impl Iterator<Item = (&'h str, &'h [u8])>) -> S3Result<()> {
    for (name, value) in headers.filter(|(name, _)| name.starts_with("x-amz-")) {
        let refused = REFUSED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
        let other_value = ONLY_VALUES
            .iter()
            .any(|(only, values)| *only == name && !values.iter().any(|v| v.as_bytes() == value));
        if refused || other_value {
            return Err(S3Error::from(Code::NotImplemented).with("Header", name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
