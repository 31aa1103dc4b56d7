//! Operations on access keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::{NodeId, boxed, codec};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;

use super::row;
use crate::bucket::{AccessKey, Bucket, Grant, Secret};
use crate::error::{Error, damaged_row};
use crate::identity::{
    Attached, Changed, KeyChange, Limits, NewKey, Reference, Role, User, unique_id,
};
use crate::rowkeys;
use crate::{Model, detached};

/// The longest name of a key for people, in bytes.
const MAX_NAME_BYTES: usize = 256;

impl Model {
    /// Creates an access key with a random id and secret, which may create no buckets.
    #[boxed]
    pub async fn create_access_key(&self, name: &str) -> Result<Arc<AccessKey>, Error> {
        self.create_key(NewKey {
            name: name.to_owned(),
            ..NewKey::default()
        })
        .await
    }

    /// Creates an access key with a random id and secret, which may create buckets.
    #[boxed]
    pub async fn create_owner_key(&self, name: &str) -> Result<Arc<AccessKey>, Error> {
        self.create_key(NewKey {
            name: name.to_owned(),
            may_create_buckets: true,
            ..NewKey::default()
        })
        .await
    }

    /// Creates an access key in one write, so that it never exists without its time of expiry.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for an id that is not 3 to 128 letters, digits, `_`, `-` or `.`, or
    /// a secret that is not 8 to 256 printable characters; [`Error::AccessKeyExists`].
    #[boxed]
    pub async fn create_key(&self, new: NewKey) -> Result<Arc<AccessKey>, Error> {
        self.add_key(new, None).await
    }

    async fn add_key(&self, new: NewKey, user: Option<Reference>) -> Result<Arc<AccessKey>, Error> {
        let random = || {
            let id = format!("AK{}", random_text(self, 18));
            (id, Secret::new(random_text(self, 40)))
        };
        let (id, secret) = new.imported.unwrap_or_else(random);
        check_access_key(&id, &secret)?;
        check_key_name(&new.name)?;
        // In policies a key that is its own user is named as users are.
        if user.is_none() {
            // Another node may have made the user just now.
            match self.find_entity::<User>(&id).await {
                Err(Error::NoSuchEntity(_)) => {}
                Ok(_) => {
                    return Err(Error::InvalidName(format!("{id:?} is the name of a user")));
                }
                Err(error) => return Err(error),
            }
        }
        let row_key = rowkeys::access_key(&id);
        let mut key = AccessKey {
            name: new.name,
            created_ms: self.now_ms(),
            may_create_buckets: new.may_create_buckets,
            expires_ms: new.expires_ms,
            incarnation: self.random_id(),
            user,
            ..AccessKey::new(id, secret)
        };
        if let Some(sealer) = self.sealer().await? {
            key.seal(&sealer)?;
        }
        let value = row(key.row());
        self.put_if_absent(row_key.clone(), value, Error::AccessKeyExists)
            .await?;
        self.tell_changed(&row_key).await;
        Ok(Arc::new(key))
    }

    /// Creates an access key for a user, with a random id and secret.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    #[boxed]
    pub async fn create_user_key(&self, user: &str) -> Result<Arc<AccessKey>, Error> {
        let user = self.find_entity::<User>(user).await?;
        if self.keys_of_user(&user)?.len() >= Limits::KEYS {
            let most = Limits::KEYS;
            let why = format!("Cannot exceed quota for AccessKeysPerUser: {most}");
            return Err(Error::LimitExceeded(why));
        }
        let (model, user) = (self.clone(), Reference::to(&*user));
        let work = async move {
            let key = model.add_key(NewKey::default(), Some(user.clone())).await?;
            let confirmed = model.confirm::<User>(&user).await;
            if let Err(Error::NoSuchEntity(_)) = confirmed {
                model.delete_key_row(&key.id).await?;
            }
            confirmed.map(|()| key)
        };
        detached("creates an access key", work).await
    }

