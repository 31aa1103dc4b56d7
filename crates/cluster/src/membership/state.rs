//! One node's knowledge of all nodes: pure, with time and randomness as arguments.
//!
//! Times are milliseconds of any steady clock of this node. Only differences matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use archipel_base::random::Random;
use archipel_base::{Id, NodeId};
use archipel_net::Peer;

use super::failure_detector::{FailureDetector, Standing};
use super::heard::Heard;
use super::message::{Edition, Line, MAX_LINES, Short, Told};
use super::node_info::NodeInfo;
use super::plan::{Plan, Target, is_here};

/// The interval at which [`Membership::tick`] is to be called.
pub const TICK_MS: u64 = 333;
/// A node without a sign of life for this long is suspected, if all nodes fit one list of lines.
const PATIENCE_MS: u64 = 4_000;
/// The time that is added for a stranger, for each stranger, because strangers are asked in turn.
const PATIENCE_OF_TURN_MS: u64 = 500;
/// The limit of that time, which grows if the nodes do not fit one list.
const LONGEST_PATIENCE_MS: u64 = 60_000;
/// After this time a node that still tells an older epoch does not learn newer ones by itself.
const LAG_MS: i64 = 60_000;
/// If ticks are further apart than this, this node stood still, and not the others.
const STALL_MS: i64 = 1_500;

/// This node's knowledge of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub edition: Edition,
    pub info: NodeInfo,
    pub leaving: bool,
    pub heartbeat: u64,
    pub detector: FailureDetector,
    /// When its node info was last told to another node, counted in messages.
    pub sent: u64,
    /// The node is not asked before this time.
    pub next_ms: i64,
    /// The epoch that it tells, if that is older than the one that this node knows, and since when.
    pub behind: Option<(u64, i64)>,
}

impl Known {
    fn is_lagging(&self, now: i64) -> bool {
        self.behind
            .is_some_and(|(_, since)| now.saturating_sub(since) >= LAG_MS)
    }
}

/// A node as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Its description of itself.
    pub info: NodeInfo,
    /// The number of its current run.
    pub generation: u64,
    /// True if it is suspected.
    pub suspected: bool,
    /// True if it said that it leaves.
    pub leaving: bool,
    /// The time since it was suspected, or ceased to be; for this node, since it started.
    pub since_ms_ago: u64,
    /// The time since the last sign of life, in milliseconds; 0 for this node.
    pub heard_ms_ago: u64,
    /// True if it has told an older epoch than this node knows for a minute: it answers, and learns
    /// no newer layouts.
    pub lagging: bool,
    /// True if the layout has it, as far as this node knows.
    pub in_layout: bool,
}

/// One node's knowledge of all nodes.
pub struct Membership {
    pub(super) me: NodeId,
    /// The cluster of this node's layout.
    pub(super) cluster: Option<Id>,
    /// The cluster of which this node has heard, while it is in none.
    pub(super) heard: Option<Heard>,
    pub(super) edition: Edition,
    pub(super) info: NodeInfo,
    pub(super) leaving: bool,
    pub(super) begun_ms: i64,
    pub(super) others: BTreeMap<NodeId, Known>,
    /// The nodes of the layouts, and those that an operator admitted.
    pub(super) pinned: BTreeSet<NodeId>,
    pub(super) admitted: BTreeSet<NodeId>,
    /// The nodes that answered at addresses that the operator of this node named: in the settings
    /// or by a lookup, or by a command.
    pub(super) named: BTreeSet<NodeId>,
    pub(super) joined: BTreeSet<NodeId>,
    pub(super) plan: Plan,
    /// The number of messages with node info so far.
    pub(super) sendings: u64,
    /// Grows with every change but signs of life.
    pub(super) changes: u64,
    /// The most nodes that one list of lines names.
    pub(super) max_lines: usize,
    ticked_ms: Option<i64>,
}

