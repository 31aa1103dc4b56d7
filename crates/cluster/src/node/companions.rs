//! Companions of writes, as coordinators name them and as replicas store them: see
//! [`companion`](crate::register::companion).

use std::collections::BTreeMap;

use archipel_base::{Id, PartitionId, Stamp, boxed};
use archipel_storage::{RowKey, RowMetadata, RowVersion, UsageDelta, Value, VersionName};
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::register::{Intent, Version};

/// A row that a write brings with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Companion {
    /// The beginning of the row's key. The stamp and the id of the write follow it.
    pub prefix: Bytes,
    /// The row's metadata.
    pub metadata: Bytes,
    /// Counts the companions of one kind in a partition.
    pub group: Id,
    /// The most companions of that group in a partition.
    pub most: u64,
    /// True if a replica with that many refuses the write. Otherwise it drops the companion.
    pub refuses: bool,
}

impl Companion {
    /// Returns the companion that a write brings. If the write makes a version of an object, the
    /// companion holds its name.
    pub(crate) fn of(&self, bringer: &Bringer, version: VersionName) -> CompanionRow {
        let mut key = BytesMut::with_capacity(self.prefix.len() + Bringer::KEY_BYTES);
        key.put_slice(&self.prefix);
        key.put_slice(&bringer.stamp.to_bytes());
        key.put_slice(bringer.write.as_bytes());
        let mut metadata = BytesMut::with_capacity(EPOCH_BYTES + self.metadata.len());
        metadata.put_u64(bringer.epoch);
        metadata.put_slice(&self.metadata);
        let named = version.map(|at| {
            Box::new(RowVersion {
                at: Some(at),
                ..RowVersion::default()
            })
        });
        CompanionRow {
            key: key.freeze(),
            value: Value {
                usage: Some(UsageDelta {
                    group: self.group,
                    objects: 1,
                    bytes: metadata.len() as u64,
                }),
                metadata: metadata.freeze(),
                version: named,
                ..Value::default()
            },
            most: self.most,
            refuses: self.refuses,
        }
    }
}

/// The write that brings a companion: one attempt of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bringer {
    /// The stamp of the attempt.
    pub stamp: Stamp,
    /// The id of the operation's writes.
    pub write: Id,
    /// The epoch in which the attempt went out.
    epoch: u64,
}

impl Bringer {
    /// The bytes of a companion's key that name the write.
    pub const KEY_BYTES: usize = 32;

    pub(crate) fn new(stamp: Stamp, write: Id, epoch: u64) -> Bringer {
        Bringer {
            stamp,
            write,
            epoch,
        }
    }

    /// Returns the write that brought a companion, and the companion's own metadata. Returns `None`
    /// if the row is gone, or is no companion.
    pub fn of(row: &RowMetadata) -> Option<(Bringer, &[u8])> {
        let (epoch, metadata) = row.metadata.as_ref()?.split_first_chunk()?;
        let bringer = Bringer::new(row.stamp, row.write, u64::from_be_bytes(*epoch));
        Some((bringer, metadata))
    }

    /// Returns the stamp of the write that a companion's key names.
    pub fn stamp_in(key: &[u8]) -> Option<Stamp> {
        let (_, write) = key.split_last_chunk::<{ Bringer::KEY_BYTES }>()?;
        write.first_chunk().map(|stamp| Stamp::from_bytes(*stamp))
    }

    /// Returns the same write as an intent names it.
    pub(crate) fn intent(&self) -> Intent {
        Intent {
            write: self.write,
            after: self.stamp,
            epoch: self.epoch,
            name: None,
        }
    }
}

/// The bytes of an epoch before a companion's own metadata.
const EPOCH_BYTES: usize = 8;

/// A companion in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CompanionRow {
    #[serde(rename = "k")]
    pub key: Bytes,
    #[serde(rename = "v")]
    pub value: Value,
    #[serde(rename = "m")]
    pub most: u64,
    #[serde(rename = "r", default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses: bool,
}

/// Returns true if a write stores a companion: the row's key names the write itself.
pub(crate) fn is_companion(key: &[u8], version: &Version<Value>) -> bool {
    let stamped = key.strip_suffix(version.write.as_bytes().as_slice());
    version.value.is_some() && stamped.is_some_and(|key| key.ends_with(&version.stamp.to_bytes()))
}

/// The most rows of all partitions together that news names.
const MAX_NAMED: usize = 4096;

/// Says which rows of this node were written with companions, and counts those that were dropped.
#[derive(Default)]
pub struct CompanionNews {
    state: Mutex<State>,
    came: Notify,
}

/// Rows of one partition that were written with companions, and companions that came by themselves,
/// each with the lowest stamp of such a write. This replica may lack companions of earlier writes.
/// `None` if there are too many to name.
pub type Brought = Option<BTreeMap<Bytes, Stamp>>;

