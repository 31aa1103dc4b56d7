//! What the operations on versions need of the cluster.
//!
//! No bucket can enable versions yet ([`ARE_KEPT`]). Tests of this crate can: reads, writes and
//! decisions go to the versions that the cluster keeps. Listings show the current version only.

use archipel_base::{PartitionId, Stamp};
use archipel_cluster::{
    Cluster, Current, Decision, Error, ListEntry, ListQuery, ListStart, OpenRow, VersionDecision,
    VersionSeen, Versioning, WriteOptions,
};
use archipel_storage::{RowKey, Value, VersionKind, VersionName};
use bytes::Bytes;

/// True once buckets may have versions: once the cluster keeps versions that are not current.
///
/// Before it may be true, also these must hold: a page of versions reads the rows of objects and of
/// kept versions together, on every replica, because a replica that lags may hold a kept version as
/// the current one; replicas refuse the deletion of a protected version; GC asks for kept versions;
/// lifecycle rules act on them.
pub const ARE_KEPT: bool = false;

/// Which version a write makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Making {
    /// The object, in a bucket that never had versions.
    Plain,
    /// The null version.
    Null,
    /// A version with an id of its own.
    New,
}

/// Writes an object's row.
pub async fn write(
    cluster: &Cluster,
    row: &RowKey,
    value: Option<Value>,
    how: WriteOptions<'_>,
    making: Making,
) -> Result<Stamp, Error> {
    let how = WriteOptions {
        versioning: versioning(making),
        ..how
    };
    cluster.write(row, value, how).await
}

