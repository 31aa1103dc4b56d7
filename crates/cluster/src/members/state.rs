//! What one node knows of all: pure, with time and chance as arguments.
//!
//! Times are milliseconds of any steady clock of this node; only differences matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use archipel_base::random::Random;
use archipel_base::{Id, NodeId};
use archipel_net::Peer;

use super::evidence::{Evidence, Standing};
use super::facts::Facts;
use super::message::{Edition, Line, MAX_LINES, Short, Told};
use super::plan::{Plan, Target};

/// How often [`Membership::tick`] is to be called.
pub const TICK_MS: u64 = 333;
/// Without a sign of life for so long a node is suspected, if all fit into one list of lines...
const PATIENCE_MS: u64 = 4_000;
/// ... and if they do not, after accordingly longer, but not after more.
const LONGEST_PATIENCE_MS: u64 = 60_000;
/// After so long without a sign of life a node is forgotten that no layout names.
const FORGET_MS: u64 = 24 * 3600 * 1000;
/// How many others are known at most.
const MAX_OTHERS: usize = 2_000;
/// When ticks are further apart than this, this node stood still, and not the others.
const STALL_MS: i64 = 1_500;

/// Another node as it is known here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub edition: Edition,
    pub facts: Facts,
    pub leaving: bool,
    pub heartbeat: u64,
    pub evidence: Evidence,
    /// When its facts were last told to somebody, counted in messages.
    pub sent: u64,
    /// It is not asked before.
    pub next_ms: i64,
}

/// A node as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Who.
    pub id: NodeId,
    /// What it tells.
    pub facts: Facts,
    /// Which of its runs this is.
    pub generation: u64,
    /// Whether it seems to be away.
    pub suspected: bool,
    /// It said that it goes.
    pub leaving: bool,
    /// For how long it has been suspected, or not; for this node, for how long it runs.
    pub since_ms_ago: u64,
    /// How long ago it was heard of, in milliseconds; 0 for this node.
    pub heard_ms_ago: u64,
}

/// What one node knows of all.
pub struct Membership {
    pub(super) me: NodeId,
    pub(super) cluster: Option<Id>,
    pub(super) edition: Edition,
    pub(super) facts: Facts,
    pub(super) leaving: bool,
    pub(super) begun_ms: i64,
    pub(super) others: BTreeMap<NodeId, Known>,
    pub(super) pinned: BTreeSet<NodeId>,
    pub(super) plan: Plan,
    /// Messages with facts so far.
    pub(super) sendings: u64,
    /// Grows with all that changes but signs of life.
    pub(super) changes: u64,
    /// How many nodes one list of lines names at most.
    pub(super) max_lines: usize,
    ticked_ms: Option<i64>,
}

impl Membership {
    /// A node that knows nobody but itself. `generation` grows with each of its runs. Seeds are
    /// addresses of others, of which it is not known who answers there.
    pub fn new(
        me: NodeId,
        generation: u64,
        facts: Facts,
        seeds: Vec<String>,
        now_ms: u64,
    ) -> Membership {
        Membership {
            me,
            cluster: None,
            edition: Edition {
                generation,
                revision: 1,
            },
            facts,
            leaving: false,
            begun_ms: now_ms as i64,
            others: BTreeMap::new(),
            pinned: BTreeSet::new(),
            plan: Plan::new(seeds),
            sendings: 0,
            changes: 0,
            max_lines: MAX_LINES,
            ticked_ms: None,
        }
    }

    /// The cluster that this node is in: others are not listened to from then on.
    pub fn set_cluster(&mut self, cluster: Id) {
        self.cluster = Some(cluster);
    }

    /// The cluster that this node is in, by its layout or because others told so.
    pub fn cluster(&self) -> Option<Id> {
        self.cluster
    }

    /// Nodes that are never forgotten.
    pub fn pin(&mut self, nodes: BTreeSet<NodeId>) {
        self.pinned = nodes;
    }

    /// Changes what this node tells of itself.
    pub fn change(&mut self, change: impl FnOnce(&mut Facts)) {
        let before = self.facts.clone();
        change(&mut self.facts);
        self.edition.revision += u64::from(self.facts != before);
    }

    /// This node goes: from now on it tells so.
    pub fn leave(&mut self) {
        self.edition.revision += u64::from(!self.leaving);
        self.leaving = true;
    }

