//! The local replica: carries the register's requests to the store.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archipel_base::clock::WallClock;
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{BlockRef, Body, Row, RowKey, RowReader, RowTxn, Store, Value};

use crate::cluster::Hooks;
use crate::epochs::{Check, Epochs};
use crate::heal::{Litter, record};
use crate::register::{Answer, Bounds, Cell, Recent, Request, Rules, replica};
use crate::wire::RowCall;

mod offer;

pub(crate) use offer::{Offer, Taken};

/// How far a stamp may be ahead of the local clock.
pub(crate) const AHEAD_MILLIS: u64 = 60_000;
/// The longest value that is told unasked: it fits the packet of the answer.
const TOLD_UNASKED_BYTES: usize = 1024;
/// For how many rows the accepted writes are remembered at most.
const REMEMBERED_ROWS: usize = 4096;

/// The local replica of every row.
pub(crate) struct Replica {
    store: Store,
    wall: Arc<dyn WallClock>,
    around: Around,
    epochs: Arc<Epochs>,
    recent: Arc<Mutex<Remembered>>,
}

/// What a change of a row is told to.
#[derive(Clone)]
struct Around {
    hooks: Hooks,
    litter: Arc<Litter>,
}

/// What is remembered of accepted writes, by row: two generations, so that forgetting is cheap
/// and what was used lately stays.
#[derive(Default)]
struct Remembered {
    /// The store's: what was remembered in an earlier one may be of changes that were undone, or of rows that were forgotten.
    era: u64,
    young: HashMap<RowKey, Recent>,
    old: HashMap<RowKey, Recent>,
}

