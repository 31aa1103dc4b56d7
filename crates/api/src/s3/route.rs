//! The operation of a request: one table of all that S3 has, implemented or not.
//!
//! Invariant: a query parameter that names a sub-resource which is not implemented is never
//! ignored. Of those that S3 does not have either, only reads ignore any.

mod headers;
mod parameters;
mod table;

use archipel_access::Action;
use http::{HeaderMap, Method};

use super::error::{Code, S3Error, S3Result};
use super::s3_control;
use super::target::Target;

pub use headers::refuse_headers;
#[cfg(test)]
use parameters::SUB_RESOURCES;
use parameters::{listens, sub_resource};
use table::Level;

/// Defines a group of operations: the name in S3, the actions that it needs.
macro_rules! operations {
    ($(#[$doc:meta])* $group:ident { $($name:ident => $($action:ident)+,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $group {
            $(#[allow(missing_docs)] $name,)*
        }

        impl $group {
            /// All operations of the group.
            #[cfg(test)]
            pub const ALL: &[$group] = &[$($group::$name,)*];

            /// Returns the name that S3 gives it.
            pub fn name(self) -> &'static str {
                match self { $($group::$name => stringify!($name),)* }
            }

            /// Returns the actions that the caller must be allowed, all of them.
            pub fn actions(self) -> &'static [Action] {
                match self { $($group::$name => &[$(Action::$action,)+],)* }
            }
        }
    };
}

operations! {
    /// Operations on an existing bucket.
    BucketOp {
        DeleteBucket => DeleteBucket,
        DeleteBucketAnalyticsConfiguration => PutAnalyticsConfiguration,
        DeleteBucketCors => PutBucketCORS,
        DeleteBucketEncryption => PutEncryptionConfiguration,
        DeleteBucketIntelligentTieringConfiguration => PutIntelligentTieringConfiguration,
        DeleteBucketInventoryConfiguration => PutInventoryConfiguration,
        DeleteBucketLifecycle => PutLifecycleConfiguration,
        DeleteBucketMetadataConfiguration => DeleteBucketMetadataTableConfiguration,
        DeleteBucketMetadataTableConfiguration => DeleteBucketMetadataTableConfiguration,
        DeleteBucketMetricsConfiguration => PutMetricsConfiguration,
        DeleteBucketOwnershipControls => PutBucketOwnershipControls,
        DeleteBucketPolicy => DeleteBucketPolicy,
        DeleteBucketReplication => PutReplicationConfiguration,
        DeleteBucketTagging => PutBucketTagging,
        DeleteBucketWebsite => DeleteBucketWebsite,
        DeleteObjects => DeleteObject,
        DeletePublicAccessBlock => PutBucketPublicAccessBlock,
        GetBucketAbac => GetBucketAbac,
        GetBucketAccelerateConfiguration => GetAccelerateConfiguration,
        GetBucketAcl => GetBucketAcl,
        GetBucketCors => GetBucketCORS,
        GetBucketEncryption => GetEncryptionConfiguration,
        GetBucketLifecycleConfiguration => GetLifecycleConfiguration,
        GetBucketLocation => GetBucketLocation,
        GetBucketLogging => GetBucketLogging,
        GetBucketMetadataConfiguration => GetBucketMetadataTableConfiguration,
        GetBucketMetadataTableConfiguration => GetBucketMetadataTableConfiguration,
        GetBucketNotificationConfiguration => GetBucketNotification,
        GetBucketOwnershipControls => GetBucketOwnershipControls,
        GetBucketPolicy => GetBucketPolicy,
        GetBucketPolicyStatus => GetBucketPolicyStatus,
        GetBucketReplication => GetReplicationConfiguration,
        GetBucketRequestPayment => GetBucketRequestPayment,
        GetBucketTagging => GetBucketTagging,
        GetBucketVersioning => GetBucketVersioning,
        GetBucketWebsite => GetBucketWebsite,
        GetObjectLockConfiguration => GetBucketObjectLockConfiguration,
        GetPublicAccessBlock => GetBucketPublicAccessBlock,
        HeadBucket => ListBucket,
        ListBucketAnalyticsConfigurations => GetAnalyticsConfiguration,
        ListBucketIntelligentTieringConfigurations => GetIntelligentTieringConfiguration,
        ListBucketInventoryConfigurations => GetInventoryConfiguration,
        ListBucketMetricsConfigurations => GetMetricsConfiguration,
        ListMultipartUploads => ListBucketMultipartUploads,
        ListObjectVersions => ListBucketVersions,
        ListObjects => ListBucket,
        ListObjectsV2 => ListBucket,
        ListTagsForResource => ListTagsForResource,
        ListenBucketNotification => ListenBucketNotification,
        PutBucketAbac => PutBucketAbac,
        PutBucketAccelerateConfiguration => PutAccelerateConfiguration,
        PutBucketAcl => PutBucketAcl,
        PutBucketCors => PutBucketCORS,
        PutBucketEncryption => PutEncryptionConfiguration,
        PutBucketLifecycleConfiguration => PutLifecycleConfiguration,
        PutBucketLogging => PutBucketLogging,
        PutBucketNotificationConfiguration => PutBucketNotification,
        PutBucketOwnershipControls => PutBucketOwnershipControls,
        PutBucketPolicy => PutBucketPolicy,
        PutBucketRequestPayment => PutBucketRequestPayment,
        PutBucketTagging => PutBucketTagging,
        PutBucketVersioning => PutBucketVersioning,
        PutBucketWebsite => PutBucketWebsite,
        PutObjectLockConfiguration => PutBucketObjectLockConfiguration,
        PutPublicAccessBlock => PutBucketPublicAccessBlock,
        TagResource => TagResource,
        UntagResource => UntagResource,
    }
}

