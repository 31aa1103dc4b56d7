//! Which partition's floor is due, and moving it.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage::rows::Granularity;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};

use super::{before_hour, record};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::group::Group;
use crate::heal::HealOptions;
use crate::heal::wire::{FloorCall, FloorReply, method};
use crate::inner::Inner;
use crate::layout::{Epoch, all_partitions};
use crate::register::floor::{FloorAnswer, FloorOutput, FloorRequest, FloorRound};
use crate::register::rules::Mutant;

/// How many floors are moved at once.
const ROUNDS: usize = 8;
/// How many partitions of which nothing is known are swept each time that the driver looks around.
const FIRST_SWEEPS: usize = 64;

impl Cluster {
    /// Moves floors whenever there is something that may go below them, until it is dropped.
    pub(in crate::heal) async fn floors_forever(&self, options: HealOptions) {
        let floors = &self.0.heal.floors;
        let _ = floors.rules.set(options.rules);
        loop {
            let chance = self.0.options.random.next_u64();
            let around = options.floor_look.as_millis() as u64;
            let wait = around - around / 4 + chance % (around / 2).max(1);
            let waited = tokio::time::sleep(Duration::from_millis(wait));
            tokio::select! {
                biased;
                () = waited => {
                    if let Some(epoch) = self.epoch() {
                        self.look_after_floors(&epoch, options).await;
                    }
                }
                () = floors.wake.notified() => self.sweep_what_is_agreed().await,
            }
        }
    }

    async fn sweep_what_is_agreed(&self) {
        let floors = &self.0.heal.floors;
        let agreed = std::mem::take(&mut *crate::heal::lock(&floors.to_sweep));
        for partition in agreed {
            self.sweep_one(partition).await;
        }
    }

    async fn sweep_one(&self, partition: PartitionId) {
        if let Err(error) = self.0.sweep(partition).await {
            tracing::warn!(%error, %partition, "tombstones cannot be dropped yet");
        }
    }

    async fn look_after_floors(&self, epoch: &Arc<Epoch>, options: HealOptions) {
        if let Err(error) = self.0.clean(epoch.number()).await {
            tracing::debug!(%error, "what went elsewhere is not forgotten yet");
        }
        let own = self.0.own_partitions(epoch);
        let is_own = |partition: &PartitionId| own.binary_search(partition).is_ok();
        crate::heal::lock(&self.0.heal.floors.waiting).retain(|partition, _| is_own(partition));
        let unknown = own
            .iter()
            .filter(|p| !self.0.replica.litter().of(**p).whole);
        for partition in unknown.take(FIRST_SWEEPS) {
            self.sweep_one(*partition).await;
        }
        let mut due = Vec::new();
        for partition in own {
            if let Some((floor, oldest)) = self.due(partition, options).await {
                due.push((partition, floor, oldest));
            } else {
                crate::heal::lock(&self.0.heal.floors.waiting).remove(&partition);
            }
        }
        let moved = stream::iter(due).map(|(partition, floor, oldest)| async move {
            let moved = self.0.move_floor(epoch, partition, floor).await;
            self.0.note_floor(partition, oldest, moved);
        });
        moved.buffer_unordered(ROUNDS).collect::<()>().await;
    }

    /// Where a partition's floor should go, and the oldest that it would let go; `None` if there is nothing to gain.
    async fn due(&self, partition: PartitionId, options: HealOptions) -> Option<(Stamp, Stamp)> {
        let known = self.0.replica.litter().of(partition);
        let oldest = known.oldest().filter(|_| known.whole)?;
        // One node does it, and the others only if that one does not.
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
        self.0.sweep_soon(partition);
        None
    }
}

impl Inner {
    /// The partitions that this store has in the live layouts.
    fn own_partitions(&self, epoch: &Epoch) -> Vec<PartitionId> {
        let mut known = crate::heal::lock(&self.heal.floors.own);
        if known.0 != epoch.number() {
            let me = self.epochs.me();
            let own = all_partitions()
                .filter(|p| epoch.replicas(*p).iter().flatten().any(|m| m.node == me));
            *known = (epoch.number(), own.collect());
        }
        known.1.clone()
    }

