//! What a replica answers to a floor round.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_storage::engine::Durability;
use archipel_storage::rows::{Granularity, Window};
use archipel_storage::store::Transact;
use archipel_storage::{Error, RowReader, RowTxn};
use bytes::Bytes;

use super::{hour_of, record};
use crate::epochs::Check;
use crate::heal::prints;
use crate::heal::wire::{FloorCall, FloorReply};
use crate::inner::Inner;
use crate::register::floor::{self, FloorAnswer, FloorRequest, Floors};

/// How often what came up meanwhile is swept before a comparison is given up.
const SWEEPS: usize = 3;

impl Inner {
    /// Answers a floor round's request of another node.
    pub(in crate::heal) async fn serve_floor(
        self: &Arc<Inner>,
        from: NodeId,
        call: FloorCall,
    ) -> Result<FloorReply, String> {
        let learnt = self.keep_up(from, call.address.epoch).await;
        learnt.map_err(|error| error.to_string())?;
        let answer = self.answer_floor(call).await;
        Ok(FloorReply(answer.map_err(|error| error.to_string())?))
    }

    /// Answers for the local replica, once what it changed is durable.
    pub(in crate::heal) async fn answer_floor(
        self: &Arc<Inner>,
        call: FloorCall,
    ) -> Result<FloorAnswer<Bytes>, Error> {
        if self.epochs.check(&call.address) != Check::Pass {
            return Err(Error::Busy("the layout is another here".into()));
        }
        self.check_floor(call.request)?;
        let partition = call.address.partition;
        for _ in 0..SWEEPS {
            if let Some(answer) = self.try_answer(call).await? {
                if answer == FloorAnswer::Agreed {
                    self.sweep_soon(partition);
                }
                return Ok(answer);
            }
            self.sweep(partition).await?;
        }
        Err(Error::Busy("tombstones come faster than they go".into()))
    }

    /// A floor ahead of this clock would refuse writes until then: whoever asks for it has a clock that is wrong.
    fn check_floor(&self, request: FloorRequest) -> Result<(), Error> {
        let (FloorRequest::Close { floor }
        | FloorRequest::Compare { floor, .. }
        | FloorRequest::Agree { floor }) = request;
        if hour_of(floor).is_none() {
            return Err(Error::Refused("a floor that lies on no hour".into()));
        }
        if floor.millis() >= self.options.wall.now_millis() {
            return Err(Error::Refused("a floor ahead of the clock here".into()));
        }
        Ok(())
    }

    /// `None` if tombstones must be swept first.
    async fn try_answer(
        self: &Arc<Inner>,
        call: FloorCall,
    ) -> Result<Option<FloorAnswer<Bytes>>, Error> {
        let (fence, litter) = (self.epochs.fence(), self.replica.litter());
        let rules = self.heal.floors.rules();
        let answer = move |txn: &mut RowTxn<'_>| {
            let epoch = call.address.epoch;
            if fence.load(Ordering::SeqCst) > epoch {
                return Err(Error::Busy("a newer layout is known".into()));
            }
            let partition = call.address.partition;
            let before = record::read(&txn.reader(), partition)?;
            let mut floors = before.unwrap_or(Floors::joining(epoch));
            let compare = |floor, gone| match litter.of(partition).has_no_tombstone(gone) {
                true => rows_up_to(&txn.reader(), partition, floor).map(Some),
                false => Ok(None),
            };
            let answer = floor::answer(rules, &mut floors, epoch, call.request, compare);
            if before != Some(floors) {
                record::write(txn, partition, &floors)?;
            }
            Ok(match answer {
                FloorAnswer::Rows(rows) => rows?.map(FloorAnswer::Rows),
                FloorAnswer::Agreed => Some(FloorAnswer::Agreed),
                FloorAnswer::Closed {
                    agreed,
                    agreed_epoch,
                } => Some(FloorAnswer::Closed {
                    agreed,
                    agreed_epoch,
                }),
            })
        };
        let how = Transact::new(Durability::Fsync).bounded();
        self.store().transact(how, answer).await
    }

    pub(super) fn sweep_soon(&self, partition: PartitionId) {
        crate::heal::lock(&self.heal.floors.to_sweep).insert(partition);
        self.heal.floors.wake.notify_one();
    }
}

/// What the rows of a partition up to a floor amount to, tombstones too.
fn rows_up_to(rows: &RowReader<'_>, partition: PartitionId, floor: Stamp) -> Result<Bytes, Error> {
    let end = hour_of(floor).unwrap_or_default();
    let window = sum_before(rows, partition, end)?;
    let mut bytes = window.rows.to_be_bytes().to_vec();
    bytes.extend_from_slice(&window.fingerprint.0);
    Ok(bytes.into())
}

/// The windows of all hours before one: whole months, then whole days, then hours.
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
    Ok(prints::sum(all))
}
