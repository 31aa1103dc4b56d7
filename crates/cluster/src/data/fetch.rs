//! Fetching blocks and rows that the local replica lacks from other replicas.

use std::sync::Arc;

use archipel_base::{PartitionId, Stamp, boxed};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::{BlockRef, Payload, Pin, RowKey, Value};
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::Data;
use super::block_reader::BlockStream;
use crate::error::Error;
use crate::node::replica::{Applied, Offer};
use crate::node::wire::Address;
use crate::register::Version;

/// The traffic class of the blocks of a row that another node brings here and no client waits for,
/// as of one that a rebalance moves. They come after the content of clients, and before the
/// background, which is held back while anything else uses the link: a layout change waits for them.
pub(crate) const MOVED: Class = Class::Data {
    remaining: u64::MAX,
};

/// The number of queues for fetches of one urgency.
const QUEUES: usize = 1024;
/// The most rows of one urgency that fetch blocks from other nodes at once.
const FETCHES: usize = 8;

/// The fetches of a node by their urgency. None waits for a less urgent one, which may take long:
/// it gives way on its link.
///
/// Those in the background wait for the [throttle](crate::node::throttle). So only anti-entropy waits
/// for them, which holds no unit of background work meanwhile.
#[derive(Default)]
pub(super) struct Fetches {
    for_clients: Turns,
    moved: Turns,
    background: Turns,
}

impl Fetches {
    /// Returns the turns of fetches in a traffic class, which is `None` if a client waits.
    fn of(&self, class: Option<Class>) -> &Turns {
        match class {
            None => &self.for_clients,
            Some(Class::Background) => &self.background,
            Some(_) => &self.moved,
        }
    }
}

/// The fetches of one urgency.
struct Turns {
    /// Fetches of the same blocks queue here.
    queues: Vec<Mutex<()>>,
    /// The permits of fetches whose turn has come. None of them waits with a permit for another one.
    at_once: Semaphore,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            at_once: Semaphore::new(FETCHES),
            queues: (0..QUEUES).map(|_| Mutex::new(())).collect(),
        }
    }
}

impl Turns {
    /// Returns the queue of the fetches of these blocks. All blocks of a row count, whichever of them
    /// are here already: a fetch under way brings them one after another. Rows that only begin with
    /// the same block, as disk images do, have queues of their own.
    fn queue(&self, blocks: &[BlockRef]) -> &Mutex<()> {
        let queue = blocks.iter().fold(0_u16, |queue, block| {
            let hash = u16::from_be_bytes([block.hash.0[0], block.hash.0[1]]);
            queue.wrapping_mul(31).wrapping_add(hash)
        });
        &self.queues[usize::from(queue) % QUEUES]
    }
}

/// Blocks that were fetched. They stay while this is held.
pub(crate) struct Fetched {
    /// Keeps garbage collection away from them.
    _pin: Pin,
    pub upload: storage::BlockAppender,
    /// The number of blocks that were not here before, and their bytes.
    pub blocks: u64,
    pub bytes: u64,
}

impl Data {
    /// Brings a row of the local replica up to date. Returns true if the replica was lagging. `class`
    /// is the traffic class of its blocks, if no client waits.
    pub(crate) async fn bring(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        class: Option<Class>,
    ) -> Result<bool, Error> {
        let wanted = key.clone();
        let before = self
            .store()
            .look_up(move |rows| rows.metadata(&wanted))
            .await?;
        let version = self.read_whole(key, class.is_some()).await?;
        if before.is_some_and(|metadata| metadata.stamp >= version.stamp) {
            return Ok(false);
        }
        self.take(address, key, version, class).await?;
        Ok(true)
    }

    /// Brings the row that points to a write up to date here. Returns true if it is over: a quorum
    /// tells that it is deleted, or that it was so long ago that nobody remembers it.
    ///
    /// # Errors
    /// [`storage::Error::Busy`] if the other replicas cannot be asked, and the errors of storage.
    pub(crate) async fn bring_pointing(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        class: Option<Class>,
    ) -> Result<bool, storage::Error> {
        let busy = |error: Error| {
            storage::Error::Busy(format!("the row of an upload cannot be read: {error}"))
        };
        let version = self.read_whole(key, class.is_some()).await.map_err(busy)?;
        let is_over = version.value.is_none();
        if !is_over {
            self.take(address, key, version, class).await?;
        }
        Ok(is_over)
    }

    /// Applies a version that another replica holds. If the row that points to its write is lacking
    /// here, it brings that row first. `class` is the traffic class of that row's blocks, if no client
    /// waits.
    ///
    /// # Errors
    /// [`storage::Error::NoBlock`] if the row refers to blocks that are not here yet;
    /// [`storage::Error::Busy`] if other replicas cannot be asked; the errors of storage.
    #[boxed]
    pub(crate) async fn apply(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        offer: Offer,
        class: Option<Class>,
    ) -> Result<Applied, storage::Error> {
        let apply = |offer| self.replica.apply(address, key.clone(), offer);
        let applied = apply(offer.clone()).await?;
        if applied != Applied::LacksPointing {
            return Ok(applied);
        }
        let Some(pointing) = self.replica.pointing_of(key, &offer.version, None) else {
            return Ok(applied);
        };
        let is_over = self.bring_pointing(address, &pointing, class).await?;
        apply(Offer { is_over, ..offer }).await
    }

