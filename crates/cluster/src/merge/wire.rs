//! Queries and pages as nodes send them. Fields are named. Unknown fields are skipped.

use archipel_base::codec::{self, DecodeError, Versioned};
use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use archipel_storage::row::MAX_ROW_KEY_BYTES;
use archipel_storage::{
    KeptKeys, ListEntry, ListQuery, ListStart, Listing, RowMetadata, RowVersion, UsageDelta,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{MAX_BUDGET, MAX_LIMIT, Page};

/// The largest number of bytes of a prefix, a start or a delimiter. A row's key is shorter, so it
/// compares with the cut text as it does with the whole.
const MAX_BYTES: usize = MAX_ROW_KEY_BYTES + 1;

/// Encodes a query.
pub fn encode_query(query: &ListQuery) -> Vec<u8> {
    let cut = |bytes: &Bytes| bytes.slice(..bytes.len().min(MAX_BYTES));
    codec::encode(&Query {
        partition: query.partition,
        prefix: cut(&query.prefix),
        start: Start::of(&query.start, cut),
        delimiter: query.delimiter.as_ref().map(cut),
        limit: query.limit.min(MAX_LIMIT) as u64,
        tombstones: query.tombstones,
        budget: query.budget.min(MAX_BUDGET) as u64,
        hidden: query.hidden,
        versions: query.versions.as_ref().map(|keys| KeptKeys {
            objects: cut(&keys.objects),
            kept: cut(&keys.kept),
        }),
    })
}

/// Decodes the result of [`encode_query`].
///
/// # Errors
/// If the bytes are malformed, or beyond the bounds that the encoder keeps.
pub fn decode_query(bytes: &[u8]) -> Result<ListQuery, DecodeError> {
    let query: Query = codec::decode(bytes)?;
    Ok(ListQuery {
        partition: query.partition,
        prefix: bounded(query.prefix)?,
        start: query.start.bounded()?,
        delimiter: query.delimiter.map(bounded).transpose()?,
        limit: at_most(query.limit, MAX_LIMIT)?,
        tombstones: query.tombstones,
        budget: at_most(query.budget, MAX_BUDGET)?,
        hidden: query.hidden,
        versions: match query.versions {
            None => None,
            Some(KeptKeys { objects, kept }) => Some(KeptKeys {
                objects: bounded(objects)?,
                kept: bounded(kept)?,
            }),
        },
    })
}

/// Encodes a page. Leaves out the promises of rows.
pub fn encode_page(page: &Page) -> Vec<u8> {
    let entry = |entry: &ListEntry| match entry {
        ListEntry::Row { key, metadata } => Entry::Row {
            key: key.clone(),
            stamp: metadata.stamp,
            write: metadata.write,
            metadata: metadata.metadata.clone(),
            usage: metadata.usage,
            version: metadata.version.clone(),
        },
        ListEntry::Prefix(prefix) => Entry::Prefix(prefix.clone()),
    };
    let Page { listing, agreed } = page;
    let next = listing.next.as_ref();
    codec::encode(&Sent {
        entries: listing.entries.iter().map(entry).collect(),
        damaged: listing.damaged.clone(),
        next: next.map(|next| Start::of(next, Bytes::clone)),
        agreed: *agreed,
    })
}

/// Returns a digest of everything that [`encode_page`] writes. Replicas with equal digests have
/// equal pages.
pub fn digest(page: &Page) -> BlockHash {
    let Page { listing, agreed } = page;
    let mut all = Vec::with_capacity(256 * listing.entries.len());
    let mut part = |kind: u8, bytes: &[u8]| {
        all.push(kind);
        all.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        all.extend_from_slice(bytes);
    };
    part(b'a', &agreed.to_bytes());
    for entry in &listing.entries {
        match entry {
            ListEntry::Prefix(prefix) => part(b'p', prefix),
            ListEntry::Row { key, metadata } => {
                part(b'k', key);
                part(b's', &metadata.stamp.to_bytes());
                part(b'w', metadata.write.as_bytes());
                if let Some(metadata) = &metadata.metadata {
                    part(b'h', metadata);
                }
                if let Some(UsageDelta {
                    group,
                    objects,
                    bytes,
                }) = &metadata.usage
                {
                    part(b'g', group.as_bytes());
                    part(b'o', &objects.to_be_bytes());
                    part(b'b', &bytes.to_be_bytes());
                }
                if let Some(version) = &metadata.version {
                    part(b'v', &codec::encode(&**version));
                }
            }
        }
    }
    listing.damaged.iter().for_each(|key| part(b'd', key));
    match &listing.next {
        None => {}
        Some(ListStart::At(key)) => part(b'A', key),
        Some(ListStart::After(key)) => part(b'B', key),
        Some(ListStart::AfterPrefix(prefix)) => part(b'P', prefix),
    }
    BlockHash::of(&all)
}

/// Decodes the result of [`encode_page`].
///
/// # Errors
/// If the bytes are malformed, or name keys that no row has.
pub fn decode_page(bytes: &[u8]) -> Result<Page, DecodeError> {
    let page: Sent = codec::decode(bytes)?;
    let entry = |entry| {
        Ok(match entry {
            Entry::Row {
                key,
                stamp,
                write,
                metadata,
                usage,
                version,
            } => ListEntry::Row {
                key: bounded(key)?,
                metadata: RowMetadata {
                    promised: Stamp::ZERO,
                    stamp,
                    write,
                    metadata,
                    usage,
                    version,
                },
            },
            Entry::Prefix(prefix) => ListEntry::Prefix(bounded(prefix)?),
        })
    };
    let entries: Result<_, DecodeError> = page.entries.into_iter().map(entry).collect();
    let damaged: Result<_, DecodeError> = page.damaged.into_iter().map(bounded).collect();
    Ok(Page {
        listing: Listing {
            entries: entries?,
            damaged: damaged?,
            next: page.next.map(Start::bounded).transpose()?,
        },
        agreed: page.agreed,
    })
}

#[derive(Serialize, Deserialize)]
struct Query {
    #[serde(rename = "p")]
    partition: PartitionId,
    #[serde(rename = "x")]
    prefix: Bytes,
    #[serde(rename = "s")]
    start: Start,
    #[serde(rename = "d", default)]
    delimiter: Option<Bytes>,
    #[serde(rename = "l")]
    limit: u64,
    #[serde(rename = "t", default)]
    tombstones: bool,
    #[serde(rename = "b")]
    budget: u64,
    #[serde(rename = "v", default, skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    versions: Option<KeptKeys>,
}

impl Versioned for Query {
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
struct Sent {
    #[serde(rename = "e")]
    entries: Vec<Entry>,
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Bytes>,
    #[serde(rename = "n", default)]
    next: Option<Start>,
    #[serde(rename = "f", default)]
    agreed: Stamp,
}

impl Versioned for Sent {
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
enum Entry {
    #[serde(rename = "r")]
    Row {
        #[serde(rename = "k")]
        key: Bytes,
        #[serde(rename = "s")]
        stamp: Stamp,
        #[serde(rename = "w")]
        write: Id,
        #[serde(rename = "h", default)]
        metadata: Option<Bytes>,
        #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
        usage: Option<UsageDelta>,
        #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
        version: Option<Box<RowVersion>>,
    },
    #[serde(rename = "p")]
    Prefix(Bytes),
}

#[derive(Serialize, Deserialize)]
enum Start {
    #[serde(rename = "a")]
    At(Bytes),
    #[serde(rename = "b")]
    After(Bytes),
    #[serde(rename = "p")]
    AfterPrefix(Bytes),
}

impl Start {
    fn of(start: &ListStart, copy: impl Fn(&Bytes) -> Bytes) -> Start {
        match start {
            ListStart::At(key) => Start::At(copy(key)),
            ListStart::After(key) => Start::After(copy(key)),
            ListStart::AfterPrefix(prefix) => Start::AfterPrefix(copy(prefix)),
        }
    }

    fn bounded(self) -> Result<ListStart, DecodeError> {
        Ok(match self {
            Start::At(key) => ListStart::At(bounded(key)?),
            Start::After(key) => ListStart::After(bounded(key)?),
            Start::AfterPrefix(prefix) => ListStart::AfterPrefix(bounded(prefix)?),
        })
    }
}

fn bounded(bytes: Bytes) -> Result<Bytes, DecodeError> {
    match bytes.len() {
        ..=MAX_BYTES => Ok(bytes),
        long => Err(DecodeError::Malformed(format!("a key of {long} bytes"))),
    }
}

fn at_most(number: u64, most: usize) -> Result<usize, DecodeError> {
    let small = usize::try_from(number).ok().filter(|n| *n <= most);
    small.ok_or_else(|| DecodeError::Malformed(format!("{number} rows in one page")))
}
