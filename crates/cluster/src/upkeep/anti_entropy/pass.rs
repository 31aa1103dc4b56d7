//! One pass with another node: compare, descend where the two differ, pull.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archipel_base::codec::{self, Versioned};
use archipel_base::{NodeId, PartitionId, Stamp, boxed};
use archipel_net::Class;
use archipel_storage::{RowKey, RowReader};
use bytes::Bytes;

use super::schedule::Ended;
use super::wire::{
    CompareCall, CompareReply, FloorCall, FloorReply, MAX_PARTITIONS, Scope, Span, StampsCall,
    StampsReply, WindowsCall, WindowsReply,
};
use super::{AntiEntropyOptions, digests};
use crate::error::Error;
use crate::layout::{Epoch, StoreName};
use crate::node::floors as record;
use crate::node::wire::{Address, method};
use crate::register::epoch::Member;
use crate::register::floor::{FloorAnswer, FloorRequest};
use crate::register::rules::Mutant;
use crate::upkeep::Upkeep;
use crate::upkeep::tombstone_gc::before_hour;

/// A pass with another replica, under one epoch.
pub(super) struct Pass {
    pub upkeep: Arc<Upkeep>,
    pub peer: Member<StoreName>,
    pub scope: Scope,
    pub options: AntiEntropyOptions,
    /// This node's own incarnation.
    own: u64,
    /// True once a row has come. A row that was not newer after all does not count: it may be listed
    /// in each pass.
    pub moves_on: AtomicBool,
}

/// A row that may be newer on the other node: its name, and its stamp there.
pub(super) type Candidate = (RowKey, Stamp);

/// Partitions that no other pass works on meanwhile.
struct Claim<'a> {
    upkeep: &'a Upkeep,
    partitions: Vec<PartitionId>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.upkeep.anti_entropy.claimed.lock();
        for partition in &self.partitions {
            claimed.remove(partition);
        }
    }
}

impl Pass {
    pub fn new(
        upkeep: Arc<Upkeep>,
        peer: Member<StoreName>,
        epoch: &Epoch,
        options: AntiEntropyOptions,
    ) -> Pass {
        let scope = Scope {
            epoch: epoch.number(),
            incarnation: peer.incarnation,
        };
        let own = epoch
            .incarnation_of(&upkeep.epochs.me())
            .unwrap_or_default();
        Pass {
            upkeep,
            peer,
            scope,
            options,
            own,
            moves_on: AtomicBool::new(false),
        }
    }

    pub fn node(&self) -> NodeId {
        self.peer.node.node
    }

    /// Returns the address of this node's own replica.
    pub fn own_address(&self, partition: PartitionId) -> Address {
        Address {
            epoch: self.scope.epoch,
            incarnation: self.own,
            partition,
        }
    }

    /// Runs the pass: compares, and pulls the rows that are newer on the other node.
    #[boxed]
    pub async fn run(&self, shared: BTreeSet<PartitionId>) -> Result<Ended, Error> {
        self.upkeep.anti_entropy.note(self.node(), |peer| {
            (peer.partitions, peer.rows) = (0, 0);
        });
        let shared: Vec<PartitionId> = shared.into_iter().collect();
        let mut differ = Vec::new();
        for some in shared.chunks(MAX_PARTITIONS) {
            differ.extend(self.compare(some).await?);
        }
        most_urgent_first(&self.upkeep, &mut differ);
        let state = &self.upkeep.anti_entropy;
        state.note(self.node(), |peer| peer.partitions = differ.len() as u64);
        let (mut whole, mut all_are_free) = (true, true);
        for some in differ.chunks(self.upkeep.options.sizes.differing_partitions) {
            let claim = self.claim(some);
            all_are_free &= claim.partitions.len() == some.len();
            whole &= self.descend(&claim.partitions).await?;
            self.hear_floors(&claim.partitions).await?;
            let done = claim.partitions.len() as u64;
            state.note(self.node(), |peer| {
                peer.partitions -= done.min(peer.partitions)
            });
        }
        let is_stuck = all_are_free && !self.moves_on.load(Ordering::Relaxed);
        Ok(match whole && all_are_free {
            true => Ended::Whole,
            false if is_stuck => Ended::Stuck,
            false => Ended::Partly,
        })
    }