operations! {
    /// Operations on an object or an upload.
    ObjectOp {
        AbortMultipartUpload => AbortMultipartUpload,
        CompleteMultipartUpload => PutObject,
        CopyObject => PutObject,
        CreateMultipartUpload => PutObject,
        DeleteObject => DeleteObject,
        DeleteObjectTagging => DeleteObjectTagging,
        GetObject => GetObject,
        GetObjectAcl => GetObjectAcl,
        GetObjectAttributes => GetObject GetObjectAttributes,
        GetObjectLegalHold => GetObjectLegalHold,
        GetObjectRetention => GetObjectRetention,
        GetObjectTagging => GetObjectTagging,
        HeadObject => GetObject,
        ListParts => ListMultipartUploadParts,
        PutObject => PutObject,
        PutObjectAcl => PutObjectAcl,
        PutObjectLegalHold => PutObjectLegalHold,
        PutObjectRetention => PutObjectRetention,
        PutObjectTagging => PutObjectTagging,
        RestoreObject => RestoreObject,
        UploadPart => PutObject,
        UploadPartCopy => PutObject,
    }
}

impl ObjectOp {
    /// Returns true if the operation reads the object itself, through [`super::auth`].
    pub fn reads_object(self) -> bool {
        use ObjectOp as O;
        matches!(
            self,
            O::GetObject
                | O::GetObjectAcl
                | O::GetObjectAttributes
                | O::GetObjectLegalHold
                | O::GetObjectRetention
                | O::GetObjectTagging
                | O::HeadObject
                | O::RestoreObject
        )
    }

    /// Returns true if headers of the operation describe a new object.
    pub fn makes_object(self) -> bool {
        use ObjectOp::{CopyObject, CreateMultipartUpload, PutObject};
        matches!(self, CopyObject | CreateMultipartUpload | PutObject)
    }
}

