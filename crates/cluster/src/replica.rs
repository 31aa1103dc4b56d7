//! The local replica: carries the register's requests to the store.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archipel_base::PartitionId;
use archipel_base::clock::WallClock;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::store::Transact;
use archipel_storage::{BlockRef, Body, Row, RowKey, RowReader, RowTxn, Store, Value};
use bytes::Bytes;

use crate::error::Error;
use crate::local::OnReplace;
use crate::register::{Answer, Bounds, Cell, Recent, Request, Rules, replica};
use crate::scan::Scanned;

/// How far a stamp may be ahead of the local clock.
const AHEAD_MILLIS: u64 = 60_000;
/// For how many rows the accepted writes are remembered at most.
const REMEMBERED_ROWS: usize = 4096;

/// The local replica of every row.
pub(crate) struct Replica {
    pub(crate) store: Store,
    wall: Arc<dyn WallClock>,
    on_replace: OnReplace,
    recent: Arc<Mutex<Remembered>>,
}

/// What is remembered of accepted writes, by row: two generations, so that forgetting is cheap
/// and what was used lately stays.
#[derive(Default)]
struct Remembered {
    /// The store's count of changes that were undone: what was remembered before may be of those.
    undone: u64,
    young: HashMap<RowKey, Recent>,
    old: HashMap<RowKey, Recent>,
}

impl Remembered {
    fn take(&mut self, key: &RowKey, undone: u64) -> Option<Recent> {
        if self.undone != undone {
            *self = Remembered {
                undone,
                ..Remembered::default()
            };
        }
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    fn put(&mut self, key: RowKey, recent: Recent) {
        if self.young.len() >= REMEMBERED_ROWS / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, recent);
    }
}

impl Replica {
    pub fn new(store: Store, wall: Arc<dyn WallClock>, on_replace: OnReplace) -> Replica {
        Replica {
            store,
            wall,
            on_replace,
            recent: Arc::default(),
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds::without_floors(self.wall.now_millis(), AHEAD_MILLIS)
    }

    /// Answers a `Read`; the body comes along only if it is wanted.
    pub async fn read(&self, key: RowKey, with_body: bool) -> Result<Answer<Value>, Error> {
        let bounds = self.bounds();
        let read = move |rows: &RowReader<'_>| {
            let row = match with_body {
                true => rows.row(&key)?,
                false => rows.head(&key)?.map(Row::from),
            };
            let cell = cell_of(row.unwrap_or_default());
            let mut recent = Recent::forgotten(Rules::CORRECT, &cell, &bounds);
            let request = Request::Read { with_value: true };
            let step = replica::step(Rules::CORRECT, &bounds, &cell, &mut recent, request, true);
            Ok(step.answer)
        };
        Ok(self.store.read(read).await?)
    }

    /// Answers a `Prepare` or a `Write`, once what it changed is durable.
    pub async fn change(
        &self,
        key: RowKey,
        guard: Option<RowKey>,
        durability: Durability,
        request: Request<Value>,
    ) -> Result<Answer<Value>, Error> {
        let (bounds, on_replace) = (self.bounds(), self.on_replace);
        let memory = self.recent.clone();
        let how = how_to_run(durability, &request);
        let change = move |txn: &mut RowTxn<'_>| {
            let cell = cell_of(txn.row(&key)?.unwrap_or_default());
            let guard_holds = match &guard {
                Some(guard) => txn.head(guard)?.is_some_and(|head| head.is_live()),
                None => true,
            };
            let remembered = lock(&memory).take(&key, txn.undone());
            let mut recent =
                remembered.unwrap_or_else(|| Recent::forgotten(Rules::CORRECT, &cell, &bounds));
            let step = replica::step(
                Rules::CORRECT,
                &bounds,
                &cell,
                &mut recent,
                request,
                guard_holds,
            );
            if let Some(new) = step.cell {
                store_cell(txn, &key, &cell, new, on_replace)?;
            }
            lock(&memory).put(key, recent);
            Ok(step.answer)
        };
        Ok(self.store.transact(how, change).await?)
    }
}

impl Replica {
    /// Live rows of a partition whose keys begin with `prefix`, behind `after`, at most `limit`.
    pub async fn scan(
        &self,
        partition: PartitionId,
        prefix: &Bytes,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Vec<Scanned>, Error> {
        let prefix = prefix.clone();
        let scan = move |rows: &RowReader<'_>| {
            let mut found = Vec::new();
            let start = match &after {
                Some(after) => Bound::Excluded(&after[..]),
                None => Bound::Included(&prefix[..]),
            };
            rows.scan_heads(partition, &prefix, start, &mut |key, row| {
                if let Some(head) = row.head {
                    let key = RowKey {
                        partition,
                        key: Bytes::copy_from_slice(key),
                    };
                    let stamp = row.stamp;
                    found.push(Scanned { key, stamp, head });
                }
                Ok(match found.len() < limit {
                    true => Flow::Continue,
                    false => Flow::Stop,
                })
            })?;
            Ok(found)
        };
        Ok(self.store.read(scan).await?)
    }
}

/// A tombstone goes on while the disk is nearly full: it gives room back. So does a promise,
/// without which nothing could be deleted on a condition.
fn how_to_run(durability: Durability, request: &Request<Value>) -> Transact {
    let how = Transact::new(durability);
    match request {
        Request::Write { version, .. } => match &version.value {
            Some(value) => how.weighing(weight(value)),
            None => how.shrinking(),
        },
        Request::Read { .. } | Request::Prepare { .. } => how.shrinking(),
    }
}

/// What a value holds in memory, roughly.
fn weight(value: &Value) -> usize {
    let body = match &value.body {
        Body::Empty => 0,
        Body::Inline(bytes) => bytes.len(),
        Body::Blocks(blocks) => blocks.len() * size_of::<BlockRef>(),
        Body::BlocksAnd(blocks, rest) => blocks.len() * size_of::<BlockRef>() + rest.len(),
    };
    1024 + value.head.len() + body
}

fn lock(memory: &Mutex<Remembered>) -> MutexGuard<'_, Remembered> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn store_cell(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: Cell<Value>,
    on_replace: OnReplace,
) -> Result<(), archipel_storage::Error> {
    if let Some(value) = old.value.as_ref().filter(|_| new.stamp != old.stamp)
        && let Some(work) = on_replace(key, value, new.value.as_ref())
    {
        txn.queue_push(&work)?;
    }
    txn.set(key, &row_of(new))
}

fn cell_of(row: Row) -> Cell<Value> {
    Cell {
        promised: row.promised,
        stamp: row.stamp,
        write: row.write,
        value: row.value,
    }
}

fn row_of(cell: Cell<Value>) -> Row {
    Row {
        promised: cell.promised,
        stamp: cell.stamp,
        write: cell.write,
        value: cell.value,
    }
}

#[cfg(test)]
mod tests;
