//! Versions and uploads whose keys are wrapped again.

use std::sync::Arc;

use archipel_base::codec;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::{StreamExt, stream};

use super::super::object_context;
use crate::Model;
use crate::bucket::Bucket;
use crate::cipher::{Encryption, EncryptionKind, wrap};
use crate::encryption::rotation::SweepCounts;
use crate::error::{Error, damaged_row};
use crate::listing::versions::{VersionEntry, VersionQuery};
use crate::object::ObjectHead;
use crate::rowkeys;
use crate::upload::{Upload, UploadQuery};
use crate::version::VersionId;
use crate::versions::{Deciding, HeadChange};

/// The entries of a page, and the changes at once.
const PAGE: usize = 1000;
const AT_ONCE: usize = 8;

impl Model {
    /// Returns how the content of an object's row is encrypted, wrapped by the newest key of the
    /// ring: there may be a newer one since the request began.
    pub(crate) fn freshened(
        &self,
        row: &RowKey,
        mut encryption: Option<Box<Encryption>>,
    ) -> Option<Box<Encryption>> {
        if let Some(encryption) = &mut encryption {
            self.freshen(object_context(row), encryption);
        }
        encryption
    }

    /// Wraps the key of new content by the newest key of the ring, if another one wraps it.
    fn freshen(&self, context: &[u8], encryption: &mut Encryption) -> bool {
        if !self.is_stale(Some(encryption)) {
            return false;
        }
        let ring = self.keyring();
        let (Some((id, newest)), Some(earlier)) =
            (ring.newest(), encryption.key.and_then(|id| ring.key(&id)))
        else {
            return false;
        };
        let mut salt = [0; 32];
        self.fill_random(&mut salt);
        let Some(key) = encryption.open(&earlier, context) else {
            return false;
        };
        let Some(wrapped) = wrap::wrap(newest.bytes(), context, salt, &key) else {
            return false;
        };
        (encryption.key, encryption.wrapped) = (Some(id), wrapped);
        true
    }

    /// Returns true if another key of the ring than the newest one wraps a key.
    pub(crate) fn is_stale(&self, encryption: Option<&Encryption>) -> bool {
        encryption.is_some_and(|encryption| {
            let newest = self.keyring().newest().map(|(id, _)| id);
            encryption.kind == EncryptionKind::Server
                && newest.is_some()
                && encryption.key != newest
        })
    }

    pub(super) async fn sweep_bucket(&self, bucket: &Arc<Bucket>) -> Result<SweepCounts, Error> {
        let mut all = SweepCounts::default();
        let mut query = VersionQuery {
            limit: PAGE,
            ..VersionQuery::default()
        };
        loop {
            let page = self.list_versions(bucket, &query);
            let page = self.cluster().in_background(page).await?;
            if page.passed_over {
                let why = format!("rows of bucket {} cannot be read", bucket.name);
                all.count(&format!("bucket {}", bucket.name), Err(Error::Damaged(why)));
            }
            let mut stale = Vec::new();
            for entry in page.entries {
                let VersionEntry::Version { key, head, .. } = entry else {
                    continue;
                };
                (query.after_key, query.after_version) = (Some(key.clone()), Some(head.id));
                match self.is_stale(head.encryption.as_deref()) {
                    true => stale.push((key, head.id)),
                    false => all.examined += 1,
                }
            }
            let changes = stale.into_iter().map(|(key, id)| async move {
                let change = self.rewrap_version(bucket, &key, id);
                let changed = self.cluster().in_background(change).await;
                (format!("object {}/{key}", bucket.name), changed)
            });
            let mut changes = stream::iter(changes).buffer_unordered(AT_ONCE);
            while let Some((what, changed)) = changes.next().await {
                all.count(&what, changed);
            }
            if !page.truncated {
                break;
            }
        }
        let mut query = UploadQuery {
            limit: PAGE,
            ..UploadQuery::default()
        };
        loop {
            let uploads = self.list_uploads(bucket, &query);
            let page = self.cluster().in_background(uploads).await?;
            if let Some(last) = page.uploads.last() {
                (query.after_key, query.after_id) = (Some(last.key.clone()), Some(last.id));
            }
            for upload in page.uploads {
                let changed = match self.is_stale(upload.meta.encryption.as_deref()) {
                    true => self.rewrap_upload(bucket, &upload).await,
                    false => Ok(false),
                };
                all.count(&format!("an upload of {}", bucket.name), changed);
            }
            if !page.truncated {
                break;
            }
        }
        self.keyring().sweeps.count(all);
        Ok(all)
    }

    /// Wraps the key of a version again. Everything else of it stays.
    async fn rewrap_version(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
    ) -> Result<bool, Error> {
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let change =
            |head: &mut ObjectHead| self.rewrap(object_context(&row), &mut head.encryption);
        match self.rekey_version(bucket, key, id, &change).await {
            Ok(()) => Ok(true),
            // It is gone, or was replaced: what is there now is listed, or newer than the pass.
            Err(Error::NoSuchVersion | Error::IsMarker(_) | Error::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes how a version's key is wrapped. No client asked for it, and nothing tells of it.
    pub(crate) async fn rekey_version(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
        change: HeadChange<'_>,
    ) -> Result<(), Error> {
        let how = Deciding {
            taking: None,
            happening: None,
            by_all: false,
            background: true,
            unlisted: true,
        };
        self.change_version(bucket, key, id, how, change).await
    }

    /// Wraps a key again. Fails with [`Error::Conflict`] if it needs none.
    fn rewrap(
        &self,
        context: &[u8],
        encryption: &mut Option<Box<Encryption>>,
    ) -> Result<(), Error> {
        let Some(encryption) = encryption.as_mut().filter(|e| self.is_stale(Some(e))) else {
            return Err(Error::Conflict);
        };
        match self.freshen(context, encryption) {
            true => Ok(()),
            false => Err(Error::NoMasterKey(format!(
                "key {} of the keyring does not open it",
                encryption.key.unwrap_or_default()
            ))),
        }
    }

    async fn rewrap_upload(&self, bucket: &Bucket, upload: &Upload) -> Result<bool, Error> {
        let name = upload.name_in(&bucket.id);
        let row = rowkeys::upload(self.cluster(), &name);
        let object = rowkeys::object(self.cluster(), &bucket.id, &upload.key);
        let how = WriteOptions {
            background: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let decide = |current: Option<&Value>| {
            let Some(value) = current else {
                return Decision::Abort(Error::Conflict);
            };
            let mut upload: Upload = match codec::decode(&value.metadata) {
                Ok(upload) => upload,
                Err(error) => return Decision::Abort(damaged_row(error)),
            };
            if upload.intent.is_some() {
                return Decision::Abort(Error::Busy("the upload is being completed".into()));
            }
            match self.rewrap(object_context(&object), &mut upload.meta.encryption) {
                Ok(()) => Decision::Write(Some(Value {
                    metadata: codec::encode(&upload).into(),
                    ..value.clone()
                })),
                Err(error) => Decision::Abort(error),
            }
        };
        match self.cluster().update(&row, how, decide).await? {
            Ok(()) => Ok(true),
            Err(Error::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
