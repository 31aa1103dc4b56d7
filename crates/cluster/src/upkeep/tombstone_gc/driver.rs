//! Choosing the partitions whose floor is due, and moving it.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage::rows::Granularity;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::before_hour;
use crate::error::Error;
use crate::layout::{Epoch, all_partitions};
use crate::node::floors as record;
use crate::node::group::Group;
use crate::node::wire::method;
use crate::register::floor::{FloorAnswer, FloorOutput, FloorRequest, FloorRound};
use crate::register::rules::Mutant;
use crate::upkeep::Upkeep;
use crate::upkeep::anti_entropy::AntiEntropyOptions;
use crate::upkeep::anti_entropy::wire::{FloorCall, FloorReply};

/// The number of floors that are moved at once.
const ROUNDS: usize = 8;
/// The number of partitions without statistics that are scanned each time that the driver looks for
/// work.
const FIRST_COLLECTIONS: usize = 64;

impl Upkeep {
    /// Moves floors whenever something may be dropped below them, until the future is dropped.
    pub(in crate::upkeep) async fn floors_forever(self: &Arc<Upkeep>, options: AntiEntropyOptions) {
        let floors = &self.anti_entropy.floors;
        let _ = floors.faults.set(options.faults);
        let soon = || {
            let chance = self.options.random.next_u64();
            let around = options.floor_look.as_millis() as u64;
            let wait = around - around / 4 + chance % (around / 2).max(1);
            Instant::now() + Duration::from_millis(wait)
        };
        // Others wake it with each agreement, which must not put the look off.
        let mut next = soon();
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {
                    if let Some(epoch) = self.epoch() {
                        self.look_after_floors(&epoch, options).await;
                    }
                    next = soon();
                }
                () = floors.wake.notified() => self.collect_what_is_agreed().await,
            }
        }
    }

    async fn collect_what_is_agreed(self: &Arc<Upkeep>) {
        let floors = &self.anti_entropy.floors;
        let agreed = std::mem::take(&mut *floors.to_collect.lock());
        for partition in agreed {
            self.collect_one(partition).await;
        }
    }

    async fn collect_one(self: &Arc<Upkeep>, partition: PartitionId) {
        match self.collect(partition).await {
            Ok(void) => self.retire(partition, void).await,
            Err(error) => {
                tracing::warn!(%error, %partition, "tombstones cannot be dropped yet");
            }
        }
    }

    async fn look_after_floors(
        self: &Arc<Upkeep>,
        epoch: &Arc<Epoch>,
        options: AntiEntropyOptions,
    ) {
        if let Err(error) = self.purge_stale(epoch.number()).await {
            tracing::debug!(%error, "stale partitions are not purged yet");
        }
        let own = self.own_partitions(epoch);
        let is_own = |partition: &PartitionId| own.binary_search(partition).is_ok();
        self.anti_entropy
            .floors
            .waiting
            .lock()
            .retain(|partition, _| is_own(partition));
        let unknown = own
            .iter()
            .filter(|p| !self.replica.tombstones().of(**p).whole);
        for partition in unknown.take(FIRST_COLLECTIONS) {
            self.collect_one(*partition).await;
        }
        let mut due = Vec::new();
        for partition in own {
            if let Some((floor, oldest)) = self.due(partition, options).await {
                due.push((partition, floor, oldest));
            } else {
                self.anti_entropy.floors.waiting.lock().remove(&partition);
            }
        }
        let moved = stream::iter(due).map(|(partition, floor, oldest)| async move {
            let moved = self.move_floor(epoch, partition, floor).await;
            self.note_floor(partition, oldest, moved);
        });
        moved.buffer_unordered(ROUNDS).collect::<()>().await;
    }

    /// Returns where a partition's floor should go, and the oldest stamp that it would drop; `None`
    /// if it would drop nothing.
    async fn due(
        self: &Arc<Upkeep>,
        partition: PartitionId,
        options: AntiEntropyOptions,
    ) -> Option<(Stamp, Stamp)> {
        let known = self.replica.tombstones().of(partition);
        let oldest = known.oldest().filter(|_| known.whole)?;
        // One replica moves the floor. The others do it only if that one does not.
        let turns = 1 + self.rank(partition) as u64;
        let age = options.floor_age.as_millis() as u64 * turns;
        let hour = self.now_ms().saturating_sub(age) / Granularity::Hour.millis();
        let floor = before_hour(hour);
        if oldest > floor {
            return None;
        }
        let look = move |rows: &archipel_storage::RowReader<'_>| record::read(rows, partition);
        let floors = self.store().read(look).await.ok()?;
        if floors.is_none_or(|floors| floors.agreed < floor) {
            return Some((floor, oldest));
        }
        self.collect_soon(partition);
        None
    }
}

