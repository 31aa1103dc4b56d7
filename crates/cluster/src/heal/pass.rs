//! One pass with another node: compare, go down where the two differ, pull.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage::{RowKey, RowReader};
use bytes::Bytes;

use super::floors::before_hour;
use super::schedule::Ended;
use super::wire::{
    CompareCall, CompareReply, FloorCall, FloorReply, MAX_PARTITIONS, MAX_WINDOWS, Scope, Span,
    StampsCall, StampsReply, WindowsCall, WindowsReply, method,
};
use super::{HealOptions, prints, record};
use crate::error::Error;
use crate::inner::Inner;
use crate::layout::{Epoch, StoreName};
use crate::register::epoch::Member;
use crate::register::floor::{FloorAnswer, FloorRequest};
use crate::register::rules::Mutant;
use crate::register::windows::WindowId;
use crate::wire::Address;

/// How many partitions that differ are worked on together: their questions share messages.
const TOGETHER: usize = 32;
/// For how many partitions fingerprints are read in one go.
const READ_TOGETHER: usize = 128;

/// A pass with another replica, under one epoch.
pub(super) struct Pass {
    pub inner: Arc<Inner>,
    pub peer: Member<StoreName>,
    pub scope: Scope,
    pub options: HealOptions,
    /// This node's own incarnation.
    own: u64,
}

/// A row that the other may have newer: its name, and its stamp there.
pub(super) type Candidate = (RowKey, Stamp);

/// Partitions that no other pass works on meanwhile.
struct Claim<'a> {
    inner: &'a Inner,
    partitions: Vec<PartitionId>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = super::lock(&self.inner.heal.claimed);
        for partition in &self.partitions {
            claimed.remove(partition);
        }
    }
}

impl Pass {
    pub fn new(
        inner: Arc<Inner>,
        peer: Member<StoreName>,
        epoch: &Epoch,
        options: HealOptions,
    ) -> Pass {
        let scope = Scope {
            epoch: epoch.number(),
            incarnation: peer.incarnation,
        };
        let own = epoch.incarnation_of(&inner.epochs.me()).unwrap_or_default();
        Pass {
            inner,
            peer,
            scope,
            options,
            own,
        }
    }

    pub fn node(&self) -> NodeId {
        self.peer.node.node
    }

    /// How this node's own replica is addressed.
    pub fn own_address(&self, partition: PartitionId) -> Address {
        Address {
            epoch: self.scope.epoch,
            incarnation: self.own,
            partition,
        }
    }

    /// Compares, and pulls what the other has newer.
    pub async fn run(&self, shared: BTreeSet<PartitionId>) -> Result<Ended, Error> {
        self.inner.heal.note(self.node(), |peer| {
            (peer.partitions, peer.rows) = (0, 0);
        });
        let shared: Vec<PartitionId> = shared.into_iter().collect();
        let mut differ = Vec::new();
        for some in shared.chunks(MAX_PARTITIONS) {
            differ.extend(self.compare(some).await?);
        }
        most_urgent_first(&self.inner, &mut differ);
        let heal = &self.inner.heal;
        heal.note(self.node(), |peer| peer.partitions = differ.len() as u64);
        let mut whole = true;
        for some in differ.chunks(TOGETHER) {
            let claim = self.claim(some);
            whole &= claim.partitions.len() == some.len();
            whole &= self.go_down(&claim.partitions).await?;
            self.hear_floors(&claim.partitions).await?;
            let done = claim.partitions.len() as u64;
            heal.note(self.node(), |peer| {
                peer.partitions -= done.min(peer.partitions)
            });
        }
        Ok(if whole { Ended::Whole } else { Ended::Partly })
    }

