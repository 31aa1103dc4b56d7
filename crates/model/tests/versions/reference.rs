//! The promises of S3 about versions, as simple as they can be said.

use std::collections::BTreeMap;

use archipel_model::{VersionId, Versioning};

pub type Key = String;

/// A version, as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub id: VersionId,
    pub is_marker: bool,
    /// The entity tag.
    pub tag: String,
    /// The value of its only tag.
    pub tags: String,
}

/// A bucket: the versions of each key, newest first.
#[derive(Default)]
pub struct Reference {
    pub mode: Versioning,
    keys: BTreeMap<Key, Vec<Seen>>,
    gone: BTreeMap<Key, Vec<VersionId>>,
}

impl Reference {
    pub fn versions(&self, key: &str) -> &[Seen] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// The object, unless there is none or it was deleted.
    pub fn current(&self, key: &str) -> Option<&Seen> {
        self.versions(key).first().filter(|seen| !seen.is_marker)
    }

    pub fn find(&self, key: &str, id: VersionId) -> Option<&Seen> {
        self.versions(key).iter().find(|seen| seen.id == id)
    }

    pub fn find_mut(&mut self, key: &str, id: VersionId) -> Option<&mut Seen> {
        let versions = self.keys.get_mut(key)?;
        versions.iter_mut().find(|seen| seen.id == id)
    }

    pub fn latest_mut(&mut self, key: &str) -> Option<&mut Seen> {
        self.keys.get_mut(key)?.first_mut()
    }

    /// The ids of versions that were deleted for good.
    pub fn gone(&self, key: &str) -> Vec<VersionId> {
        let all = self.gone.get(key).into_iter().flatten().copied();
        all.filter(|id| self.find(key, *id).is_none()).collect()
    }

    pub fn put(&mut self, key: &str, id: VersionId, tag: &str) {
        self.push(key, id, tag, false);
    }

    /// `id` is that of the delete marker, if there is one.
    pub fn delete(&mut self, key: &str, id: Option<VersionId>) {
        match id {
            Some(id) => self.push(key, id, "", true),
            None => {
                assert_eq!(self.mode, Versioning::Never);
                self.keys.remove(key);
            }
        }
    }

    pub fn delete_version(&mut self, key: &str, id: VersionId) {
        let versions = self.keys.entry(key.to_owned()).or_default();
        versions.retain(|seen| seen.id != id);
        self.gone.entry(key.to_owned()).or_default().push(id);
    }

    fn push(&mut self, key: &str, id: VersionId, tag: &str, is_marker: bool) {
        let versions = self.keys.entry(key.to_owned()).or_default();
        match self.mode {
            Versioning::Enabled => assert!(versions.iter().all(|seen| seen.id != id)),
            // There is one null version.
            Versioning::Never | Versioning::Suspended => {
                assert_eq!(id, VersionId::Null);
                versions.retain(|seen| seen.id != VersionId::Null);
            }
        }
        let seen = Seen {
            id,
            is_marker,
            tag: tag.to_owned(),
            tags: String::new(),
        };
        versions.insert(0, seen);
    }

    pub fn listing(&self, keys: &[&str]) -> Vec<(Key, Seen, bool)> {
        let mut all = Vec::new();
        for key in keys {
            for (at, seen) in self.versions(key).iter().enumerate() {
                all.push((key.to_string(), seen.clone(), at == 0));
            }
        }
        all
    }
}
