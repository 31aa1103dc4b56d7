//! The local replica. It answers the register's requests from the store.

use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_base::{Id, boxed};
use archipel_storage as storage;
use archipel_storage::{BlockRef, Payload, Row, RowKey, RowReader, RowTxn, Store, Value};
use parking_lot::Mutex;

use crate::node::companions::CompanionNews;
use crate::node::epochs::Epochs;
use crate::node::feed::Feed;
use crate::node::options::Hooks;
use crate::node::wire::RowCall;
use crate::node::{floors, tombstones::TombstoneStats};
use crate::register::{Answer, Bounds, Cell, Intent, Recent, Request, Rules, Version, replica};

mod address;
mod change;
mod companions;
mod guards;
mod limits;
mod offer;
mod pointing;
mod remembered;
pub(crate) mod versions;

use change::{Change, how_to_run};
pub(crate) use offer::{Applied, Offer};
use remembered::Remembered;
use versions::Part;

/// The largest lead of a stamp over the local clock.
pub(crate) const AHEAD_MILLIS: u64 = 60_000;
/// The longest value that is piggybacked: it fits the packet of the answer.
const PIGGYBACKED_BYTES: usize = 1024;

/// The local replica of every row.
pub(crate) struct Replica {
    store: Store,
    around: Around,
    epochs: Arc<Epochs>,
    recent: Arc<Mutex<Remembered>>,
    feed: Arc<Feed>,
}

/// The context that every change of a row needs beside the row.
#[derive(Clone)]
struct Around {
    hooks: Hooks,
    wall: Arc<dyn WallClock>,
    tombstones: Arc<TombstoneStats>,
    news: Arc<CompanionNews>,
}

impl Replica {
    pub fn new(
        store: Store,
        wall: Arc<dyn WallClock>,
        hooks: Hooks,
        epochs: Arc<Epochs>,
        run: Id,
        remembered_rows: usize,
    ) -> Replica {
        Replica {
            store,
            around: Around {
                hooks,
                wall,
                tombstones: Arc::default(),
                news: Arc::default(),
            },
            epochs,
            recent: Arc::new(Mutex::new(Remembered::new(remembered_rows))),
            feed: Arc::new(Feed::new(run)),
        }
    }

    /// Returns what the model adds to the rules of rows.
    pub fn hooks(&self) -> Hooks {
        self.around.hooks
    }

    /// Returns the row that must be here before a version is accepted: the one that points to its
    /// write. `own` is the row that the version's own coordinator named.
    pub fn pointing_of(
        &self,
        key: &RowKey,
        version: &Version<Value>,
        own: Option<(RowKey, Intent)>,
    ) -> Option<RowKey> {
        pointing::needed(key, version, own, self.around.hooks)
    }

    /// Returns the tombstone statistics.
    pub fn tombstones(&self) -> Arc<TombstoneStats> {
        self.around.tombstones.clone()
    }

    /// Says which partitions got companions.
    pub fn companion_news(&self) -> &Arc<CompanionNews> {
        &self.around.news
    }

    /// Returns the feed of accepted changes.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Answers a request, once its changes are durable. `is_over` is true if a quorum has told that
    /// the row which points to the write is over.
    ///
    /// # Errors
    /// [`storage::Error::NoBlock`] if the row refers to blocks that are not here yet;
    /// [`storage::Error::Busy`] if a newer layout must be learnt first.
    #[boxed]
    pub async fn answer(
        &self,
        call: RowCall,
        is_over: bool,
    ) -> Result<Answer<Value>, storage::Error> {
        if let Some(refusal) = self.refuse(&call.address)? {
            return Ok(refusal);
        }
        match call.request {
            Request::Read { with_value } => self.read(&call, with_value).await,
            Request::Prepare { .. } | Request::Write { .. } => self.change(call, is_over).await,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds::without_floors(self.around.wall.now_millis(), AHEAD_MILLIS)
    }

    /// Answers a `Read`. The payload is read only if it is wanted. A short value is piggybacked, so
    /// that the reader does not depend on the one replica that it asked for the value.
    ///
    /// A guard refuses the read only where the replica knows that it does not hold. A replica that
    /// has not heard of the guard answers: others in the quorum know.
    async fn read(
        &self,
        call: &RowCall,
        with_value: bool,
    ) -> Result<Answer<Value>, storage::Error> {
        let bounds = self.bounds();
        let (key, with_payload) = (call.row_key(), call.with_payload);
        let (about, hooks) = (call.about.clone(), self.around.hooks);
        let guards = guards::of(call);
        let under = self.epochs.under(call.address.epoch);
        let read = move |rows: &RowReader<'_>| {
            // Rows of the older epoch may have been dropped meanwhile.
            if let Some(epoch) = under.superseded() {
                return Ok(Answer::Superseded { epoch });
            }
            let bounds = floors::bounds(rows, key.partition, bounds)?;
            if guards::refuse(rows, &guards, hooks)? {
                return Ok(Answer::Guarded);
            }
            let (row, is_whole) = match (with_payload, with_value) {
                (true, true) => (rows.row(&key)?, true),
                (true, false) => rows.row_at_hand(&key)?,
                (false, _) => (rows.metadata(&key)?.map(Row::from), true),
            };
            let value = row.as_ref().and_then(|row| row.value.as_ref());
            let is_short = value.is_some_and(|value| content_bytes(value) <= PIGGYBACKED_BYTES);
            let with_value = with_value || (is_whole && is_short);
            let cell = cell_of(row.unwrap_or_default());
            let reports = match &about {
                Some(about) => versions::told(rows, &key, &cell, about, &bounds, hooks)?,
                None => Vec::new(),
            };
            let mut recent = Recent::forgotten(Rules::CORRECT, &cell, &bounds);
            let request = Request::Read { with_value };
            let step = replica::step(Rules::CORRECT, &bounds, &cell, &mut recent, request, true);
            Ok(step.answer.telling(reports))
        };
        self.store.look_up(read).await
    }