    /// Changes an access key in one write. Returns the nodes that did not confirm the change.
    ///
    /// # Errors
    /// [`Error::NoSuchAccessKey`], [`Error::InvalidName`].
    #[boxed]
    pub async fn change_key(
        &self,
        id: &str,
        change: KeyChange,
    ) -> Result<Changed<Arc<AccessKey>>, Error> {
        check_key_name(change.name.as_deref().unwrap_or_default())?;
        self.change_key_everywhere(id, move |key| {
            if let Some(name) = &change.name {
                key.name.clone_from(name);
            }
            let may = change.may_create_buckets;
            key.may_create_buckets = may.unwrap_or(key.may_create_buckets);
            key.disabled = change.disabled.unwrap_or(key.disabled);
            key.expires_ms = change.expires_ms.unwrap_or(key.expires_ms);
            Ok(())
        })
        .await
    }

    /// Disables an access key. Returns the nodes that did not confirm the change.
    ///
    /// # Errors
    /// [`Error::NoSuchAccessKey`].
    #[boxed]
    pub async fn disable_key(&self, id: &str) -> Result<Changed<Arc<AccessKey>>, Error> {
        let change = KeyChange {
            disabled: Some(true),
            ..KeyChange::default()
        };
        self.change_key(id, change).await
    }

    /// Enables an access key again. Returns the nodes that did not confirm the change.
    ///
    /// # Errors
    /// [`Error::NoSuchAccessKey`].
    #[boxed]
    pub async fn enable_key(&self, id: &str) -> Result<Changed<Arc<AccessKey>>, Error> {
        let change = KeyChange {
            disabled: Some(false),
            ..KeyChange::default()
        };
        self.change_key(id, change).await
    }

    /// Changes an access key's row and then the cache, unless `change` fails.
    pub(super) async fn change_access_key(
        &self,
        id: &str,
        change: impl Fn(&mut AccessKey) -> Result<(), Error> + Send + Sync,
    ) -> Result<Arc<AccessKey>, Error> {
        let changed = self.change_key_everywhere(id, change).await;
        changed.map(|changed| changed.value)
    }

    async fn change_key_everywhere(
        &self,
        id: &str,
        change: impl Fn(&mut AccessKey) -> Result<(), Error> + Send + Sync,
    ) -> Result<Changed<Arc<AccessKey>>, Error> {
        let row_key = rowkeys::access_key(id);
        let how = WriteOptions::durable(Durability::Fsync);
        self.cluster()
            .update(&row_key, how, move |current| {
                // The new value derives from the current row: the key may be another incarnation by
                // now.
                match current.map(|value| codec::decode::<AccessKey>(&value.metadata)) {
                    Some(Ok(mut key)) => match change(&mut key) {
                        Ok(()) => Decision::Write(Some(row(key.row()))),
                        Err(error) => Decision::Abort(error),
                    },
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    None => Decision::Abort(Error::NoSuchAccessKey),
                }
            })
            .await??;
        let (read, unconfirmed) = self.announce(&row_key).await;
        let key = read?.map(|metadata| AccessKey::of_row(&metadata, self.keyring()));
        let key = key.transpose().map_err(damaged_row)?.map(Arc::new);
        Ok(Changed {
            value: key.ok_or(Error::NoSuchAccessKey)?,
            unconfirmed,
        })
    }

