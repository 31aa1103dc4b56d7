//! The steps that PutObject, PostObject, CopyObject and CompleteMultipartUpload share.

use archipel_model::{Bucket, Model, ObjectHead, ObjectWriter, VersionId};

use super::set_version_header;
use crate::s3::auth::{Authorised, OnObject};
use crate::s3::call::Call;
use crate::s3::error::S3Result;
use crate::s3::lifecycle;
use crate::s3::respond::Answer;
use crate::s3::sse::NewEncryption;

/// Begins an object, encrypted as the request or its bucket wants.
///
/// # Errors
/// Those of the model.
pub async fn begin(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    encryption: Option<&NewEncryption>,
) -> S3Result<ObjectWriter> {
    let mut writer = call.model.begin_object(on.bucket(), on.key())?;
    if let Some(new) = encryption {
        writer.encrypt(&new.seal(call, on.bucket(), on.key()).await?)?;
    }
    Ok(writer)
}

/// The version and the expiration of an object that was made, for headers.
pub struct Made {
    id: VersionId,
    expiration: Option<String>,
}

impl Made {
    pub fn of(model: &Model, bucket: &Bucket, key: &str, head: &ObjectHead) -> Made {
        Made {
            id: head.id,
            expiration: lifecycle::expiration(model, bucket, key, head),
        }
    }

    /// Sets the headers of an answer.
    ///
    /// # Errors
    /// Those of headers.
    pub fn set_on(&self, answer: &mut Answer, bucket: &Bucket) -> S3Result<()> {
        set_version_header(answer, bucket, self.id)?;
        lifecycle::set_expiration_header(answer, self.expiration.as_deref())
    }
}