    /// Applies a version that a read returned, with the blocks that it refers to.
    async fn take(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        version: Version<Value>,
        class: Option<Class>,
    ) -> Result<(), storage::Error> {
        // The read may have brought it already.
        let payload = version.value.as_ref().map(|value| value.payload.clone());
        let take = |version| {
            let offer = Offer::settled(version);
            self.apply(address, key, offer, class)
        };
        match (take(version.clone()).await, payload) {
            (Err(storage::Error::NoBlock(_)), Some(payload)) => {
                let turn = self.turn_until(class);
                let fetched = self.fetch_missing(key.partition, &payload, class, turn);
                let _held = fetched.await?;
                take(version).await.map(drop)
            }
            (taken, _) => taken.map(drop),
        }
    }

    /// Returns the time until which a fetch that begins now waits for its turn: that of an operation,
    /// or less if another node's call brought it for no client. Those that wait outlive the calls, and
    /// would become ever more.
    pub(super) fn turn_until(&self, class: Option<Class>) -> Instant {
        let patience = match class {
            Some(MOVED) => self.answer_time(),
            _ => self.options.times.operation,
        };
        Instant::now() + patience
    }

    /// Fetches the missing blocks of a payload, once few others are fetched. `class` is the traffic
    /// class, if no client waits.
    ///
    /// # Errors
    /// [`storage::Error::Busy`] if its turn does not come until this time.
    pub(crate) async fn fetch_missing(
        self: &Arc<Data>,
        partition: PartitionId,
        payload: &Payload,
        class: Option<Class>,
        until: Instant,
    ) -> Result<Fetched, storage::Error> {
        self.fetch(Some(until), partition, payload, class).await
    }

    /// Fetches the missing blocks of a payload for anti-entropy, which itself limits how many fetches
    /// run at once. They are durable on return. Each write here is a unit of background work. Waiting
    /// for another node is not part of a unit, because it may be long. `class` is the traffic class.
    pub(crate) async fn fetch_with(
        self: &Arc<Data>,
        partition: PartitionId,
        payload: &Payload,
        class: Option<Class>,
    ) -> Result<Fetched, storage::Error> {
        self.fetch(None, partition, payload, class).await
    }

    /// Fetches the missing blocks of a payload. `until` limits the waits for the turn and a permit.
    /// Anti-entropy gives none: it takes no permit here.
    async fn fetch(
        self: &Arc<Data>,
        until: Option<Instant>,
        partition: PartitionId,
        payload: &Payload,
        class: Option<Class>,
    ) -> Result<Fetched, storage::Error> {
        #[cfg(test)]
        self.fetched_in.lock().push(class);
        let blocks = payload.blocks();
        let pin = self.store().pin(blocks);
        let mut missing = self.store().missing_blocks(blocks.to_vec()).await?;
        let _turn = match missing.is_empty() {
            true => None,
            false => {
                let turn = in_time(until, self.turn_of(blocks, class)).await?;
                // The fetch before this one in the queue may have brought them.
                missing = self.store().missing_blocks(missing).await?;
                Some(turn)
            }
        };
        let _permit = match until.is_some() && !missing.is_empty() {
            false => None,
            true => {
                let permit = in_time(until, self.fetches.of(class).at_once.acquire()).await?;
                Some(permit.map_err(|error| storage::Error::Busy(error.to_string()))?)
            }
        };
        let is_unit = until.is_none();
        let mut fetched = Fetched {
            _pin: pin,
            upload: self.store().appender(),
            blocks: 0,
            bytes: 0,
        };
        let blocks = BlockStream::new(self.clone(), partition, missing, false);
        let mut blocks = blocks.in_class(class);
        while let Some(content) = blocks.next().await {
            let content = content.map_err(|error| storage::Error::Busy(error.to_string()))?;
            fetched.blocks += 1;
            fetched.bytes += content.len() as u64;
            let storing = fetched.upload.append(content);
            self.as_unit_if(is_unit, storing).await?;
        }
        self.as_unit_if(is_unit, fetched.upload.sync()).await?;
        Ok(fetched)
    }

    /// Runs some work, as a unit of background work if `is_unit`.
    async fn as_unit_if<T>(&self, is_unit: bool, work: impl Future<Output = T>) -> T {
        match is_unit {
            true => self.throttle.run(work).await,
            false => work.await,
        }
    }

    /// Returns the turn of a fetch among those of the same blocks. Anti-entropy and the rebalancer may
    /// bring the same row to this node at the same time. So anti-entropy also waits for the other,
    /// which does not wait for it.
    async fn turn_of(&self, blocks: &[BlockRef], class: Option<Class>) -> MutexGuard<'_, ()> {
        if class == Some(Class::Background) {
            drop(self.fetches.moved.queue(blocks).lock().await);
        }
        self.fetches.of(class).queue(blocks).lock().await
    }

    /// Returns true if the row still has this stamp. It asks the local replica if there is one,
    /// because a pin depends on the local references.
    pub(crate) async fn still_holds(
        self: &Arc<Data>,
        key: &RowKey,
        stamp: Stamp,
    ) -> Result<bool, Error> {
        if self.group(key.partition)?.local().is_none() {
            return Ok(true);
        }
        let key = key.clone();
        let metadata = self
            .store()
            .look_up(move |rows| rows.metadata(&key))
            .await?;
        Ok(metadata.is_none_or(|metadata| metadata.stamp <= stamp))
    }
}

/// Waits for a turn until a time, if one is given.
async fn in_time<T>(
    until: Option<Instant>,
    turn: impl Future<Output = T>,
) -> Result<T, storage::Error> {
    let no_turn = |_| storage::Error::Busy("too many blocks are being fetched".into());
    match until {
        Some(until) => timeout_at(until, turn).await.map_err(no_turn),
        None => Ok(turn.await),
    }
}

#[cfg(test)]
mod tests;