/// Reads an object's row, decides, and writes it. Returns the name of the version that it wrote,
/// unless that is the null version.
pub async fn update<E: Send>(
    cluster: &Cluster,
    row: &RowKey,
    how: WriteOptions<'_>,
    making: Making,
    decide: impl Fn(Current<'_>) -> Decision<E> + Send + Sync,
) -> Result<Result<Stamp, E>, Error> {
    let how = WriteOptions {
        versioning: versioning(making),
        ..how
    };
    if making == Making::New {
        return cluster.update_versioned(row, how, decide).await;
    }
    let written = cluster.update_stamped(row, how, decide).await?;
    Ok(written.map(|()| Stamp::ZERO))
}

fn versioning(making: Making) -> Versioning {
    match making {
        Making::Plain => Versioning::Plain,
        Making::Null => Versioning::Null,
        Making::New => Versioning::New,
    }
}

/// Returns a version, without its payload.
pub async fn read_version(
    cluster: &Cluster,
    row: &RowKey,
    name: VersionName,
    making: Making,
) -> Result<Option<Value>, Error> {
    if making == Making::Plain {
        let current = cluster.head(row).await?;
        return Ok(current.filter(|value| value.version_name() == name));
    }
    let found = cluster.version_of(row, name).await?;
    Ok(found.and_then(|report| report.value))
}

/// Opens a version for reading.
pub async fn open_version(
    cluster: &Cluster,
    row: &RowKey,
    name: VersionName,
    making: Making,
) -> Result<Option<OpenRow>, Error> {
    let current = cluster.open_row(row).await?;
    let opened = current.filter(|opened| opened.value.version_name() == name);
    if opened.is_some() || making == Making::Plain {
        return Ok(opened);
    }
    loop {
        let Some(value) = read_version(cluster, row, name, making).await? else {
            return Ok(None);
        };
        let pin = cluster.store().pin(value.payload.blocks());
        // A pin holds if the version was still there after it was taken.
        let after = read_version(cluster, row, name, making).await?;
        if after.is_some_and(|after| after.payload == value.payload) {
            return Ok(Some(OpenRow {
                value,
                pin,
                following: None,
            }));
        }
    }
}

/// Decides about a version: deletes it, or changes its metadata.
pub async fn decide_version<E: Send>(
    cluster: &Cluster,
    row: &RowKey,
    name: VersionName,
    how: WriteOptions<'_>,
    making: Making,
    decide: impl Fn(&VersionSeen<'_>) -> VersionDecision<E> + Send + Sync,
) -> Result<Result<(), E>, Error> {
    if making != Making::Plain {
        return cluster.decide_version(row, name, how, decide).await;
    }
    // The value refers to the content of the version that it is decided on, so an update that
    // others overtake decides once more and never brings dropped content back.
    let decide = |current: Option<&Value>| {
        let named = current.filter(|value| value.version_name() == name);
        let seen = VersionSeen {
            named,
            is_current: named.is_some(),
            current,
            is_alone: true,
        };
        match decide(&seen) {
            VersionDecision::Abort(error) => Decision::Abort(error),
            VersionDecision::Kill => Decision::Write(None),
            VersionDecision::Change(metadata) => {
                let changed = current.map(|value| Value {
                    metadata,
                    ..value.clone()
                });
                Decision::Write(changed)
            }
        }
    };
    cluster.update(row, how, decide).await
}

/// Where a page of versions begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// At the first key with the prefix.
    Begin,
    /// At this key.
    At(Bytes),
    /// After all versions of a key.
    AfterKey(Bytes),
    /// After this version of a key.
    AfterVersion(Bytes, VersionName),
    /// After all keys with a prefix.
    AfterPrefix(Bytes),
}

/// A request for a page of the versions of a partition. Keys are those of objects' rows.
#[derive(Clone, Debug)]
pub struct Page {
    /// Only keys with this prefix are listed.
    pub prefix: Bytes,
    /// Where the page begins.
    pub start: Start,
    /// Keys that contain the delimiter after the prefix are rolled up.
    pub delimiter: Option<Bytes>,
    /// The largest number of entries.
    pub limit: usize,
}

/// An entry of a page of versions.
#[derive(Debug)]
pub enum Listed {
    /// A version.
    Version {
        /// The object's row.
        row: RowKey,
        /// The version's name.
        name: VersionName,
        /// Its kind.
        kind: VersionKind,
        /// Its metadata.
        metadata: Bytes,
        /// True for the current version.
        is_latest: bool,
    },
    /// A common prefix of keys.
    Prefix(Bytes),
}

impl Listed {
    /// Returns the name by which entries are sorted.
    pub fn name(&self) -> &Bytes {
        match self {
            Listed::Version { row, .. } => &row.key,
            Listed::Prefix(prefix) => prefix,
        }
    }
}

/// A page of versions.
pub struct Found {
    /// The entries: by key, and newest first within a key.
    pub entries: Vec<Listed>,
    /// The start of the next page; `None` if there is none.
    pub next: Option<Start>,
}

/// Returns a page of the versions of a partition.
pub async fn list_versions(
    cluster: &Cluster,
    partition: PartitionId,
    page: Page,
) -> Result<Found, Error> {
    let start = match page.start {
        Start::Begin => ListStart::At(page.prefix.clone()),
        Start::At(key) => ListStart::At(key),
        // A key has one version, so whatever follows that version follows the key.
        Start::AfterKey(key) | Start::AfterVersion(key, None) => ListStart::After(key),
        Start::AfterVersion(key, Some(_)) => ListStart::At(key),
        Start::AfterPrefix(prefix) => ListStart::AfterPrefix(prefix),
    };
    let query = ListQuery {
        start,
        delimiter: page.delimiter,
        limit: page.limit,
        ..ListQuery::new(partition, page.prefix)
    };
    let listing = cluster.list(query).await?;
    let entries = listing.entries.into_iter().map(|entry| match entry {
        ListEntry::Prefix(prefix) => Listed::Prefix(prefix),
        ListEntry::Row { key, metadata } => {
            let version = metadata.version.unwrap_or_default();
            Listed::Version {
                row: RowKey { partition, key },
                name: version.at,
                kind: version.kind,
                metadata: metadata.metadata.unwrap_or_default(),
                is_latest: true,
            }
        }
    });
    let next = listing.next.map(|next| match next {
        ListStart::At(key) => Start::At(key),
        ListStart::After(key) => Start::AfterKey(key),
        ListStart::AfterPrefix(prefix) => Start::AfterPrefix(prefix),
    });
    Ok(Found {
        entries: entries.collect(),
        next,
    })
}