    fn note_floor(&self, partition: PartitionId, oldest: Stamp, moved: Result<(), Error>) {
        let mut waiting = crate::heal::lock(&self.heal.floors.waiting);
        match moved {
            Ok(()) => {
                waiting.remove(&partition);
                self.heal.floors.count(|total| total.moved += 1);
            }
            Err(error) => {
                tracing::debug!(%error, %partition, "a floor waits");
                waiting.insert(partition, (oldest, error.to_string()));
            }
        }
    }

    /// Moves a partition's floor, if every replica is there and they are equal.
    async fn move_floor(
        self: &Arc<Inner>,
        epoch: &Epoch,
        partition: PartitionId,
        floor: Stamp,
    ) -> Result<(), Error> {
        let rules = self.heal.floors.rules();
        let group = self.group(partition)?;
        if group.epoch != epoch.number() {
            return Err(Error::Unavailable("the layout changed meanwhile".into()));
        }
        if !rules.breaks(Mutant::FloorWithoutAbsent) {
            self.all_are_here(&group)?;
        }
        self.all_are_clean(epoch).await?;
        let (mut round, mut output) = FloorRound::new(rules, group.quorums.clone(), floor);
        loop {
            output = match output {
                FloorOutput::Ask(request) => self.ask_all(&group, &mut round, request).await?,
                FloorOutput::Agreed => return Ok(()),
                FloorOutput::Differ => {
                    self.hurry_replicas(&group).await;
                    let why = "the replicas differ: they are brought up to date first";
                    return Err(Error::Unavailable(why.into()));
                }
            };
        }
    }

    /// Nobody of the group seems to be away.
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
                Err(Error::Unavailable(format!("{node} is away")))
            }
        }
    }

    /// Asks all replicas that have not answered, and gives what comes next.
    async fn ask_all(
        self: &Arc<Inner>,
        group: &Group,
        round: &mut FloorRound<Bytes>,
        request: FloorRequest,
    ) -> Result<FloorOutput, Error> {
        let asked = round
            .waiting()
            .iter()
            .map(|place| async move { (place, self.ask_floor(group, place, request).await) });
        let mut why = Error::Unavailable("nobody was asked".into());
        let mut next = None;
        for (place, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => next = next.or(round.on_answer(place, answer)),
                Err(error) => why = error,
            }
        }
        next.ok_or(why)
    }

    async fn ask_floor(
        self: &Arc<Inner>,
        group: &Group,
        place: usize,
        request: FloorRequest,
    ) -> Result<FloorAnswer<Bytes>, Error> {
        let unknown = || Error::Unavailable("the replica is not known".into());
        let address = group.address(place).ok_or_else(unknown)?;
        let call = FloorCall { address, request };
        if group.is_local(place) {
            return Ok(self.answer_floor(call).await?);
        }
        let member = group.members.get(place).ok_or_else(unknown)?;
        let peers = self.peers.as_ref().ok_or_else(unknown)?;
        let node = &member.node.node;
        let asked = peers.call(node, method::FLOOR, Class::Background, &call);
        let FloorReply(answer) = asked.await?;
        Ok(answer)
    }

    /// Has all replicas of a group compare with one another soon.
    async fn hurry_replicas(&self, group: &Group) {
        let Some(peers) = &self.peers else { return };
        let others = group.members.iter().map(|member| member.node.node);
        for node in others.filter(|node| *node != self.epochs.me().node) {
            self.heal.hurry(&node);
            let wake = peers.call_bytes(&node, method::WAKE, Class::Background, Bytes::new());
            if let Err(error) = wake.await {
                tracing::debug!(%error, "a replica cannot be told that it may be behind");
            }
        }
    }
}
