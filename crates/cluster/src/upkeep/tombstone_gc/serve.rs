//! A replica's answers to a floor round.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_storage::engine::Durability;
use archipel_storage::rows::{Granularity, Window};
use archipel_storage::store::Transact;
use archipel_storage::{Error, RowReader, RowTxn};
use bytes::Bytes;

use super::hour_of;
use crate::node::epochs::Check;
use crate::node::floors as record;
use crate::register::floor::{self, FloorAnswer, FloorRequest, Floors};
use crate::upkeep::Upkeep;
use crate::upkeep::anti_entropy::digests;
use crate::upkeep::anti_entropy::wire::{FloorCall, FloorReply};

/// The number of times that new tombstones are dropped before a comparison is given up.
const COLLECTIONS: usize = 3;

impl Upkeep {
    /// Answers a floor round's request of another node.
    pub(in crate::upkeep) async fn serve_floor(
        self: &Arc<Upkeep>,
        from: NodeId,
        call: FloorCall,
    ) -> Result<FloorReply, String> {
        let learnt = self.keep_up(from, call.address.epoch).await;
        learnt.map_err(|error| error.to_string())?;
        let answer = self.answer_floor(call).await;
        Ok(FloorReply(answer.map_err(|error| error.to_string())?))
    }

    /// Answers for the local replica, once its changes are durable.
    pub(in crate::upkeep) async fn answer_floor(
        self: &Arc<Upkeep>,
        call: FloorCall,
    ) -> Result<FloorAnswer<Bytes>, Error> {
        if self.epochs.check(&call.address) != Check::Pass {
            return Err(Error::Busy("this node knows another layout".into()));
        }
        self.check_floor(&call.request)?;
        let partition = call.address.partition;
        for _ in 0..COLLECTIONS {
            if let Some(answer) = self.try_answer(call.clone()).await? {
                if answer == FloorAnswer::Agreed {
                    self.collect_soon(partition);
                }
                return Ok(answer);
            }
            self.collect(partition).await?;
        }
        Err(Error::Busy(
            "tombstones are made faster than they are dropped".into(),
        ))
    }

    /// Refuses a floor ahead of this clock. It would refuse all writes until then, and the asking
    /// node's clock is wrong.
    fn check_floor(&self, request: &FloorRequest<Bytes>) -> Result<(), Error> {
        let (FloorRequest::Close { floor }
        | FloorRequest::Compare { floor, .. }
        | FloorRequest::Freeze { floor, .. }
        | FloorRequest::Agree { floor }) = *request;
        if hour_of(floor).is_none() {
            return Err(Error::Refused("a floor that is not on an hour".into()));
        }
        if floor.millis() >= self.options.wall.now_millis() {
            return Err(Error::Refused("a floor ahead of this node's clock".into()));
        }
        Ok(())
    }

    /// Answers, or returns `None` if tombstones must be dropped first.
    async fn try_answer(
        self: &Arc<Upkeep>,
        call: FloorCall,
    ) -> Result<Option<FloorAnswer<Bytes>>, Error> {
        let (fence, tombstones) = (self.epochs.fence(), self.replica.tombstones());
        let rules = self.anti_entropy.floors.rules();
        let answer = move |txn: &mut RowTxn<'_>| {
            let epoch = call.address.epoch;
            if fence.load(Ordering::SeqCst) > epoch {
                return Err(Error::Busy("a newer layout is known".into()));
            }
            let partition = call.address.partition;
            let before = record::read(&txn.reader(), partition)?;
            let mut floors = before.unwrap_or(Floors::joining(epoch));
            let digest = |floor, gone| {
                if !tombstones.of(partition).has_no_tombstone(gone) {
                    return Err(NoDigest::TombstonesLeft);
                }
                rows_up_to(&txn.reader(), partition, floor).map_err(NoDigest::Failed)
            };
            let answer = floor::answer(rules, &mut floors, epoch, call.request, digest);
            if before != Some(floors) {
                record::write(txn, partition, &floors)?;
            }
            match answer {
                Ok(answer) => Ok(Some(answer)),
                Err(NoDigest::TombstonesLeft) => Ok(None),
                Err(NoDigest::Failed(error)) => Err(error),
            }
        };
        let how = Transact::new(Durability::Fsync).bounded();
        self.store().transact(how, answer).await
    }

    pub(super) fn collect_soon(&self, partition: PartitionId) {
        self.anti_entropy.floors.to_collect.lock().insert(partition);
        self.anti_entropy.floors.wake.notify_one();
    }
}

/// The reason why there is no digest of a partition's rows.
enum NoDigest {
    /// Tombstones that are gone must be dropped first.
    TombstonesLeft,
    /// The store failed.
    Failed(Error),
}

/// Returns the digest of a partition's rows up to a floor, tombstones included.
fn rows_up_to(rows: &RowReader<'_>, partition: PartitionId, floor: Stamp) -> Result<Bytes, Error> {
    let end = hour_of(floor).unwrap_or_default();
    let window = sum_before(rows, partition, end)?;
    let mut bytes = window.rows.to_be_bytes().to_vec();
    bytes.extend_from_slice(&window.digest.0);
    Ok(bytes.into())
}

/// Returns all rows before an hour as one window: whole months, then whole days, then hours.
fn sum_before(
    rows: &RowReader<'_>,
    partition: PartitionId,
    end_hour: u32,
) -> Result<Window, Error> {
    let hours =
        |granularity: Granularity| (granularity.millis() / Granularity::Hour.millis()) as u32;
    let (mut all, mut from_hour) = (Vec::new(), 0);
    for granularity in [Granularity::Month, Granularity::Day, Granularity::Hour] {
        let each = hours(granularity);
        let (first, end) = (from_hour / each, end_hour / each);
        let limit = (end - first) as usize;
        let found = rows.windows(partition, granularity, first, limit)?;
        all.extend(found.into_iter().filter(|(n, _)| *n < end).map(|(_, w)| w));
        from_hour = end * each;
    }
    Ok(digests::sum(all))
}
