//! Merging against what must hold of the replicas' states, and cases one by one.

mod cases;
mod histories;
mod pages;
mod wire;

use std::collections::BTreeMap;

use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{Durability, Engine, Tree};
use archipel_storage::rows::codec::{self, StoredRow};
use archipel_storage::{ListQuery, Listing, RowKey, RowReader};
use bytes::Bytes;

use super::{ListMerge, ListOutput, Page};
use crate::register::Quorums;

const HERE: PartitionId = PartitionId(5);

/// A version of a row: when it was written, and whether it lives.
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
                head: live.then(|| Bytes::from(time.to_be_bytes().to_vec())),
                ..StoredRow::default()
            };
            let key = codec::row_key(&key).unwrap();
            txn.put(Tree::Rows, &key, &codec::encode_row(&row)).unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
        Replica(engine)
    }

    /// As it comes to another node.
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

/// A page, the replicas asked in the order in which `pick` takes the open questions; `None` fails one.
/// Gives the number of rounds, too.
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
                ListOutput::Done(listing) => return (Some(listing), rounds),
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
