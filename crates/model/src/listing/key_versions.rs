//! From the rows of a page of versions to versions in the order in which S3 lists them.
//!
//! The rows of a key are: the pointer, whose key is the object's; the null version; and the other
//! versions, newest first (see [`KeptKeys`](archipel_cluster::KeptKeys)). The null version is shown
//! in its place, so it is held back until an older version or the end of the key is met.

use std::collections::VecDeque;

use archipel_base::{PartitionId, Stamp};
use archipel_cluster::{KeptKeys, ListEntry, ListStart, Listing};
use archipel_storage::{RowMetadata, VersionKind, VersionName, name_bytes};
use bytes::{BufMut, Bytes, BytesMut};

/// An entry of a page of versions.
#[derive(Debug)]
pub(super) enum Listed {
    /// A version.
    Version {
        /// The key of the object's row.
        key: Bytes,
        name: VersionName,
        kind: VersionKind,
        metadata: Bytes,
        is_latest: bool,
        /// True for the first version of a key that has no current version.
        lacks_current: bool,
    },
    /// A common prefix of keys.
    Prefix(Bytes),
}

impl Listed {
    /// Returns the name by which entries are sorted.
    pub fn name(&self) -> &Bytes {
        match self {
            Listed::Version { key, .. } => key,
            Listed::Prefix(prefix) => prefix,
        }
    }
}

/// Returns the beginning of the keys that the versions of an object have in a listing.
pub(super) fn version_keys(object: &Bytes) -> Bytes {
    let mut key = BytesMut::with_capacity(object.len() + 1);
    key.put_slice(object);
    key.put_u8(0);
    key.freeze()
}

/// Returns the key that a version has in a listing.
pub(super) fn version_key(object: &Bytes, name: VersionName) -> Bytes {
    [&version_keys(object)[..], &name_bytes(name)]
        .concat()
        .into()
}

/// The null version of a key, which is held back until its place is reached.
#[derive(Debug)]
pub(super) struct Null {
    /// Its place: the names of newer versions are higher.
    pub order: Stamp,
    row: RowMetadata,
}

/// The versions of a key that are being listed.
#[derive(Debug)]
pub(super) struct KeyVersions {
    key: Bytes,
    /// The name of the current version; `None` if no version is current.
    pub current: Option<VersionName>,
    pub null: Option<Null>,
    /// True if a version was shown.
    pub is_begun: bool,
}

impl KeyVersions {
    fn new(key: Bytes) -> KeyVersions {
        KeyVersions {
            key,
            current: None,
            null: None,
            is_begun: false,
        }
    }

    /// Returns what the first rows of a key tell.
    pub fn of(key: Bytes, entries: Vec<ListEntry>) -> KeyVersions {
        let mut versions = KeyVersions::new(key);
        for entry in entries {
            let ListEntry::Row { key, metadata } = entry else {
                continue;
            };
            if key == versions.key {
                versions.current = Some(name_of(&metadata));
            } else if key == version_key(&versions.key, None) {
                versions.null = Some(null(metadata));
            }
        }
        versions
    }

    /// Shows a version.
    fn show(&mut self, row: RowMetadata) -> Listed {
        let name = name_of(&row);
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        Listed::Version {
            key: self.key.clone(),
            name,
            kind: row.version.map(|version| version.kind).unwrap_or_default(),
            metadata: row.metadata.unwrap_or_default(),
            is_latest: self.current.map_or(is_first, |current| current == name),
            lacks_current: self.current.is_none() && is_first,
        }
    }

    /// Shows the null version, if it is newer than `name`.
    fn show_null(&mut self, name: VersionName) -> Option<Listed> {
        let is_next = |null: &mut Null| Some(null.order) > name;
        let null = self.null.take_if(is_next)?;
        Some(self.show(null.row))
    }
}

fn name_of(row: &RowMetadata) -> VersionName {
    row.version.as_ref().and_then(|version| version.at)
}

fn null(row: RowMetadata) -> Null {
    let since = row.version.as_ref().and_then(|version| version.since);
    Null {
        // The row of an object has no note of when its version was replaced.
        order: since.unwrap_or(row.stamp),
        row,
    }
}

/// A partition that is being listed. All versions of a key are in one partition.
pub(super) struct Source {
    pub partition: PartitionId,
    /// The entries that were fetched and not taken yet.
    pub fetched: VecDeque<Listed>,
    /// The start of the next page; `None` if there is none.
    pub next: Option<ListStart>,
    /// The version after which the listing begins, while the first rows of its key are to be read.
    pub begun: Option<(Bytes, Stamp)>,
    /// The key at which the last page ended.
    pub versions: Option<KeyVersions>,
    /// True if a page passed over rows that too few replicas can read.
    pub passed_over: bool,
}

impl Source {
    pub fn new(partition: PartitionId, start: ListStart) -> Source {
        Source {
            partition,
            fetched: VecDeque::new(),
            next: Some(start),
            begun: None,
            versions: None,
            passed_over: false,
        }
    }

    /// Begins again with a key, as if nothing was fetched.
    pub fn begin_again(&mut self, key: Bytes) {
        self.fetched.clear();
        self.versions = None;
        self.next = Some(ListStart::At(key));
    }

    /// Begins after a version of a key, whose first rows these are.
    pub fn begin(&mut self, key: Bytes, after: Stamp, first: Vec<ListEntry>) {
        let mut versions = KeyVersions::of(key, first);
        // It may be current now only because newer versions were deleted since.
        versions.null = versions.null.filter(|null| null.order < after);
        versions.is_begun = true;
        self.versions = Some(versions);
    }

    /// Takes a fetched page.
    pub fn feed(&mut self, keys: &KeptKeys, page: Listing) {
        self.passed_over |= !page.damaged.is_empty();
        for entry in page.entries {
            match entry {
                ListEntry::Prefix(prefix) => {
                    self.end_key();
                    self.fetched.push_back(Listed::Prefix(prefix));
                }
                ListEntry::Row { key, metadata } => self.feed_row(keys, key, metadata),
            }
        }
        self.next = page.next;
        if self.next.is_none() {
            self.end_key();
        }
    }

    fn feed_row(&mut self, keys: &KeptKeys, key: Bytes, row: RowMetadata) {
        let object = keys.object_of(&key);
        let is_pointer = object.len() == key.len();
        let object = key.slice(..object.len());
        let known = self.versions.take_if(|of| of.key == object && !is_pointer);
        let mut versions = known.unwrap_or_else(|| {
            self.end_key();
            KeyVersions::new(object)
        });
        let name = name_of(&row);
        if is_pointer {
            versions.current = Some(name);
        } else if name.is_none() && versions.current != Some(None) {
            versions.null = Some(null(row));
        } else {
            self.fetched.extend(versions.show_null(name));
            self.fetched.push_back(versions.show(row));
        }
        self.versions = Some(versions);
    }

    /// Shows what was held back of the key whose rows have ended.
    fn end_key(&mut self) {
        let versions = self.versions.take();
        let null = versions.and_then(|mut versions| versions.show_null(None));
        self.fetched.extend(null);
    }
}
