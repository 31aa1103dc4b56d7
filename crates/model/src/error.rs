//! What can go wrong, in the words of the domain. The doors translate it to their own codes.

use archipel_cluster as cluster;
use archipel_storage as storage;

/// An error of an operation on buckets, keys, objects or uploads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no bucket of that name, or it was deleted meanwhile.
    #[error("no such bucket")]
    NoSuchBucket,
    /// A bucket of that name exists already.
    #[error("the bucket exists already")]
    BucketExists,
    /// The bucket still holds objects.
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// There is no object of that key.
    #[error("no such key")]
    NoSuchKey,
    /// There is no such upload: it never was, was completed, or was aborted.
    #[error("no such upload")]
    NoSuchUpload,
    /// There is no access key of that id.
    #[error("no such access key")]
    NoSuchAccessKey,
    /// An access key of that id exists already.
    #[error("the access key exists already")]
    AccessKeyExists,
    /// A part that was named does not exist (any more).
    #[error("no such part: {0}")]
    InvalidPart(u16),
    /// A name breaks the rules; the text says which.
    #[error("{0}")]
    InvalidName(String),
    /// A condition of the request does not hold.
    #[error("a precondition does not hold")]
    PreconditionFailed,
    /// Another operation on the same thing is under way: try again.
    #[error("a conflicting operation is under way")]
    Conflict,
    /// No room: reading and deleting go on.
    #[error("no space left: {0}")]
    Full(String),
    /// The operation may or may not have taken effect, or could not begin: try again.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Too much is under way: try again later.
    #[error("busy: {0}")]
    Busy(String),
    /// The data is damaged here and no good copy is in reach.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Larger than what can be stored.
    #[error("too large")]
    TooLarge,
    /// A defect or a failure that an operator must look at.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Error {
        match error {
            cluster::Error::Unavailable(why) => Error::Unavailable(why),
            cluster::Error::Guarded => Error::NoSuchUpload,
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
            storage::Error::Refused(why) => Error::Internal(why),
        }
    }
}
