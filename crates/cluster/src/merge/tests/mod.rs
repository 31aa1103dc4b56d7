//! Merging checked against the replicas' states, and single cases.

mod cases;
mod histories;
mod pages;
mod transcripts;
mod wire;

use std::collections::BTreeMap;
use std::ops::Bound;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{Direction, Durability, Engine, Flow, Tree};
use archipel_storage::rows::codec::{self, StoredRow};
use archipel_storage::{ListQuery, Listing, RowKey, RowReader};
use bytes::Bytes;

use super::{ListMerge, ListOutput, Page};
use crate::register::Quorums;

const HERE: PartitionId = PartitionId(5);

/// A version of a row: its time, and whether it is live.
type Version = (u64, bool);

/// The rows of a replica, in a real engine.
struct Replica(MemoryEngine);

impl Replica {
    fn new(rows: &BTreeMap<Bytes, Version>) -> Replica {
        let engine = MemoryEngine::new();
        let mut txn = engine.write().unwrap();
        for (key, (time, live)) in rows {
            let key = RowKey {
                partition: HERE,
                key: key.clone(),
            };
            let row = StoredRow {
                stamp: stamp(*time),
                write: Id([*time as u8; 16]),
                metadata: live.then(|| Bytes::from(time.to_be_bytes().to_vec())),
                ..StoredRow::default()
            };
            let key = codec::row_key(&key).unwrap();
            txn.put(Tree::Rows, &key, &codec::encode_row(&key, &row))
                .unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
        Replica(engine)
    }

    /// Damages the rows whose bit of `bits` is set; the bits repeat every eight rows.
    fn damage(&self, bits: u8) {
        let mut txn = self.0.write().unwrap();
        let (mut rows, all) = (Vec::new(), (Bound::Unbounded, Bound::Unbounded));
        txn.scan(Tree::Rows, all, Direction::Ascending, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(Flow::Continue)
        })
        .unwrap();
        for (number, (key, mut value)) in rows.into_iter().enumerate() {
            if bits >> (number % 8) & 1 == 1 {
                value[20] ^= 1;
                txn.put(Tree::Rows, &key, &value).unwrap();
            }
        }
        txn.commit(Durability::Buffered).unwrap();
    }

    /// Lists as another node sees it.
    fn list(&self, query: &ListQuery) -> Page {
        let query = super::wire::decode_query(&super::wire::encode_query(query)).unwrap();
        let txn = self.0.read().unwrap();
        let page = RowReader::new(&*txn).list(&query).unwrap();
        super::wire::decode_page(&super::wire::encode_page(&page.into())).unwrap()
    }
}

fn stamp(time: u64) -> Stamp {
    Stamp::new(time, 0, Writer(1))
}

/// Drives a merge to its page. `pick` chooses the next of the open requests; `None` fails one. Also
/// returns the number of rounds.
fn drive(
    quorums: &Quorums,
    query: &ListQuery,
    mut answer: impl FnMut(usize, &ListQuery) -> Option<Page>,
    mut pick: impl FnMut(usize) -> usize,
) -> (Option<Listing>, u32) {
    let (mut merge, mut outputs) = ListMerge::new(quorums.clone(), query.clone());
    let mut open = Vec::new();
    let mut rounds = 0;
    loop {
        for output in std::mem::take(&mut outputs) {
            match output {
                ListOutput::Ask {
                    replica,
                    round,
                    query,
                } => {
                    rounds = rounds.max(round);
                    open.push((replica, round, query));
                }
                ListOutput::Done { listing, .. } => return (Some(listing), rounds),
                ListOutput::Failed => return (None, rounds),
            }
        }
        let at = pick(open.len()) % open.len();
        let (replica, round, query) = open.swap_remove(at);
        outputs = match answer(replica, &query) {
            Some(page) => merge.on_page(replica, round, page),
            None => merge.on_failure(replica, round),
        };
    }
}