    /// Answers a `Prepare` or a `Write`.
    async fn change(&self, call: RowCall, is_over: bool) -> Result<Answer<Value>, storage::Error> {
        let (how, item) = (how_to_run(&call), companions::Item::of(&call));
        let topics = match &call.request {
            Request::Write { .. } => (self.around.hooks.topics)(&call.row_key()),
            Request::Read { .. } | Request::Prepare { .. } => None,
        };
        let change = Change {
            bounds: self.bounds(),
            around: self.around.clone(),
            memory: self.recent.clone(),
            under: self.epochs.under(call.address.epoch),
            is_alone: self.epochs.is_alone_in(call.address.partition),
            is_over,
            call,
        };
        let answer = self
            .store
            .transact(how, |txn: &mut RowTxn<'_>| change.run(txn))
            .await;
        // After the commit, so that who hears of the change finds it. No caller drops this future
        // half-way.
        if let (Ok(Answer::Accepted), Some(item)) = (&answer, item) {
            item.tell(&self.around.news);
        }
        if let (Ok(Answer::Accepted), Some(topics)) = (&answer, topics) {
            self.feed.tell(topics);
        }
        answer
    }
}

/// Returns about how much memory a value takes.
pub(crate) fn weight(value: &Value) -> usize {
    1024 + content_bytes(value)
}

fn content_bytes(value: &Value) -> usize {
    let payload = match &value.payload {
        Payload::Empty => 0,
        Payload::Inline(bytes) => bytes.len(),
        Payload::Blocks(blocks) => blocks.len() * size_of::<BlockRef>(),
        Payload::BlocksAnd(blocks, rest) => blocks.len() * size_of::<BlockRef>() + rest.len(),
    };
    value.metadata.len() + payload
}

/// Stores an object's row, or any other row, with what the accepted version changes in kept rows.
/// Returns the answer that refuses it instead if the replica lacks something.
fn put_cell(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: Cell<Value>,
    accepted: Option<&Version<Value>>,
    around: &Around,
) -> Result<Result<(), Answer<Value>>, storage::Error> {
    let moves = match accepted {
        Some(version) => versions::moves(txn, key, old, version, around.hooks)?,
        None => Ok(versions::Moves::default()),
    };
    let moves = match moves {
        Ok(moves) => moves,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let current = match moves.changes.is_empty() {
        true => None,
        false => new.value.clone(),
    };
    versions::store(txn, &moves, current.as_ref(), Part::Living, around)?;
    if moves.is_kept {
        around.tombstones.note(key.partition, &new);
        txn.set(key, &row_of(new))?;
    } else {
        store_cell(txn, key, old, new, around)?;
    }
    versions::store(txn, &moves, current.as_ref(), Part::Gone, around)?;
    Ok(Ok(()))
}

fn store_cell(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: Cell<Value>,
    around: &Around,
) -> Result<(), storage::Error> {
    let row = note_cell(txn, key, old, new, around)?;
    txn.set(key, &row)
}

/// Notes what follows from the change of a cell. Returns the row to store.
fn note_cell(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    old: &Cell<Value>,
    new: Cell<Value>,
    around: &Around,
) -> Result<Row, storage::Error> {
    if let Some(value) = old.value.as_ref().filter(|_| new.stamp != old.stamp)
        && let Some(work) = (around.hooks.on_replace)(key, value, new.value.as_ref())
    {
        txn.queue_push(&work)?;
    }
    around.tombstones.note(key.partition, &new);
    Ok(row_of(new))
}

pub(crate) fn cell_of(row: Row) -> Cell<Value> {
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