    /// Grows with all that changes but signs of life.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a node seems to be away. Who is not known is.
    pub fn is_suspected(&self, node: &NodeId) -> bool {
        let known = || self.others.get(node);
        *node != self.me
            && known().is_none_or(|known| known.evidence.standing() == Standing::Suspected)
    }

    /// How to reach a node.
    pub fn peer(&self, node: &NodeId) -> Option<Peer> {
        let known = self.others.get(node)?;
        let mut addresses = known.facts.addresses.clone();
        // Where it was found at first may be the only way from here.
        let found = self.plan.addresses_of(node);
        addresses.extend(found.filter(|address| !known.facts.addresses.contains(address)));
        Some(Peer {
            id: *node,
            addresses: Arc::from(addresses),
        })
    }

    /// All others that are known.
    pub fn others(&self) -> Vec<NodeId> {
        self.others.keys().copied().collect()
    }

    /// What came of asking a node.
    pub fn report(&mut self, node: &NodeId, answered: bool, now_ms: u64) {
        let patience = self.patience_ms();
        if let Some(known) = self.others.get_mut(node) {
            match answered {
                true => known.evidence.met(now_ms as i64),
                false => known.evidence.failed(patience, now_ms as i64),
            }
            self.judge(node, now_ms as i64);
        }
    }

    /// A third of a second has passed. Gives whom to ask now.
    pub fn tick(&mut self, now_ms: u64, random: &dyn Random) -> Vec<Target> {
        let now = now_ms as i64;
        self.notice_stall(now);
        self.forget(now);
        let others: Vec<NodeId> = self.others();
        others.iter().for_each(|node| self.judge(node, now));
        self.plan.choose(self.me, &mut self.others, now, random)
    }

    /// What became of asking whoever is at the address of a seed.
    pub fn greeted(&mut self, address: &str, who: Option<NodeId>, now_ms: u64) {
        self.plan.greeted(address, who, now_ms as i64);
    }

    fn notice_stall(&mut self, now: i64) {
        let last = self.ticked_ms.replace(now).unwrap_or(now);
        if now - last > STALL_MS {
            let known = self.others.values_mut();
            known.for_each(|known| known.evidence.slept(now - last));
        }
    }

    fn forget(&mut self, now: i64) {
        let (pinned, before) = (&self.pinned, self.others.len());
        self.others
            .retain(|node, known| pinned.contains(node) || known.evidence.age_ms(now) <= FORGET_MS);
        self.changes += u64::from(self.others.len() != before);
    }

    pub(super) fn judge(&mut self, node: &NodeId, now: i64) {
        let patience = self.patience_ms();
        if let Some(known) = self.others.get_mut(node) {
            let changed = known.evidence.judge(known.leaving, patience, now);
            self.changes += u64::from(changed);
        }
    }

    fn patience_ms(&self) -> u64 {
        let (others, one_list) = (self.others.len() as u64, self.max_lines as u64);
        let lists = others.max(one_list) * PATIENCE_MS / one_list;
        lists.min(LONGEST_PATIENCE_MS)
    }

    /// Whether there is room for a node that is not known and that last lived so long ago.
    pub(super) fn takes(&self, node: &NodeId, age_ms: u64) -> bool {
        let worth = self.pinned.contains(node) || age_ms < FORGET_MS;
        worth && self.others.len() < MAX_OTHERS
    }

    /// All nodes, this one too.
    pub fn members(&self, now_ms: u64) -> Vec<Member> {
        let now = now_ms as i64;
        let others = self.others.iter().map(|(id, known)| Member {
            id: *id,
            facts: known.facts.clone(),
            generation: known.edition.generation,
            suspected: known.evidence.standing() == Standing::Suspected,
            leaving: known.leaving,
            since_ms_ago: now
                .saturating_sub(known.evidence.since_ms())
                .max(0)
                .unsigned_abs(),
            heard_ms_ago: known.evidence.age_ms(now),
        });
        let mut all: Vec<Member> = others.chain([self.itself(now)]).collect();
        all.sort_by_key(|member| member.id);
        all
    }

    fn itself(&self, now: i64) -> Member {
        Member {
            id: self.me,
            facts: self.facts.clone(),
            generation: self.edition.generation,
            suspected: false,
            leaving: self.leaving,
            since_ms_ago: (now - self.begun_ms).max(0).unsigned_abs(),
            heard_ms_ago: 0,
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
            facts: self.facts.clone(),
            leaving: self.leaving,
        }
    }
}