#[derive(Default)]
struct State {
    partitions: BTreeMap<PartitionId, Brought>,
    /// The rows that are named.
    named: usize,
    dropped: BTreeMap<Id, u64>,
}

impl CompanionNews {
    /// Waits until companions have come since the last [`take`](CompanionNews::take). One caller at
    /// a time.
    #[boxed]
    pub async fn wait(&self) {
        loop {
            let came = self.came.notified();
            if !self.state.lock().partitions.is_empty() {
                return;
            }
            came.await;
        }
    }

    /// Returns what has come since the last call.
    pub fn take(&self) -> BTreeMap<PartitionId, Brought> {
        let mut state = self.state.lock();
        state.named = 0;
        std::mem::take(&mut state.partitions)
    }

    /// Returns how many companions of a group this node's replicas dropped since it started.
    pub fn dropped(&self, group: &Id) -> u64 {
        self.state.lock().dropped.get(group).copied().unwrap_or(0)
    }

    /// Notes that the write of a row under this stamp brought companions.
    pub fn stored(&self, row: RowKey, stamp: Stamp) {
        let mut state = self.state.lock();
        let State {
            partitions, named, ..
        } = &mut *state;
        let brought = partitions.entry(row.partition);
        let brought = brought.or_insert_with(|| Some(BTreeMap::new()));
        if let Some(rows) = brought {
            let before = rows.len();
            let lowest = rows.entry(row.key).or_insert(stamp);
            *lowest = stamp.min(*lowest);
            *named += rows.len() - before;
            if *named > MAX_NAMED {
                *named -= rows.len();
                *brought = None;
            }
        }
        drop(state);
        self.came.notify_one();
    }

    /// Notes that companions came to a partition, to rows that are not named.
    pub fn unnamed(&self, partition: PartitionId) {
        let mut state = self.state.lock();
        if let Some(Some(rows)) = state.partitions.insert(partition, None) {
            state.named -= rows.len();
        }
        drop(state);
        self.came.notify_one();
    }

    pub(crate) fn drop_one(&self, group: Id) {
        *self.state.lock().dropped.entry(group).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use archipel_base::Writer;

    use super::*;

    fn at(millis: u64) -> Stamp {
        Stamp::new(millis, 0, Writer(1))
    }

    fn row(partition: u16, key: usize) -> RowKey {
        RowKey {
            partition: PartitionId(partition),
            key: key.to_string().into(),
        }
    }

    #[tokio::test]
    async fn news_names_rows_with_their_lowest_stamps() {
        let news = CompanionNews::default();
        for (partition, millis) in [(3, 7), (1, 5), (3, 6), (3, 8)] {
            news.stored(row(partition, 0), at(millis));
        }
        news.wait().await;
        let named = |millis| Some(BTreeMap::from([(row(0, 0).key, at(millis))]));
        let told = [(PartitionId(1), named(5)), (PartitionId(3), named(6))];
        assert_eq!(news.take(), BTreeMap::from(told));
        let mut waiting = Box::pin(news.wait());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        // The names of all partitions together are bounded.
        news.stored(row(1, 0), at(5));
        for key in 0..=MAX_NAMED {
            news.stored(row(2, key), at(1));
        }
        news.stored(row(3, 0), at(6));
        waiting.await;
        let told = [
            (PartitionId(1), named(5)),
            (PartitionId(2), None),
            (PartitionId(3), named(6)),
        ];
        assert_eq!(news.take(), BTreeMap::from(told));
        news.stored(row(1, 0), at(5));
        news.unnamed(PartitionId(1));
        news.unnamed(PartitionId(4));
        let told = [(PartitionId(1), None), (PartitionId(4), None)];
        assert_eq!(news.take(), BTreeMap::from(told));
    }

    #[test]
    fn companion_tells_of_its_write() {
        let companion = Companion {
            prefix: Bytes::from_static(b"n-"),
            metadata: Bytes::from_static(b"about it"),
            group: Id([1; 16]),
            most: 7,
            refuses: true,
        };
        let stamp = at(5);
        let bringer = Bringer::new(stamp, Id([2; 16]), 9);
        let row = companion.of(&bringer, None);
        assert_eq!(row.key, [&b"n-"[..], &stamp.to_bytes(), &[2; 16]].concat());
        let written = |stamp| Version {
            stamp,
            write: Id([2; 16]),
            value: Some(row.value.clone()),
        };
        assert!(is_companion(&row.key, &written(stamp)));
        assert!(!is_companion(&row.key, &written(at(6))));
        assert_eq!(row.value.usage.map(|usage| usage.bytes), Some(16));
        assert_eq!((row.most, row.refuses), (7, true));
        let stored = RowMetadata {
            stamp,
            write: Id([2; 16]),
            metadata: Some(row.value.metadata),
            ..RowMetadata::default()
        };
        assert_eq!(Bringer::of(&stored), Some((bringer, &b"about it"[..])));
    }
}
