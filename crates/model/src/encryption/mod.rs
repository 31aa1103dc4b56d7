//! Encryption of content at rest.
//!
//! Each object and each upload has a random key of its own. Its row holds that key, wrapped by the
//! customer's key (SSE-C) or by a key of the cluster's keyring (SSE-S3). The parts of an upload
//! have keys that derive from the upload's. Blocks hold sealed content, and are named by the hash
//! of that. Sizes, keys of objects, headers, tags and checksums are not encrypted.
//!
//! | module | what it holds |
//! |---|---|
//! | [`keyring`] | the cluster's keys |
//! | [`rotation`] | new keys of the ring, and its state |
//! | `secret` | secrets in rows of the control data |
//! | `sweep` | takes earlier keys of the ring out of use |

pub mod keyring;
pub mod rotation;
pub(crate) mod secret;
pub(crate) mod sweep;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use archipel_base::boxed;
use archipel_storage::RowKey;

use crate::Model;
use crate::bucket::Bucket;
use crate::cipher::wrap::{self, KEY_BYTES};
use crate::cipher::{
    BlockedEncryption, ContentKey, CustomerKey, DataKey, Encryption, EncryptionKind,
};
use crate::error::Error;
use crate::object::ObjectHead;
use crate::objects::ObjectWriter;

/// The encryption of new content.
#[derive(Clone)]
pub enum Encrypt {
    /// By a key that the cluster keeps.
    Server,
    /// By a key that the customer keeps.
    Customer(CustomerKey),
}

/// The key of new content, and what the row will say of it.
pub struct Sealing {
    pub(crate) encryption: Encryption,
    pub(crate) key: DataKey,
}

impl Sealing {
    /// Returns what the row of an upload says.
    pub fn encryption(&self) -> Box<Encryption> {
        Box::new(self.encryption.clone())
    }
}

/// Returns the bucket and the key for which a key was wrapped: a wrapped key that is copied
/// elsewhere opens nothing.
fn context(bucket: &Bucket, key: &str) -> Vec<u8> {
    [bucket.id.as_bytes(), key.as_bytes()].concat()
}

/// Returns the context of an object's row: behind its tag, the row's key.
pub(crate) fn object_context(row: &RowKey) -> &[u8] {
    row.key.get(1..).unwrap_or_default()
}

/// A change of the encryption of new objects of a bucket. A field that is `None` changes nothing: a
/// change of the default lifts no block, and a block changes no default. Turning the default off also
/// forgets the S3 Bucket Key, and the statement that nothing is blocked. A block stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefaultEncryption {
    /// True if they are encrypted by a key of the ring.
    pub is_enabled: Option<bool>,
    /// True if an S3 Bucket Key was asked for.
    pub has_bucket_key: Option<bool>,
    /// The encryption that they may not have.
    pub blocked: Option<BlockedEncryption>,
}

impl Model {
    /// Changes the encryption of new objects of a bucket where the request does not say how.
    #[boxed]
    pub async fn set_default_encryption(
        &self,
        bucket: &Bucket,
        default: DefaultEncryption,
    ) -> Result<Arc<Bucket>, Error> {
        self.change_bucket(bucket, move |bucket| {
            bucket.encrypts = default.is_enabled.unwrap_or(bucket.encrypts);
            let forgets = default.is_enabled == Some(false);
            let has_bucket_key = default.has_bucket_key.unwrap_or(bucket.has_bucket_key);
            bucket.has_bucket_key = has_bucket_key && !forgets;
            let known = bucket.blocked_encryption;
            let known = known.filter(|of| !forgets || *of != BlockedEncryption::Nothing);
            bucket.blocked_encryption = default.blocked.or(known);
        })
        .await
    }

    /// Returns a new key for content of an object or an upload.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`]; errors of reading the keyring.
    #[boxed]
    pub async fn seal(&self, bucket: &Bucket, key: &str, how: &Encrypt) -> Result<Sealing, Error> {
        let (mut fresh, mut salt) = ([0; KEY_BYTES], [0; 32]);
        self.fill_random(&mut fresh);
        self.fill_random(&mut salt);
        let data_key = DataKey::new(fresh);
        wrap::wipe(&mut fresh);
        let (kind, id, outer) = match how {
            Encrypt::Customer(CustomerKey(outer)) => {
                (EncryptionKind::Customer, None, outer.clone())
            }
            Encrypt::Server => {
                let (id, outer) = self.newest_master_key().await?;
                (EncryptionKind::Server, Some(id), outer)
            }
        };
        let wrapped = wrap::wrap(outer.bytes(), &context(bucket, key), salt, &data_key);
        let wrapped = wrapped.ok_or_else(|| Error::Internal("a key cannot be wrapped".into()))?;
        Ok(Sealing {
            encryption: Encryption {
                kind,
                key: id,
                wrapped,
            },
            key: data_key,
        })
    }

    /// Returns the key of content that is encrypted so.
    ///
    /// # Errors
    /// [`Error::KeyNeeded`] if it takes a customer's key and there is none; [`Error::WrongKey`];
    /// [`Error::NoMasterKey`].
    #[boxed]
    pub async fn unseal(
        &self,
        bucket: &Bucket,
        key: &str,
        encryption: &Encryption,
        customer: Option<&CustomerKey>,
    ) -> Result<DataKey, Error> {
        self.unseal_in(&context(bucket, key), encryption, customer)
            .await
    }

    async fn unseal_in(
        &self,
        context: &[u8],
        encryption: &Encryption,
        customer: Option<&CustomerKey>,
    ) -> Result<DataKey, Error> {
        match encryption.kind {
            EncryptionKind::Customer => {
                let customer = customer.ok_or(Error::KeyNeeded)?;
                encryption.open(&customer.0, context).ok_or(Error::WrongKey)
            }
            EncryptionKind::Server => {
                let outer = self.master_key(encryption.key.unwrap_or_default()).await?;
                let opened = encryption.open(&outer, context);
                opened.ok_or_else(|| Error::Damaged("the key of an object does not open".into()))
            }
        }
    }

    /// Returns the key of the content of an object's row, if the cluster itself has it.
    pub(crate) async fn content_key_of(
        &self,
        row: &RowKey,
        head: &ObjectHead,
    ) -> Result<ContentKey, Error> {
        let Some(encryption) = &head.encryption else {
            return Ok(ContentKey::Plain);
        };
        let context = object_context(row).to_vec();
        match encryption.kind {
            EncryptionKind::Customer => Ok(ContentKey::Closed { context }),
            EncryptionKind::Server => {
                // Rarely used, and large: it must not make every reader's future larger.
                let opened = Box::pin(self.unseal_in(&context, encryption, None)).await?;
                Ok(ContentKey::Open(opened))
            }
        }
    }
}

impl ObjectWriter {
    /// Encrypts the content. Must precede the content.
    ///
    /// # Errors
    /// [`Error::Internal`].
    pub fn encrypt(&mut self, sealing: &Sealing) -> Result<(), Error> {
        self.content
            .encrypt(&sealing.key, sealing.encryption.kind)?;
        self.content.encryption = Some(sealing.encryption());
        Ok(())
    }
}