impl Membership {
    /// Creates the membership of a node that knows only itself. `generation` grows with each of its
    /// runs. Seeds are addresses at which unknown nodes may answer.
    pub fn new(
        me: NodeId,
        generation: u64,
        info: NodeInfo,
        seeds: Vec<String>,
        now_ms: u64,
    ) -> Membership {
        Membership {
            me,
            cluster: None,
            heard: None,
            edition: Edition {
                generation,
                revision: 1,
            },
            info,
            leaving: false,
            begun_ms: now_ms as i64,
            others: BTreeMap::new(),
            pinned: BTreeSet::new(),
            admitted: BTreeSet::new(),
            named: BTreeSet::new(),
            joined: BTreeSet::new(),
            plan: Plan::new(seeds),
            sendings: 0,
            changes: 0,
            max_lines: MAX_LINES,
            ticked_ms: None,
        }
    }

    /// Changes this node's own node info.
    pub fn change(&mut self, change: impl FnOnce(&mut NodeInfo)) {
        let before = self.info.clone();
        change(&mut self.info);
        self.edition.revision += u64::from(self.info != before);
    }

    /// Notes that this node leaves. From now on it tells so.
    pub fn leave(&mut self) {
        self.edition.revision += u64::from(!self.leaving);
        self.leaving = true;
    }

    /// Returns a number that grows with every change but signs of life.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns true if a node is suspected or unknown.
    pub fn is_suspected(&self, node: &NodeId) -> bool {
        let known = || self.others.get(node);
        *node != self.me
            && known().is_none_or(|known| known.detector.standing() == Standing::Suspected)
    }

    /// Returns the store that another node says it has; `None` if it has not told.
    pub fn store_of(&self, node: &NodeId) -> Option<Id> {
        let told = self.others.get(node).map(|known| known.info.store);
        told.filter(|store| *store != Id::default())
    }

    /// Returns the highest feature level that another node speaks; 0 if it is not known.
    pub fn level(&self, node: &NodeId) -> u32 {
        self.others.get(node).map_or(0, |known| known.info.level)
    }

    /// Returns how to reach a node.
    pub fn peer(&self, node: &NodeId) -> Option<Peer> {
        let known = self.others.get(node)?;
        let mut addresses = known.info.addresses.clone();
        // The address at which it was first found may be the only way from here.
        let found = self.plan.addresses_of(node);
        addresses.extend(found.filter(|address| !known.info.addresses.contains(address)));
        Some(Peer {
            id: *node,
            addresses: Arc::from(addresses),
        })
    }

    /// Returns all other nodes that are known.
    pub fn others(&self) -> Vec<NodeId> {
        self.others.keys().copied().collect()
    }

    /// Notes whether a node answered a call.
    pub fn report(&mut self, node: &NodeId, answered: bool, now_ms: u64) {
        let patience = self.patience_ms(node);
        if let Some(known) = self.others.get_mut(node) {
            if answered {
                known.detector.met(now_ms as i64)
            } else {
                known.detector.failed(patience, now_ms as i64)
            }
            self.judge(node, now_ms as i64);
        }
    }

    /// Advances time by a third of a second. Returns the targets to ask now.
    pub fn tick(&mut self, now_ms: u64, random: &dyn Random) -> Vec<Target> {
        let now = now_ms as i64;
        self.notice_stall(now);
        self.forget(now);
        let others: Vec<NodeId> = self.others();
        others.iter().for_each(|node| self.judge(node, now));
        self.judge_heard();
        self.note_epochs(now);
        let forms = self.info.first_nodes > 0;
        let (others, members) = (&mut self.others, &self.pinned);
        self.plan
            .choose(self.me, others, members, forms, now, random)
    }

    /// Replaces the seeds that were looked up: a list of each source.
    pub fn looked_up(&mut self, sources: &[Vec<String>]) {
        self.plan.looked_up(sources);
    }

    /// Adds seeds that an earlier run of this node knew.
    pub fn remember(&mut self, addresses: &[String]) {
        self.plan.remember(addresses);
    }

    /// Returns the seeds of the settings and of the last lookup at which no reachable node was
    /// found. This node itself is reachable.
    pub fn not_found(&self) -> impl Iterator<Item = &String> {
        let lost = self.plan.not_found(self.me, &self.others);
        lost.filter(|address| !self.info.addresses.contains(address))
    }