impl Remembered {
    fn take(&mut self, key: &RowKey, era: u64) -> Option<Recent> {
        if self.era != era {
            *self = Remembered {
                era,
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
    pub fn new(
        store: Store,
        wall: Arc<dyn WallClock>,
        hooks: Hooks,
        epochs: Arc<Epochs>,
    ) -> Replica {
        Replica {
            store,
            wall,
            around: Around {
                hooks,
                litter: Arc::default(),
            },
            epochs,
            recent: Arc::default(),
        }
    }

    /// What is known of tombstones and promises.
    pub fn litter(&self) -> Arc<Litter> {
        self.around.litter.clone()
    }

    /// Answers a request, once what it changed is durable.
    ///
    /// # Errors
    /// [`storage::Error::NoBlock`] if the row refers to blocks that are not here yet;
    /// [`storage::Error::Busy`] if a newer layout must be learnt first.
    pub async fn answer(&self, call: RowCall) -> Result<Answer<Value>, storage::Error> {
        match self.epochs.check(&call.address) {
            Check::Pass => {}
            Check::Superseded(epoch) => return Ok(Answer::Superseded { epoch }),
            Check::Learn => return Err(storage::Error::Busy("the layout is being learnt".into())),
            // As if nobody answered: the store that is meant is not here, though its node is.
            Check::NotHere => {
                return Err(storage::Error::Io("the partition is not kept here".into()));
            }
        }
        match call.request {
            Request::Read { with_value } => self.read(&call, with_value).await,
            Request::Prepare { .. } | Request::Write { .. } => self.change(call).await,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds::without_floors(self.wall.now_millis(), AHEAD_MILLIS)
    }

    /// Answers a `Read`; the body comes along only if it is wanted. What is short is told unasked, so that the reader does not
    /// depend on the one replica that it asked for the value.
    async fn read(
        &self,
        call: &RowCall,
        with_value: bool,
    ) -> Result<Answer<Value>, storage::Error> {
        let bounds = self.bounds();
        let (key, with_body) = (call.row_key(), call.with_body);
        let read = move |rows: &RowReader<'_>| {
            let bounds = record::bounds(rows, key.partition, bounds)?;
            let (row, is_whole) = match (with_body, with_value) {
                (true, true) => (rows.row(&key)?, true),
                (true, false) => rows.row_at_hand(&key)?,
                (false, _) => (rows.head(&key)?.map(Row::from), true),
            };
            let value = row.as_ref().and_then(|row| row.value.as_ref());
            let is_short = value.is_some_and(|value| content_bytes(value) <= TOLD_UNASKED_BYTES);
            let with_value = with_value || (is_whole && is_short);
            let cell = cell_of(row.unwrap_or_default());
            let mut recent = Recent::forgotten(Rules::CORRECT, &cell, &bounds);
            let request = Request::Read { with_value };
            let step = replica::step(Rules::CORRECT, &bounds, &cell, &mut recent, request, true);
            Ok(step.answer)
        };
        self.store.look_up(read).await
    }

    /// Answers a `Prepare` or a `Write`.
    async fn change(&self, call: RowCall) -> Result<Answer<Value>, storage::Error> {
        let (bounds, around) = (self.bounds(), self.around.clone());
        let (memory, fence) = (self.recent.clone(), self.epochs.fence());
        let how = how_to_run(call.durability(), &call.request);
        let change = move |txn: &mut RowTxn<'_>| {
            let epoch = fence.load(Ordering::SeqCst);
            if epoch > call.address.epoch {
                // A newer one was learnt while the request waited.
                return Ok(Answer::Superseded { epoch });
            }
            let key = call.row_key();
            let bounds = record::bounds(&txn.reader(), key.partition, bounds)?;
            let row = match &call.request {
                Request::Write { .. } => txn.row_to_replace(&key)?,
                Request::Read { .. } | Request::Prepare { .. } => txn.row(&key)?,
            };
            let cell = cell_of(row.unwrap_or_default());
            let guard_holds = guards_hold(txn, &call, around.hooks)?;
            let remembered = lock(&memory).take(&key, txn.era());
            let mut recent =
                remembered.unwrap_or_else(|| Recent::forgotten(Rules::CORRECT, &cell, &bounds));
            let step = replica::step(
                Rules::CORRECT,
                &bounds,
                &cell,
                &mut recent,
                call.request,
                guard_holds,
            );
            if let Some(new) = step.cell {
                end_guard(txn, &key, &cell, &new, &around)?;
                store_cell(txn, &key, &cell, new, &around)?;
            }
            lock(&memory).put(key, recent);
            Ok(step.answer)
        };
        self.store.transact(how, change).await
    }
}

/// Whether each row that guards the request holds here, or was ended by this very write.
fn guards_hold(txn: &RowTxn<'_>, call: &RowCall, hooks: Hooks) -> Result<bool, storage::Error> {
    for guard in call.guard_keys() {
        let Some(row) = txn.head(&guard)? else {
            return Ok(false);
        };
        let ended_by_it = match &call.request {
            Request::Write { version, .. } => row.is_written() && row.write == version.write,
            Request::Read { .. } | Request::Prepare { .. } => false,
        };
        let holds = row.head.is_some_and(|head| (hooks.holds)(&guard, &head));
        if !holds && !ended_by_it {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A version may end a row of the same partition: it is a tombstone from the moment in which the
/// version is held, at every replica that holds it, however it came there.
fn end_guard(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: &Cell<Value>,
    around: &Around,
) -> Result<(), storage::Error> {
    let Some(value) = new.value.as_ref().filter(|_| new.stamp != old.stamp) else {
        return Ok(());
    };
    let Some(ended) = (around.hooks.ends)(key, value) else {
        return Ok(());
    };
    let cell = cell_of(txn.row(&ended)?.unwrap_or_default());
    if cell.value.is_none() || cell.stamp >= new.stamp {
        return Ok(());
    }
    // Live rows of the kind only ever end, so a promise need not be asked.
    let tombstone = Cell {
        promised: cell.promised.max(new.stamp),
        stamp: new.stamp,
        write: new.write,
        value: None,
    };
    store_cell(txn, &ended, &cell, tombstone, around)
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
pub(crate) fn weight(value: &Value) -> usize {
    1024 + content_bytes(value)
}

fn content_bytes(value: &Value) -> usize {
    let body = match &value.body {
        Body::Empty => 0,
        Body::Inline(bytes) => bytes.len(),
        Body::Blocks(blocks) => blocks.len() * size_of::<BlockRef>(),
        Body::BlocksAnd(blocks, rest) => blocks.len() * size_of::<BlockRef>() + rest.len(),
    };
    value.head.len() + body
}

fn lock(memory: &Mutex<Remembered>) -> MutexGuard<'_, Remembered> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn store_cell(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: Cell<Value>,
    around: &Around,
) -> Result<(), storage::Error> {
    if let Some(value) = old.value.as_ref().filter(|_| new.stamp != old.stamp)
        && let Some(work) = (around.hooks.on_replace)(key, value, new.value.as_ref())
    {
        txn.queue_push(&work)?;
    }
    around.litter.note(key.partition, &new);
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