    /// Learns the floor up to which the other node agreed, for one partition whose floor waits
    /// here. A round may have broken off, or the layout may have changed, and a third replica has
    /// been unreachable since. Then no round ends. The other node may have dropped its tombstones,
    /// and would differ from this one for ever.
    ///
    /// Only one partition at a time: where many differ, the other node lags, and will for a while.
    async fn hear_floors(&self, partitions: &[PartitionId]) -> Result<(), Error> {
        let waiting = self.upkeep.anti_entropy.floors.waiting_of(partitions);
        if waiting.is_empty() {
            return Ok(());
        }
        let chance = self.upkeep.options.random.next_u64() as usize;
        let partition = waiting[chance % waiting.len()];
        let ask = FloorCall {
            address: self.scope.of(partition),
            // This request changes nothing: its floor is below every other.
            request: FloorRequest::Close {
                floor: before_hour(1),
            },
        };
        let FloorReply(answer) = self.call(method::FLOOR, &ask).await?;
        let FloorAnswer::Closed {
            agreed,
            agreed_epoch,
        } = answer
        else {
            return Ok(());
        };
        let look = move |rows: &RowReader<'_>| record::read(rows, partition);
        let here = self.upkeep.store().read(look).await?;
        if here.map_or(Stamp::ZERO, |floors| floors.gone) >= agreed {
            return Ok(());
        }
        // The requests are those of a round. A replica that joined later may have dropped its
        // tombstones, too.
        let compare = FloorRequest::Compare {
            floor: agreed,
            gone: agreed,
            gone_epoch: agreed_epoch,
        };
        for request in [FloorRequest::Close { floor: agreed }, compare] {
            let address = self.own_address(partition);
            let hear = FloorCall { address, request };
            self.upkeep.answer_floor(hear).await?;
        }
        Ok(())
    }

    /// Notes how the pass ended.
    pub fn note_end(&self, ended: Result<Ended, Error>) -> Ended {
        let state = &self.upkeep.anti_entropy;
        state.count(|total| total.passes += 1);
        let now_ms = self.upkeep.options.wall.now_millis();
        let node = self.node();
        match &ended {
            Ok(Ended::Whole) => {
                state.note(node, |peer| (peer.whole_ms, peer.trouble) = (now_ms, None));
            }
            Ok(_) => {
                let why = "some rows are still missing; they are tried again";
                state.note(node, |peer| peer.trouble = Some(why.into()));
            }
            Err(error) => {
                let peer = node.short();
                tracing::debug!(%error, %peer, "anti-entropy with a node cannot continue");
                state.note(node, |peer| peer.trouble = Some(error.to_string()));
            }
        }
        match ended {
            Ok(ended) => ended,
            // The next pass begins with less to pull. Beside clients, a call may fail in each of
            // many passes.
            Err(_) if self.moves_on.load(Ordering::Relaxed) => Ended::Partly,
            Err(_) => Ended::Failed,
        }
    }