/// An operation that is implemented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Operation {
    /// `ListBuckets`.
    ListBuckets,
    /// `ListenNotification`, on all buckets. An extension of MinIO.
    ListenNotification,
    /// `GetPublicAccessBlock` of S3 Control, whose action is `GetAccountPublicAccessBlock`.
    GetAccountPublicAccessBlock,
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
    /// Returns true if the operation writes content, and so makes a version instead of naming one.
    fn writes_content(self) -> bool {
        use ObjectOp as O;
        match self {
            Operation::Object(op) => {
                op.makes_object() || matches!(op, O::UploadPart | O::UploadPartCopy)
            }
            _ => false,
        }
    }

    /// Returns the name that S3 gives it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::ListBuckets => "ListBuckets",
            Operation::ListenNotification => "ListenNotification",
            Operation::GetAccountPublicAccessBlock => "GetAccountPublicAccessBlock",
            Operation::CreateBucket => "CreateBucket",
            Operation::PostObject => "PostObject",
            Operation::Bucket(op) => op.name(),
            Operation::Object(op) => op.name(),
        }
    }

    /// Returns true if the operation reads the request's body and checks it while it does.
    pub fn reads_body(self) -> bool {
        use BucketOp as B;
        use ObjectOp as O;
        match self {
            Operation::CreateBucket | Operation::PostObject => true,
            Operation::ListBuckets
            | Operation::ListenNotification
            | Operation::GetAccountPublicAccessBlock => false,
            Operation::Bucket(op) => matches!(
                op,
                B::DeleteObjects
                    | B::PutBucketAbac
                    | B::PutBucketAccelerateConfiguration
                    | B::PutBucketAcl
                    | B::PutBucketCors
                    | B::PutBucketEncryption
                    | B::PutBucketLifecycleConfiguration
                    | B::PutBucketLogging
                    | B::PutBucketNotificationConfiguration
                    | B::PutBucketOwnershipControls
                    | B::PutBucketPolicy
                    | B::PutBucketRequestPayment
                    | B::PutBucketTagging
                    | B::PutBucketVersioning
                    | B::PutBucketWebsite
                    | B::PutObjectLockConfiguration
                    | B::PutPublicAccessBlock
                    | B::TagResource
            ),
            Operation::Object(op) => matches!(
                op,
                O::CompleteMultipartUpload
                    | O::PutObject
                    | O::PutObjectAcl
                    | O::PutObjectLegalHold
                    | O::PutObjectRetention
                    | O::PutObjectTagging
                    | O::RestoreObject
                    | O::UploadPart
            ),
        }
    }
}

/// Returns the operation of a request.
///
/// # Errors
/// [`Code::NotImplemented`] for what S3 has and we do not, [`Code::MethodNotAllowed`].
pub fn route(method: &Method, target: &Target, headers: &HeaderMap) -> S3Result<Operation> {
    if target.control {
        return s3_control::operation(method, target);
    }
    let level = match (&target.bucket, &target.key) {
        (None, _) => return service(method, target),
        (Some(_), None) => Level::Bucket,
        (Some(_), Some(_)) => Level::Object,
    };
    let listening = listens(method, target).then_some("events");
    let asked = sub_resource(method, &target.query)?.or(listening);
    match (level.find(method, asked.unwrap_or_default()), asked) {
        (Some(operation), _) => refine(operation, target, headers),
        (None, Some(name)) => Err(level.refuse(method, name)),
        (None, None) => Err(Code::MethodNotAllowed.into()),
    }
}

fn service(method: &Method, target: &Target) -> S3Result<Operation> {
    match (method, sub_resource(method, &target.query)?) {
        (_, None) if listens(method, target) => Ok(Operation::ListenNotification),
        (&Method::GET, None) => Ok(Operation::ListBuckets),
        (_, Some(name)) => Err(S3Error::not_implemented(&format!("{method} of {name}"))),
        _ => Err(Code::MethodNotAllowed.into()),
    }
}

/// Refines an operation by its headers.
fn refine(operation: Operation, target: &Target, headers: &HeaderMap) -> S3Result<Operation> {
    let writes = operation.writes_content() || operation == Operation::PostObject;
    if writes && target.query.has("versionId") {
        let why = "This operation does not accept a version-id.";
        return Err(S3Error::argument("versionId", "", why));
    }
    let copies = headers.contains_key("x-amz-copy-source");
    let part = target.query.has("partNumber");
    Ok(match operation {
        // It would replace or delete the whole object.
        Operation::Object(ObjectOp::PutObject | ObjectOp::DeleteObject) if part => {
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

#[cfg(test)]
mod tests;
