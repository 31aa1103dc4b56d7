//! All kept versions of an object, one at a time: there may be thousands, and each holds a list of
//! blocks or of parts.

use std::collections::VecDeque;
use std::sync::Arc;

use archipel_base::boxed;
use archipel_storage::{ListEntry, ListQuery, RowKey, Value, VersionName};
use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::data::Data;
use crate::data::list::damaged;
use crate::error::Error;
use crate::node::replica::versions::split_kept;

/// The most versions that are read at once.
const AT_ONCE: usize = 16;

/// The kept versions of an object that live, in the order of their rows. A version that is moved or
/// deleted meanwhile may be missing.
pub struct KeptVersions {
    data: Arc<Data>,
    row: RowKey,
    wanted: fn(&[u8]) -> bool,
    /// The query for the next page of their names; `None` if there is none.
    next: Option<ListQuery>,
    /// The versions that were listed, and not read yet.
    listed: VecDeque<Listed>,
    /// The versions that were read.
    read: VecDeque<(VersionName, Value)>,
}

/// A version that was listed.
struct Listed {
    name: VersionName,
    /// The key of the kept row; `None` if only a minority shows that the version was deleted.
    kept: Option<Bytes>,
}

impl Data {
    /// Returns the kept versions of an object that live. Passes over those whose metadata `wanted`
    /// refuses. A version whose deletion only a minority shows is looked at, and that settles
    /// whether it lives.
    pub fn kept_versions(
        self: &Arc<Data>,
        row: &RowKey,
        wanted: fn(&[u8]) -> bool,
    ) -> KeptVersions {
        let prefix = (self.replica.hooks().kept_prefix)(row);
        KeptVersions {
            data: self.clone(),
            row: row.clone(),
            wanted,
            next: prefix.map(|prefix| ListQuery::new(row.partition, prefix)),
            listed: VecDeque::new(),
            read: VecDeque::new(),
        }
    }
}

impl KeptVersions {
    /// Returns the next version: its name and its value; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; [`archipel_storage::Error::Damaged`] if there may be a version that
    /// too few replicas can read.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<(VersionName, Value)>, Error> {
        loop {
            if let Some(version) = self.read.pop_front() {
                return Ok(Some(version));
            }
            if !self.listed.is_empty() {
                self.read_some().await?;
                continue;
            }
            let Some(query) = self.next.clone() else {
                return Ok(None);
            };
            self.list(query).await?;
        }
    }

    /// Lists the versions of one page.
    async fn list(&mut self, query: ListQuery) -> Result<(), Error> {
        let (page, unsettled) = self.data.newest_page(query.clone()).await?;
        if !page.damaged.is_empty() {
            return Err(damaged(&page));
        }
        for entry in page.entries {
            let ListEntry::Row { key, metadata } = entry else {
                continue;
            };
            let Some((_, name)) = split_kept(&key) else {
                continue;
            };
            let kept = match metadata.metadata {
                // All null versions have one name, so it may be another one by now.
                Some(metadata) if name.is_some() && !(self.wanted)(&metadata) => continue,
                Some(_) => Some(key),
                None if unsettled.binary_search(&key).is_ok() => None,
                None => continue,
            };
            self.listed.push_back(Listed { name, kept });
        }
        self.next = page.next.map(|start| ListQuery { start, ..query });
        Ok(())
    }

    /// Reads some of the versions that were listed, all at once.
    async fn read_some(&mut self) -> Result<(), Error> {
        let some = AT_ONCE.min(self.listed.len());
        let reads = self
            .listed
            .range(..some)
            .map(|listed| self.read_one(listed));
        let read = try_join_all(reads).await?;
        self.listed.drain(..some);
        self.read.extend(read.into_iter().flatten());
        Ok(())
    }

    async fn read_one(&self, listed: &Listed) -> Result<Option<(VersionName, Value)>, Error> {
        let value = match &listed.kept {
            Some(key) => {
                let row = RowKey {
                    partition: self.row.partition,
                    key: key.clone(),
                };
                self.data.read_whole(&row, true).await?.value
            }
            None => {
                let seen = self.data.version_of(&self.row, listed.name).await?;
                seen.and_then(|seen| seen.value)
            }
        };
        Ok(value.map(|value| (listed.name, value)))
    }
}
