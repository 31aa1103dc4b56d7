//! Queries and pages as they are sent between nodes. Named fields; what is not known is skipped.

use archipel_base::codec::{self, DecodeError, Versioned};
use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use archipel_storage::row::MAX_ROW_KEY_BYTES;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowHead, Tally};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{MAX_BUDGET, MAX_LIMIT, Page};

/// The most bytes of a prefix, a start or a delimiter. A row's key is shorter, so it compares with what was cut
/// here as it does with the whole.
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
    })
}

/// Decodes what [`encode_query`] wrote.
///
/// # Errors
/// Besides what is malformed, whatever lies beyond the bounds that an encoder keeps to.
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
    })
}

/// Encodes a page. What a row has promised is not told.
pub fn encode_page(page: &Page) -> Vec<u8> {
    let entry = |entry: &ListEntry| match entry {
        ListEntry::Row { key, head } => Entry::Row {
            key: key.clone(),
            stamp: head.stamp,
            write: head.write,
            head: head.head.clone(),
            tally: head.tally,
        },
        ListEntry::Prefix(prefix) => Entry::Prefix(prefix.clone()),
    };
    let Page { listing, agreed } = page;
    let next = listing.next.as_ref();
    codec::encode(&Sent {
        entries: listing.entries.iter().map(entry).collect(),
        next: next.map(|next| Start::of(next, Bytes::clone)),
        agreed: *agreed,
    })
}

/// What tells whether two replicas have the same page: of all that [`encode_page`] tells.
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
            ListEntry::Row { key, head } => {
                part(b'k', key);
                part(b's', &head.stamp.to_bytes());
                part(b'w', head.write.as_bytes());
                if let Some(head) = &head.head {
                    part(b'h', head);
                }
                if let Some(Tally {
                    group,
                    objects,
                    bytes,
                }) = &head.tally
                {
                    part(b'g', group.as_bytes());
                    part(b'o', &objects.to_be_bytes());
                    part(b'b', &bytes.to_be_bytes());
                }
            }
        }
    }
    match &listing.next {
        None => {}
        Some(ListStart::At(key)) => part(b'A', key),
        Some(ListStart::Behind(key)) => part(b'B', key),
        Some(ListStart::BehindPrefix(prefix)) => part(b'P', prefix),
    }
    BlockHash::of(&all)
}

/// Decodes what [`encode_page`] wrote.
///
/// # Errors
/// Besides what is malformed, keys that no row has.
pub fn decode_page(bytes: &[u8]) -> Result<Page, DecodeError> {
    let page: Sent = codec::decode(bytes)?;
    let entry = |entry| {
        Ok(match entry {
            Entry::Row {
                key,
                stamp,
                write,
                head,
                tally,
            } => ListEntry::Row {
                key: bounded(key)?,
                head: RowHead {
                    promised: Stamp::ZERO,
                    stamp,
                    write,
                    head,
                    tally,
                },
            },
            Entry::Prefix(prefix) => ListEntry::Prefix(bounded(prefix)?),
        })
    };
    let entries: Result<_, DecodeError> = page.entries.into_iter().map(entry).collect();
    Ok(Page {
        listing: Listing {
            entries: entries?,
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
}

impl Versioned for Query {
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
struct Sent {
    #[serde(rename = "e")]
    entries: Vec<Entry>,
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
        head: Option<Bytes>,
        #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
        tally: Option<Tally>,
    },
    #[serde(rename = "p")]
    Prefix(Bytes),
}

#[derive(Serialize, Deserialize)]
enum Start {
    #[serde(rename = "a")]
    At(Bytes),
    #[serde(rename = "b")]
    Behind(Bytes),
    #[serde(rename = "p")]
    BehindPrefix(Bytes),
}

impl Start {
    fn of(start: &ListStart, copy: impl Fn(&Bytes) -> Bytes) -> Start {
        match start {
            ListStart::At(key) => Start::At(copy(key)),
            ListStart::Behind(key) => Start::Behind(copy(key)),
            ListStart::BehindPrefix(prefix) => Start::BehindPrefix(copy(prefix)),
        }
    }

    fn bounded(self) -> Result<ListStart, DecodeError> {
        Ok(match self {
            Start::At(key) => ListStart::At(bounded(key)?),
            Start::Behind(key) => ListStart::Behind(bounded(key)?),
            Start::BehindPrefix(prefix) => ListStart::BehindPrefix(bounded(prefix)?),
        })
    }
}

fn bounded(bytes: Bytes) -> Result<Bytes, DecodeError> {
    match bytes.len() {
        ..=MAX_BYTES => Ok(bytes),
        long => Err(DecodeError::Malformed(format!("{long} bytes of a key"))),
    }
}

fn at_most(number: u64, most: usize) -> Result<usize, DecodeError> {
    let small = usize::try_from(number).ok().filter(|n| *n <= most);
    small.ok_or_else(|| DecodeError::Malformed(format!("{number} rows at once")))
}
