//! Access keys.

use std::sync::Arc;

use archipel_base::codec;
use archipel_cluster::{Decision, How};
use archipel_storage::engine::Durability;

use super::row;
use crate::Model;
use crate::bucket::{AccessKey, Permissions, Secret};
use crate::error::Error;
use crate::rowkeys;

impl Model {
    /// Creates an access key with a random id and secret.
    pub async fn create_access_key(
        &self,
        name: &str,
        may_create_buckets: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        let id = format!("AK{}", random_text(self, 18));
        let secret = Secret::new(random_text(self, 40));
        self.import_access_key(&id, secret, name, may_create_buckets)
            .await
    }

    /// Creates an access key with a given id and secret.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for an id that is not 3 to 128 letters, digits, `_`, `-` or `.`, or
    /// a secret that is not 8 to 256 printable characters; [`Error::AccessKeyExists`].
    pub async fn import_access_key(
        &self,
        id: &str,
        secret: Secret,
        name: &str,
        may_create_buckets: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        check_access_key(id, &secret, name)?;
        let key = AccessKey {
            id: id.to_owned(),
            secret,
            name: name.to_owned(),
            created_ms: self.now_ms(),
            may_create_buckets,
        };
        let _changing = self.control().changing.lock().await;
        let value = row(codec::encode(&key));
        self.put_if_absent(rowkeys::access_key(id), value, Error::AccessKeyExists)
            .await?;
        self.changed(&rowkeys::access_key(id)).await?;
        Ok(Arc::new(key))
    }

    /// Sets whether an access key may create buckets.
    pub async fn set_may_create_buckets(
        &self,
        id: &str,
        may: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        let _changing = self.control().changing.lock().await;
        self.reread(&rowkeys::access_key(id).key).await?;
        let mut key = (*self.access_key(id).ok_or(Error::NoSuchAccessKey)?).clone();
        key.may_create_buckets = may;
        let value = row(codec::encode(&key));
        self.cluster()
            .update(
                &rowkeys::access_key(id),
                How::durable(Durability::Fsync),
                move |current| match current {
                    Some(_) => Decision::Write(Some(value.clone())),
                    None => Decision::Abort(Error::NoSuchAccessKey),
                },
            )
            .await??;
        self.changed(&rowkeys::access_key(id)).await?;
        Ok(Arc::new(key))
    }

    /// Deletes an access key; its grants go with it.
    pub async fn delete_access_key(&self, id: &str) -> Result<(), Error> {
        let known = self.find_access_key(id).await?;
        known.ok_or(Error::NoSuchAccessKey)?;
        for bucket in self.buckets() {
            if bucket.grants.contains_key(id) {
                let none = Permissions::default();
                self.set_grant(&bucket.name, id, none).await?;
            }
        }
        let _changing = self.control().changing.lock().await;
        self.cluster()
            .write(
                &rowkeys::access_key(id),
                None,
                How::durable(Durability::Fsync),
            )
            .await?;
        self.changed(&rowkeys::access_key(id)).await
    }
}

/// Random letters and digits: 32 signs, so that each random byte gives five unbiased bits.
fn random_text(model: &Model, length: usize) -> String {
    const SIGNS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut bytes = vec![0; length];
    model.fill_random(&mut bytes);
    let sign = |b: &u8| char::from(SIGNS[usize::from(b % 32)]);
    bytes.iter().map(sign).collect()
}

fn check_access_key(id: &str, secret: &Secret, name: &str) -> Result<(), Error> {
    let sign = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !(3..=128).contains(&id.len()) || !id.chars().all(sign) {
        let why = "access key id: 3 to 128 letters, digits, '_', '-' or '.' are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    let printable = secret.expose().chars().all(|c| c.is_ascii_graphic());
    if !(8..=256).contains(&secret.expose().len()) || !printable {
        let why = "secret: 8 to 256 printable ASCII characters are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    if name.len() > 256 {
        let why = "access key name: at most 256 bytes are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    Ok(())
}