impl Upkeep {
    /// Returns the partitions that this store has in the live layouts.
    fn own_partitions(&self, epoch: &Epoch) -> Vec<PartitionId> {
        let mut known = self.anti_entropy.floors.own.lock();
        if known.0 != epoch.number() {
            let me = self.epochs.me();
            let own = all_partitions()
                .filter(|p| epoch.replicas(*p).iter().flatten().any(|m| m.node == me));
            *known = (epoch.number(), own.collect());
        }
        known.1.clone()
    }

    fn note_floor(&self, partition: PartitionId, oldest: Stamp, moved: Result<(), Error>) {
        let mut waiting = self.anti_entropy.floors.waiting.lock();
        match moved {
            Ok(()) => {
                waiting.remove(&partition);
                self.anti_entropy.floors.count(|total| total.moved += 1);
            }
            Err(error) => {
                tracing::debug!(%error, %partition, "a floor waits");
                waiting.insert(partition, (oldest, error.to_string()));
            }
        }
    }

    /// Moves a partition's floor, if every replica is reachable and all are equal.
    async fn move_floor(
        self: &Arc<Upkeep>,
        epoch: &Epoch,
        partition: PartitionId,
        floor: Stamp,
    ) -> Result<(), Error> {
        let rules = self.anti_entropy.floors.rules();
        let group = self.group(partition)?;
        if group.epoch != epoch.number() {
            return Err(Error::Unavailable("the layout changed meanwhile".into()));
        }
        if !rules.breaks(Mutant::FloorWithoutAbsent) {
            self.all_are_here(&group)?;
        }
        self.all_are_purged(epoch).await?;
        let (mut round, mut output) = FloorRound::new(rules, group.quorums.clone(), floor);
        loop {
            output = match output {
                FloorOutput::Ask(request) => self.ask_all(&group, &mut round, request).await?,
                FloorOutput::Agreed => return Ok(()),
                FloorOutput::Differ => {
                    self.hurry_replicas(&group).await;
                    let why = "the replicas differ: anti-entropy comes first";
                    return Err(Error::Unavailable(why.into()));
                }
            };
        }
    }

    /// Checks that no node of the group is suspected.
    fn all_are_here(&self, group: &Group) -> Result<(), Error> {
        let Some(peers) = &self.peers else {
            return Ok(());
        };
        let others = group.members.iter().map(|member| member.node);
        let away = others
            .filter(|store| *store != self.epochs.me())
            .find(|store| peers.directory.is_suspected(&store.node));
        match away {
            None => Ok(()),
            Some(store) => {
                let node = store.node.short();
                Err(Error::Unavailable(format!("{node} is unreachable")))
            }
        }
    }

    /// Asks all replicas that have not answered, the local one last. Returns what comes next.
    ///
    /// If the others refuse a floor, it may be ahead of the time, and this node's clock with it. Had the local
    /// replica closed it, it would refuse all writes until then.
    async fn ask_all(
        self: &Arc<Upkeep>,
        group: &Group,
        round: &mut FloorRound<Bytes>,
        request: FloorRequest<Bytes>,
    ) -> Result<FloorOutput<Bytes>, Error> {
        let (local, others): (Vec<usize>, Vec<usize>) = round
            .waiting()
            .iter()
            .partition(|index| group.is_local(*index));
        let (mut next, mut trouble) = (None, None);
        for some in [others, local] {
            if trouble.is_some() {
                break;
            }
            let asked = some.into_iter().map(|index| {
                let request = request.clone();
                async move { (index, self.ask_floor(group, index, request).await) }
            });
            for (index, answer) in join_all(asked).await {
                match answer {
                    Ok(answer) => next = next.or(round.on_answer(index, answer)),
                    Err(error) => trouble = Some(error),
                }
            }
        }
        let nobody = || Error::Unavailable("no replica was asked".into());
        next.ok_or_else(|| trouble.unwrap_or_else(nobody))
    }

    async fn ask_floor(
        self: &Arc<Upkeep>,
        group: &Group,
        index: usize,
        request: FloorRequest<Bytes>,
    ) -> Result<FloorAnswer<Bytes>, Error> {
        let address = group.address_of(index)?;
        let call = FloorCall { address, request };
        if group.is_local(index) {
            return Ok(self.answer_floor(call).await?);
        }
        let member = group.member(index)?;
        let peers = self.peers()?;
        let node = &member.node.node;
        let asked = peers.call(node, method::FLOOR, Class::Background, &call);
        let FloorReply(answer) = asked.await?;
        Ok(answer)
    }

    /// Tells all replicas of a group to compare with one another soon.
    async fn hurry_replicas(&self, group: &Group) {
        let Some(peers) = &self.peers else { return };
        let others = group.members.iter().map(|member| member.node.node);
        for node in others.filter(|node| *node != self.epochs.me().node) {
            self.anti_entropy.hurry(&node);
            let wake = peers.call_bytes(&node, method::WAKE, Class::Background, Bytes::new());
            if let Err(error) = wake.await {
                tracing::debug!(%error, "a lagging replica cannot be told to catch up");
            }
        }
    }
}