    /// Seals an access key's secret by the newest key of the ring. Returns false if the key is
    /// gone.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if this node does not know the secret.
    pub(crate) async fn reseal_access_key(&self, id: &str) -> Result<bool, Error> {
        let Some(sealer) = self.sealer().await? else {
            return Ok(false);
        };
        let change = |key: &mut AccessKey| key.reseal(&sealer, self.keyring());
        match self.change_access_key(id, change).await {
            Ok(_) => Ok(true),
            Err(Error::NoSuchAccessKey) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes an access key. When this returns, this node does not know the key any more, and it
    /// has notified all other nodes that answer; it returns those that did not confirm. A node that
    /// is cut off learns of the deletion when it is back, or stops answering at the end of its
    /// lease. A caller that goes away does not stop the deletion.
    ///
    /// Without the key, its grants permit nothing, not even if its id is imported again. They are
    /// dropped in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchAccessKey`].
    #[boxed]
    pub async fn delete_access_key(&self, id: &str) -> Result<Vec<NodeId>, Error> {
        let (model, id) = (self.clone(), id.to_owned());
        let deletion = async move { model.delete_key_row(&id).await };
        detached("deletes an access key", deletion).await
    }

    async fn delete_key_row(&self, id: &str) -> Result<Vec<NodeId>, Error> {
        let row_key = rowkeys::access_key(id);
        let how = WriteOptions::durable(Durability::Fsync);
        let deleted = self
            .cluster()
            .update(&row_key, how, |current| match current {
                Some(_) => Decision::Write(None),
                None => Decision::Abort(Error::NoSuchAccessKey),
            });
        let deleted = deleted.await;
        if deleted.is_ok() {
            // The cache drops the key at once, even if the row cannot be read again.
            self.control().remove(&row_key.key)?;
        }
        self.control().dead_grants.ask();
        // Another node may have created the key again. If the deletion failed, its outcome is
        // unknown: the caller gets the error, whatever the row says now.
        let reread = self.reread(&row_key.key);
        let (_, unconfirmed) = tokio::join!(reread, self.cluster().notify(row_key.key.clone()));
        deleted?.map(|()| unconfirmed)
    }

    /// Removes the grants of deleted access keys. Returns the number of buckets that had such
    /// grants.
    pub(crate) async fn drop_dead_grants(&self) -> Result<usize, Error> {
        let mut changed = 0;
        let mut alive = BTreeMap::new();
        for bucket in self.buckets()? {
            let mut dead = Vec::new();
            for (id, grant) in &bucket.grants {
                let cached = self.known_access_key(id)?;
                if cached.is_some_and(|key| key.incarnation == grant.incarnation) {
                    continue;
                }
                match self.grants_to_identity(id, grant).await? {
                    Some(true) => continue,
                    Some(false) => {
                        dead.push((id.clone(), *grant));
                        continue;
                    }
                    None => {}
                }
                // Another node may have created the key a moment ago, so only the row proves that
                // the incarnation is gone. A deleted incarnation never comes back.
                if !alive.contains_key(id) {
                    let key = self.refresh_access_key(id).await?;
                    alive.insert(id.clone(), key.map(|key| key.incarnation));
                }
                if alive.get(id) != Some(&Some(grant.incarnation)) {
                    dead.push((id.clone(), *grant));
                }
            }
            if !dead.is_empty() {
                self.drop_grants(&bucket, &dead).await?;
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Returns whether the user or role of a grant exists; `None` if the grant is that of an access
    /// key.
    async fn grants_to_identity(&self, id: &str, grant: &Grant) -> Result<Option<bool>, Error> {
        let is = |prefix| unique_id(prefix, grant.incarnation) == id;
        if !is(User::PREFIX) && !is(Role::PREFIX) {
            return Ok(None);
        }
        let exists = || self.look(|cached| cached.identities.has(id, grant.incarnation));
        if !exists()? {
            // The user was there before the grant, so a read that begins now finds it.
            self.refresh_all().await?;
        }
        Ok(Some(exists()?))
    }

    async fn drop_grants(&self, bucket: &Bucket, dead: &[(String, Grant)]) -> Result<(), Error> {
        let change = |bucket: &mut Bucket| {
            bucket.grants.retain(|id, grant| {
                let is_dead = |(dead, of): &(String, Grant)| {
                    dead == id && of.incarnation == grant.incarnation
                };
                !dead.iter().any(is_dead)
            });
            Ok(())
        };
        match self.change_row(bucket, change).await {
            Ok(_) | Err(Error::NoSuchBucket) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns random letters and digits. The alphabet has 32 characters, so that each random byte
/// gives five unbiased bits.
pub(crate) fn random_text(model: &Model, length: usize) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut bytes = vec![0; length];
    model.fill_random(&mut bytes);
    let letter = |b: &u8| char::from(ALPHABET[usize::from(b % 32)]);
    bytes.iter().map(letter).collect()
}

/// Checks the id and the secret of an access key.
///
/// # Errors
/// [`Error::InvalidName`] with what is allowed.
pub fn check_access_key(id: &str, secret: &Secret) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !(3..=128).contains(&id.len()) || !id.chars().all(allowed) {
        let why = "access key id: 3 to 128 letters, digits, '_', '-' or '.' are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    let printable = secret.expose().chars().all(|c| c.is_ascii_graphic());
    if !(8..=256).contains(&secret.expose().len()) || !printable {
        let why = "secret: 8 to 256 printable ASCII characters are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    Ok(())
}

fn check_key_name(name: &str) -> Result<(), Error> {
    if name.len() > MAX_NAME_BYTES {
        let why = format!("access key name: at most {MAX_NAME_BYTES} bytes are allowed");
        return Err(Error::InvalidName(why));
    }
    Ok(())
}