    /// Learns which floor the other has agreed of one of these partitions, if its floor waits here. If a round broke off, or a layout changed, and a
    /// third replica is away since, no round ends; the other may have dropped its tombstones, and would never be the same as this one.
    ///
    /// One at a time: where many differ, the other is behind, and will not be soon.
    async fn hear_floors(&self, partitions: &[PartitionId]) -> Result<(), Error> {
        let waiting = self.inner.heal.floors.waiting_of(partitions);
        if waiting.is_empty() {
            return Ok(());
        }
        let chance = self.inner.options.random.next_u64() as usize;
        let partition = waiting[chance % waiting.len()];
        let ask = FloorCall {
            address: self.scope.of(partition),
            // It changes nothing: it lies before any other.
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
        let here = self.inner.store().read(look).await?;
        if here.map_or(Stamp::ZERO, |floors| floors.gone) >= agreed {
            return Ok(());
        }
        // As in a round. That tombstones are gone is so for who joined since, too.
        let compare = FloorRequest::Compare {
            floor: agreed,
            gone: agreed,
            gone_epoch: agreed_epoch,
        };
        for request in [FloorRequest::Close { floor: agreed }, compare] {
            let address = self.own_address(partition);
            let hear = FloorCall { address, request };
            self.inner.answer_floor(hear).await?;
        }
        Ok(())
    }

    /// Notes how the pass ended.
    pub fn note_end(&self, ended: Result<Ended, Error>) -> Ended {
        let heal = &self.inner.heal;
        heal.count(|total| total.passes += 1);
        let now_ms = self.inner.options.wall.now_millis();
        match ended {
            Ok(ended) => {
                heal.note(self.node(), |peer| match ended {
                    Ended::Whole => (peer.whole_ms, peer.trouble) = (now_ms, None),
                    _ => {
                        peer.trouble =
                            Some("some rows are not here yet; they are tried again".into())
                    }
                });
                ended
            }
            Err(error) => {
                tracing::debug!(%error, peer = %self.node().short(), "healing from a node does not go on");
                heal.note(self.node(), |peer| peer.trouble = Some(error.to_string()));
                Ended::Failed
            }
        }
    }

    /// Those of the partitions that no other pass works on.
    fn claim(&self, partitions: &[PartitionId]) -> Claim<'_> {
        let mut claimed = super::lock(&self.inner.heal.claimed);
        let free = partitions.iter().copied().filter(|p| claimed.insert(*p));
        let partitions = free.collect();
        drop(claimed);
        Claim {
            inner: &self.inner,
            partitions,
        }
    }

    /// Asks the other, and counts what that costs.
    pub async fn call<A: Versioned>(
        &self,
        method: &str,
        question: &impl Versioned,
    ) -> Result<A, Error> {
        let alone = || Error::Unavailable("this node is alone".into());
        let peers = self.inner.peers.as_ref().ok_or_else(alone)?;
        let request = Bytes::from(codec::encode(question));
        let asked = request.len();
        let node = self.node();
        let answer = peers
            .call_bytes(&node, method, Class::Background, request)
            .await?;
        self.inner.heal.count(|total| {
            total.calls += 1;
            total.call_bytes += (asked + answer.len()) as u64;
        });
        codec::decode(&answer).map_err(|error| {
            Error::Unavailable(format!("{} answers {method} with {error}", node.short()))
        })
    }