    /// Claims the partitions that no other pass works on.
    fn claim(&self, partitions: &[PartitionId]) -> Claim<'_> {
        let mut claimed = self.upkeep.anti_entropy.claimed.lock();
        let free = partitions.iter().copied().filter(|p| claimed.insert(*p));
        let partitions = free.collect();
        drop(claimed);
        Claim {
            upkeep: &self.upkeep,
            partitions,
        }
    }

    /// Calls the other node, and counts what that costs.
    pub async fn call<A: Versioned>(
        &self,
        method: &str,
        request: &impl Versioned,
    ) -> Result<A, Error> {
        let peers = self.upkeep.peers()?;
        let request = Bytes::from(codec::encode(request));
        let asked = request.len();
        let node = self.node();
        let answer = peers
            .call_bytes(&node, method, Class::Background, request)
            .await?;
        self.upkeep.anti_entropy.count(|total| {
            total.calls += 1;
            total.call_bytes += (asked + answer.len()) as u64;
        });
        codec::decode(&answer).map_err(|error| {
            Error::Unavailable(format!("{} answers {method} with {error}", node.short()))
        })
    }

    async fn compare(&self, partitions: &[PartitionId]) -> Result<Vec<PartitionId>, Error> {
        let mut all = Vec::with_capacity(partitions.len());
        for some in partitions.chunks(self.upkeep.options.sizes.compared_partitions) {
            let some = some.to_vec();
            let look = move |rows: &RowReader<'_>| {
                let mut digests = digests::Digests::new(rows);
                let digest = |p: &PartitionId| Ok((*p, digests.of(*p)?));
                some.iter().map(digest).collect::<Result<Vec<_>, _>>()
            };
            all.extend(self.upkeep.store().read(look).await?);
        }
        let call = CompareCall {
            scope: self.scope,
            digests: all,
        };
        let CompareReply(mut differ) = self.call(method::COMPARE, &call).await?;
        // Partitions that were not asked about are ignored.
        differ.retain(|p| partitions.contains(p));
        Ok(differ)
    }

    /// Pulls newer rows of `partitions` from the other node. Returns true if nothing is left to
    /// pull.
    async fn descend(&self, partitions: &[PartitionId]) -> Result<bool, Error> {
        let whole = partitions.iter().map(|partition| Span {
            partition: *partition,
            window: None,
        });
        let mut spans: Vec<Span> = whole.collect();
        // Three steps: months, days, hours.
        let mut rows = BTreeMap::new();
        for _ in 0..3 {
            rows = self.differing_parts(&spans).await?;
            spans = rows.keys().copied().collect();
        }
        let left: u64 = rows.values().sum();
        let state = &self.upkeep.anti_entropy;
        state.note(self.node(), |peer| peer.rows += left);
        let mut whole = true;
        for hours in spans.chunks(self.upkeep.options.sizes.windows) {
            whole &= self.pull_hours(hours).await?;
            let done: u64 = hours.iter().filter_map(|hour| rows.get(hour)).sum();
            state.note(self.node(), |peer| peer.rows -= done.min(peer.rows));
        }
        Ok(whole)
    }

    /// Returns the parts of these windows in which the other node has other rows, and how many rows
    /// it has.
    async fn differing_parts(&self, spans: &[Span]) -> Result<BTreeMap<Span, u64>, Error> {
        let mut differing = BTreeMap::new();
        for some in spans.chunks(self.upkeep.options.sizes.windows) {
            let call = WindowsCall {
                scope: self.scope,
                spans: some.to_vec(),
            };
            let WindowsReply(theirs) = self.call(method::WINDOWS, &call).await?;
            let asked = some.to_vec();
            let look = move |rows: &RowReader<'_>| digests::parts_of(rows, &asked);
            let ours = self.upkeep.store().read(look).await?;
            for part in theirs {
                let Some(span) = some
                    .get(usize::from(part.of))
                    .and_then(|s| digests::part_of(s, part.number))
                else {
                    continue;
                };
                if ours.get(&span) != Some(&part.digest) {
                    differing.insert(span, part.rows);
                }
            }
        }
        Ok(differing)
    }

    /// Pulls the newer rows of these hours, page by page. Returns true if nothing is left to pull.
    async fn pull_hours(&self, hours: &[Span]) -> Result<bool, Error> {
        let numbered = hours
            .iter()
            .filter_map(|h| Some((h.partition, h.window?.1)));
        let mut left: Vec<(PartitionId, u32)> = numbered.collect();
        let (mut after, mut whole) = (None, true);
        while !left.is_empty() {
            let call = StampsCall {
                scope: self.scope,
                hours: left.clone(),
                after,
            };
            let StampsReply { rows, more } = self.call(method::STAMPS, &call).await?;
            let end = rows.last().cloned();
            let candidates = rows.into_iter().filter_map(|(index, stamp, key)| {
                let (partition, _) = *left.get(usize::from(index))?;
                Some((RowKey { partition, key }, stamp))
            });
            let (newer, are_readable) = self.newer(candidates.collect()).await?;
            whole &= are_readable;
            whole &= self.pull(newer).await?;
            after = match end.filter(|_| more) {
                None => break,
                Some((index, stamp, key)) => {
                    left.drain(..usize::from(index).min(left.len()));
                    Some((stamp, key))
                }
            };
        }
        Ok(whole)
    }

    /// Returns the candidates that are older here or missing, and true if all rows here can be read. A
    /// damaged row is passed over, because it must not keep the other rows from this node.
    async fn newer(&self, candidates: Vec<Candidate>) -> Result<(Vec<Candidate>, bool), Error> {
        let takes_below = self.options.faults.rules.breaks(Mutant::TakeBelowFloor);
        let look = move |rows: &RowReader<'_>| {
            let (mut newer, mut are_readable) = (Vec::new(), true);
            for (key, stamp) in candidates {
                let floors = record::read(rows, key.partition)?;
                // The row was deleted, or is here already.
                let below = floors.is_some_and(|floors| stamp <= floors.agreed);
                if below && !takes_below {
                    continue;
                }
                match rows.metadata(&key) {
                    Ok(Some(held)) if held.stamp >= stamp => {}
                    Ok(_) => newer.push((key, stamp)),
                    Err(archipel_storage::Error::Damaged(_)) => are_readable = false,
                    Err(error) => return Err(error),
                }
            }
            Ok((newer, are_readable))
        };
        Ok(self.upkeep.store().read(look).await?)
    }
}

/// Puts the partitions with the fewest other reachable replicas first. A row with one copy left
/// must not wait for rows that have two.
pub(super) fn most_urgent_first(upkeep: &Upkeep, partitions: &mut [PartitionId]) {
    let (peers, me) = (upkeep.peers.as_ref(), upkeep.epochs.me());
    partitions.sort_by_cached_key(|partition| {
        upkeep.group(*partition).map_or(0, |group| {
            let others = group.members.iter().filter(|member| member.node != me);
            let here = others.filter(|member| !group.is_away(peers, &member.node.node));
            here.count()
        })
    });
}
