//! Errors in terms of the domain. The endpoints translate them to their own codes.

use archipel_base::codec::DecodeError;
use archipel_cluster as cluster;
use archipel_storage as storage;

use crate::object::Marker;

/// An error of an operation on buckets, keys, objects or uploads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No bucket has that name, or the bucket was deleted meanwhile.
    #[error("no such bucket")]
    NoSuchBucket,
    /// A bucket of that name exists already.
    #[error("the bucket already exists")]
    BucketExists,
    /// The owner has as many buckets as [the limit](crate::ModelOptions::buckets_per_user) allows.
    #[error("the owner has as many buckets as limits.buckets_per_user allows: {0}")]
    TooManyBuckets(usize),
    /// No bucket, or not this one, has that name as an alias.
    #[error("no such alias")]
    NoSuchAlias,
    /// The name is the bucket's own: it stays as long as the bucket.
    #[error("a bucket keeps the name that it was created with; only aliases can be removed")]
    OwnName,
    /// The bucket still holds objects.
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// No object has that key.
    #[error("no such key")]
    NoSuchKey,
    /// The current version is a delete marker, so no object has that key.
    #[error("the object was deleted")]
    Deleted(Marker),
    /// The named version is a delete marker.
    #[error("the version is a delete marker")]
    IsMarker(Marker),
    /// No version of the object has that id.
    #[error("no such version")]
    NoSuchVersion,
    /// The upload does not exist: it was never begun, or it was completed or aborted.
    #[error("no such upload")]
    NoSuchUpload,
    /// No access key has that id.
    #[error("no such access key")]
    NoSuchAccessKey,
    /// No token of the admin API has that id.
    #[error("no such token")]
    NoSuchToken,
    /// An access key of that id exists already.
    #[error("the access key already exists")]
    AccessKeyExists,
    /// No user, group, role, policy or identity provider has that name. The text says which.
    #[error("{0}")]
    NoSuchEntity(String),
    /// A user, group, role, policy or identity provider of that name exists already.
    #[error("{0}")]
    EntityExists(String),
    /// The entity to be deleted is still in use. The text says what has to go first.
    #[error("{0}")]
    EntityInUse(String),
    /// There are too many already.
    #[error("{0}")]
    LimitExceeded(String),
    /// A text is no token of a session of this cluster.
    #[error("the session token is not one that this cluster has given out")]
    InvalidSession,
    /// A session is over, or was revoked.
    #[error("the session is over")]
    SessionExpired,
    /// A part that the request names does not exist, or no longer exists.
    #[error("no such part: {0}")]
    InvalidPart(u16),
    /// A document is no policy. The text says where and why.
    #[error("{0}")]
    MalformedPolicy(String),
    /// A name breaks a rule. The text names the rule.
    #[error("{0}")]
    InvalidName(String),
    /// A value breaks a rule. The text names the value and the rule.
    #[error("{0}")]
    InvalidValue(String),
    /// The bucket blocks public access, and the request would allow it.
    #[error("the bucket blocks public access")]
    PublicAccessBlocked,
    /// Access control lists do not count in the bucket.
    #[error("the bucket does not allow access control lists")]
    AclsDisabled,
    /// The bucket's access control list grants something to others.
    #[error("the bucket's access control list grants access to others")]
    AclGrantsOthers,
    /// Object lock keeps versioning enabled.
    #[error("object lock is configured, so versioning cannot be suspended")]
    LockKeepsVersions,
    /// Object lock needs versioning.
    #[error("object lock needs a bucket with versioning enabled")]
    LockNeedsVersions,
    /// The bucket has no object lock, and the request needs it.
    #[error("the bucket has no object lock configuration")]
    NoBucketLock,
    /// Object lock protects the version.
    #[error("object lock protects the version")]
    ProtectedByLock,
    /// The bucket would hold more than its quota allows. Deletions still work.
    #[error("{0}")]
    QuotaExceeded(String),
    /// A condition of the request does not hold.
    #[error("a condition of the request does not hold")]
    PreconditionFailed,
    /// Another operation on the same bucket is in progress. Try again.
    #[error("a conflicting operation is in progress")]
    Conflict,
    /// No space is left. Reads and deletions still work.
    #[error("no space left: {0}")]
    Full(String),
    /// The operation may or may not have taken effect, or could not begin. Try again.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// This node does not know the buckets and access keys: it has not read them yet, or has not
    /// confirmed them for too long. Nothing was done. Try again, here or on another node.
    #[error("{0}")]
    Unconfirmed(String),
    /// Too many operations are in progress. Try again later.
    #[error("busy: {0}")]
    Busy(String),
    /// The data is damaged here, and no node that answers has a good copy.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A causality token or a seen marker is not one that was given out for this item or range.
    #[error("the causality token or seen marker was not given out for this item or range")]
    InvalidCausalityToken,
    /// The item has too many concurrent values.
    #[error(
        "the item has too many concurrent values: read it, and insert with its causality token"
    )]
    TooManyValues,
    /// The answer would be too large.
    #[error("the answer would be too large: ask for less at once")]
    AnswerTooLarge,
    /// The content is encrypted by a customer's key, which is missing.
    #[error("the content is encrypted by a key that the request does not give")]
    KeyNeeded,
    /// The content is encrypted by another key of the customer.
    #[error("the content is encrypted by another key")]
    WrongKey,
    /// The cluster's key of the content, or the keyring, cannot be opened.
    #[error("no key: {0}")]
    NoMasterKey(String),
    /// The object is too large to be stored.
    #[error("too large")]
    TooLarge,
    /// A defect, or a failure that an operator must examine.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Returns the error for a secret that could not be sealed.
    pub(crate) fn not_sealed() -> Error {
        Error::Internal("a secret cannot be sealed".into())
    }
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Error {
        match error {
            cluster::Error::Unavailable(why) => Error::Unavailable(why),
            cluster::Error::Overtaken => Error::Unavailable(error.to_string()),
            cluster::Error::Guarded => Error::NoSuchUpload,
            cluster::Error::Held => Error::ProtectedByLock,
            cluster::Error::Storage(error) => error.into(),
        }
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Error {
        match error {
            storage::Error::Full(why) => Error::Full(why),
            storage::Error::Busy(why) => Error::Busy(why),
            storage::Error::Damaged(why) | storage::Error::NoBlock(why) => Error::Damaged(why),
            storage::Error::Failed(why) | storage::Error::Io(why) => Error::Unavailable(why),
            // Another replica may be able to read it.
            newer @ storage::Error::Newer(_) => Error::Unavailable(newer.to_string()),
            storage::Error::Refused(why) => Error::Internal(why),
        }
    }
}

/// Returns the error for a row that cannot be decoded.
pub(crate) fn damaged_row(error: DecodeError) -> Error {
    Error::Damaged(format!("a row cannot be read: {error}"))
}