    /// Notes which node, if any, answered at the address of a seed.
    pub fn greeted(&mut self, address: &str, who: Option<NodeId>, now_ms: u64) {
        self.plan.greeted(address, who, now_ms as i64);
    }

    fn notice_stall(&mut self, now: i64) {
        let last = self.ticked_ms.replace(now).unwrap_or(now);
        if now - last > STALL_MS {
            let known = self.others.values_mut();
            known.for_each(|known| known.detector.slept(now - last));
        }
    }

    /// Notes which reachable nodes tell an older epoch than this node knows. One that learns
    /// epochs, and is behind because there are many, does not lag; nor does one that was away.
    fn note_epochs(&mut self, now: i64) {
        for known in self.others.values_mut() {
            let epoch = known.info.epoch;
            let is_behind = is_here(known) && epoch < self.info.epoch;
            let before = known.behind.filter(|(told, _)| *told == epoch);
            known.behind = is_behind.then_some(before.unwrap_or((epoch, now)));
        }
    }

    /// Returns true if a node tells that it knows a layout.
    pub fn knows_layout(&self, node: &NodeId) -> bool {
        let known = self.others.get(node);
        known.is_some_and(|known| known.info.epoch > 0)
    }

    /// Returns true if a node has told an older epoch than this node knows for a minute.
    pub fn is_lagging(&self, node: &NodeId, now_ms: u64) -> bool {
        let known = self.others.get(node);
        known.is_some_and(|known| known.is_lagging(now_ms as i64))
    }

    pub(super) fn judge(&mut self, node: &NodeId, now: i64) {
        let patience = self.patience_ms(node);
        if let Some(known) = self.others.get_mut(node) {
            let changed = known.detector.judge(known.leaving, patience, now);
            self.changes += u64::from(changed);
        }
    }

    fn patience_ms(&self, node: &NodeId) -> u64 {
        let (others, one_list) = (self.others.len() as u64, self.max_lines as u64);
        let lists = others.max(one_list) * PATIENCE_MS / one_list;
        let turns = match self.cluster.is_some() && self.is_stranger(node) {
            true => (others + 1).saturating_sub(self.pinned.len() as u64) * PATIENCE_OF_TURN_MS,
            false => 0,
        };
        (lists + turns).min(LONGEST_PATIENCE_MS)
    }

    /// Returns all nodes, including this one.
    pub fn members(&self, now_ms: u64) -> Vec<Member> {
        let now = now_ms as i64;
        let others = self.others.iter().map(|(id, known)| Member {
            id: *id,
            info: known.info.clone(),
            generation: known.edition.generation,
            suspected: known.detector.standing() == Standing::Suspected,
            leaving: known.leaving,
            since_ms_ago: now
                .saturating_sub(known.detector.since_ms())
                .max(0)
                .unsigned_abs(),
            heard_ms_ago: known.detector.age_ms(now),
            lagging: known.is_lagging(now),
            in_layout: self.pinned.contains(id),
        });
        let mut all: Vec<Member> = others.chain([self.itself(now)]).collect();
        all.sort_by_key(|member| member.id);
        all
    }

    fn itself(&self, now: i64) -> Member {
        Member {
            id: self.me,
            info: self.info.clone(),
            generation: self.edition.generation,
            suspected: false,
            leaving: self.leaving,
            since_ms_ago: (now - self.begun_ms).max(0).unsigned_abs(),
            heard_ms_ago: 0,
            lagging: false,
            in_layout: self.pinned.contains(&self.me),
        }
    }

    pub(super) fn own_line(&self, now: i64) -> Line {
        Line {
            node: Short::of(&self.me),
            generation: self.edition.generation,
            revision: self.edition.revision,
            heartbeat: (now - self.begun_ms).max(0).unsigned_abs() / 100 + 1,
            age: 0,
        }
    }

    pub(super) fn own_told(&self, now: i64) -> Told {
        Told {
            node: self.me,
            line: self.own_line(now),
            info: self.info.clone(),
            leaving: self.leaving,
        }
    }
}