    async fn compare(&self, partitions: &[PartitionId]) -> Result<Vec<PartitionId>, Error> {
        let mut all = Vec::with_capacity(partitions.len());
        for some in partitions.chunks(READ_TOGETHER) {
            let some = some.to_vec();
            let look = move |rows: &RowReader<'_>| {
                let mut prints = prints::Prints::new(rows);
                let print = |p: &PartitionId| Ok((*p, prints.of(*p)?));
                some.iter().map(print).collect::<Result<Vec<_>, _>>()
            };
            all.extend(self.inner.store().read(look).await?);
        }
        let call = CompareCall {
            scope: self.scope,
            prints: all,
        };
        let CompareReply(differ) = self.call(method::COMPARE, &call).await?;
        // What was not asked is not taken.
        Ok(differ
            .into_iter()
            .filter(|p| partitions.contains(p))
            .collect())
    }

    /// Brings what is newer there of these partitions; tells whether all of it is here then.
    async fn go_down(&self, partitions: &[PartitionId]) -> Result<bool, Error> {
        let whole = partitions.iter().map(|partition| Span {
            partition: *partition,
            window: None,
        });
        let mut spans: Vec<Span> = whole.collect();
        // Months, days, hours.
        let mut rows = BTreeMap::new();
        for _ in 0..3 {
            rows = self.differing_parts(&spans).await?;
            spans = rows.keys().copied().collect();
        }
        let left: u64 = rows.values().sum();
        self.inner.heal.note(self.node(), |peer| peer.rows += left);
        let mut whole = true;
        for hours in spans.chunks(MAX_WINDOWS) {
            whole &= self.pull_hours(hours).await?;
            let done: u64 = hours.iter().filter_map(|hour| rows.get(hour)).sum();
            self.inner
                .heal
                .note(self.node(), |peer| peer.rows -= done.min(peer.rows));
        }
        Ok(whole)
    }

    /// The parts of these windows in which the other has other rows, and how many it has.
    async fn differing_parts(&self, spans: &[Span]) -> Result<BTreeMap<Span, u64>, Error> {
        let mut differing = BTreeMap::new();
        for some in spans.chunks(MAX_WINDOWS) {
            let call = WindowsCall {
                scope: self.scope,
                spans: some.to_vec(),
            };
            let WindowsReply(theirs) = self.call(method::WINDOWS, &call).await?;
            let asked = some.to_vec();
            let look = move |rows: &RowReader<'_>| own_parts(rows, &asked);
            let ours = self.inner.store().read(look).await?;
            for part in theirs {
                let Some(span) = some
                    .get(usize::from(part.of))
                    .and_then(|s| part_of(s, part.number))
                else {
                    continue;
                };
                if ours.get(&span) != Some(&part.print) {
                    differing.insert(span, part.rows);
                }
            }
        }
        Ok(differing)
    }

    /// Brings what is newer there of these hours, page by page.
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
            let candidates = rows.into_iter().filter_map(|(place, stamp, key)| {
                let (partition, _) = *left.get(usize::from(place))?;
                Some((RowKey { partition, key }, stamp))
            });
            let newer = self.newer(candidates.collect()).await?;
            whole &= self.pull(newer).await?;
            after = match end.filter(|_| more) {
                None => break,
                Some((place, stamp, key)) => {
                    left.drain(..usize::from(place).min(left.len()));
                    Some((stamp, key))
                }
            };
        }
        Ok(whole)
    }

    /// Those of the rows that are older here, or not here.
    async fn newer(&self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Error> {
        let takes_below = self.options.rules.breaks(Mutant::TakeBelowFloor);
        let look = move |rows: &RowReader<'_>| {
            let mut newer = Vec::new();
            for (key, stamp) in candidates {
                let floors = record::read(rows, key.partition)?;
                // It was deleted, or is here already.
                let below = floors.is_some_and(|floors| stamp <= floors.agreed);
                let held = rows.head(&key)?;
                if below && !takes_below {
                    continue;
                }
                if held.is_none_or(|held| held.stamp < stamp) {
                    newer.push((key, stamp));
                }
            }
            Ok(newer)
        };
        Ok(self.inner.store().read(look).await?)
    }
}

/// Puts those first of which the fewest other replicas are there: what has one copy left must not wait behind what has two.
pub(super) fn most_urgent_first(inner: &Inner, partitions: &mut [PartitionId]) {
    let (peers, me) = (inner.peers.as_ref(), inner.epochs.me());
    partitions.sort_by_cached_key(|partition| {
        inner.group(*partition).map_or(0, |group| {
            let others = group.members.iter().filter(|member| member.node != me);
            let here = others.filter(|member| !group.is_away(peers, &member.node.node));
            here.count()
        })
    });
}

fn own_parts(
    rows: &RowReader<'_>,
    spans: &[Span],
) -> Result<BTreeMap<Span, u64>, archipel_storage::Error> {
    let mut ours = BTreeMap::new();
    for span in spans {
        let Some(window) = span.id() else { continue };
        for (number, window) in prints::parts(rows, span.partition, window)? {
            if let Some(part) = part_of(span, number) {
                ours.insert(part, prints::shortened(&window));
            }
        }
    }
    Ok(ours)
}

/// The part of a window with this number.
fn part_of(span: &Span, number: u32) -> Option<Span> {
    let granularity = prints::length_of_parts(span.id()?)?;
    let id = WindowId {
        granularity,
        number,
    };
    Some(Span {
        partition: span.partition,
        window: Some((id.granularity as u8, id.number)),
    })
}
