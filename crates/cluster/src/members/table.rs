//! What one node knows of all: pure.

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::codec::Versioned;
use archipel_base::random::Random;
use archipel_base::{Id, NodeId};
use serde::{Deserialize, Serialize};

use super::Facts;

/// How many are told each time; one of them may be somebody who is suspected.
const FANOUT: usize = 3;
/// A heartbeat that has not moved for so long makes suspect; and so much longer for each doubling of the nodes.
const STALE_MS: u64 = 3_500;
const STALE_DOUBLING_MS: u64 = 400;
/// For so long a call that failed makes suspect, if none has succeeded since.
const FAILED_MS: u64 = 5_000;
/// After so long without a sign a node is forgotten that no layout names.
const FORGET_MS: u64 = 24 * 3600 * 1000;
/// Bounds of what others tell.
const MAX_MEMBERS: usize = 2000;
pub(super) const MAX_ADDRESSES: usize = 8;
pub(super) const MAX_TEXT: usize = 256;
/// How many members' facts go into one message.
const MAX_FACTS: usize = 500;

/// How new what is known of a node is: its run, and within it how often its facts changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub(super) struct Age {
    #[serde(rename = "g")]
    pub(super) generation: u64,
    #[serde(rename = "r")]
    pub(super) revision: u64,
}

/// A node in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(rename = "n")]
    pub(super) node: NodeId,
    #[serde(rename = "a")]
    pub(super) age: Age,
    #[serde(rename = "h")]
    pub(super) heartbeat: u64,
}

/// What nodes tell one another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gossip {
    /// The teller's cluster; none yet for one that joins.
    #[serde(rename = "c")]
    pub(super) cluster: Option<Id>,
    #[serde(rename = "l")]
    pub(super) lines: Vec<Line>,
    #[serde(rename = "f")]
    pub(super) facts: Vec<(NodeId, Age, Facts)>,
}

impl Versioned for Gossip {
    const VERSION: u8 = 1;
}

/// A node as it is known here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub(super) age: Age,
    pub(super) facts: Option<Facts>,
    heartbeat: u64,
    /// When the heartbeat moved.
    heard_ms: u64,
    failed_ms: Option<u64>,
}

/// A node as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Who.
    pub id: NodeId,
    /// What it tells.
    pub facts: Facts,
    /// Whether it seems to be away.
    pub suspected: bool,
    /// How long ago it was heard of, in milliseconds; 0 for this node.
    pub heard_ms_ago: u64,
}

/// What one node knows of all. Pure: time (milliseconds of any steady clock) and chance are arguments.
pub struct Table {
    me: NodeId,
    cluster: Option<Id>,
    pub(super) nodes: BTreeMap<NodeId, Known>,
    pinned: BTreeSet<NodeId>,
}

impl Table {
    /// A node that knows nobody but itself. `generation` grows with each of its runs.
    pub fn new(me: NodeId, generation: u64, facts: Facts) -> Table {
        let age = Age {
            generation,
            revision: 1,
        };
        let known = Known {
            age,
            facts: Some(facts),
            heartbeat: 0,
            heard_ms: 0,
            failed_ms: None,
        };
        Table {
            me,
            cluster: None,
            nodes: BTreeMap::from([(me, known)]),
            pinned: BTreeSet::new(),
        }
    }

    /// The cluster that this node is in: others are not listened to from then on.
    pub fn set_cluster(&mut self, cluster: Id) {
        self.cluster = Some(cluster);
    }

    /// Nodes that are never forgotten.
    pub fn pin(&mut self, nodes: BTreeSet<NodeId>) {
        self.pinned = nodes;
    }

    /// Changes what this node tells of itself.
    pub fn change(&mut self, change: impl FnOnce(&mut Facts)) {
        if let Some(known) = self.nodes.get_mut(&self.me)
            && let Some(facts) = &mut known.facts
        {
            let before = facts.clone();
            change(facts);
            known.age.revision += u64::from(*facts != before);
        }
    }

    fn stale_ms(&self) -> u64 {
        STALE_MS + STALE_DOUBLING_MS * u64::from(self.nodes.len().max(1).ilog2())
    }

    /// Whether a node seems to be away.
    pub fn is_suspected(&self, node: &NodeId, now_ms: u64) -> bool {
        if *node == self.me {
            return false;
        }
        let Some(known) = self.nodes.get(node) else {
            return true;
        };
        let stale = now_ms.saturating_sub(known.heard_ms) > self.stale_ms();
        let failed = known
            .failed_ms
            .is_some_and(|at| now_ms.saturating_sub(at) < FAILED_MS);
        stale || failed
    }

    /// What came of asking a node.
    pub fn report(&mut self, node: &NodeId, answered: bool, now_ms: u64) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.failed_ms = (!answered).then_some(now_ms);
            if answered {
                known.heard_ms = known.heard_ms.max(now_ms);
            }
        }
    }

    /// A second has passed: the heartbeat moves. Gives whom to tell.
    pub(super) fn tick(&mut self, now_ms: u64, random: &dyn Random) -> Vec<NodeId> {
        if let Some(me) = self.nodes.get_mut(&self.me) {
            me.heartbeat += 1;
            me.heard_ms = now_ms;
        }
        let (me, pinned) = (self.me, &self.pinned);
        self.nodes.retain(|node, known| {
            let old = now_ms.saturating_sub(known.heard_ms) > FORGET_MS;
            *node == me || pinned.contains(node) || !old
        });
        let others = self
            .nodes
            .iter()
            .filter(|(node, known)| **node != me && known.facts.is_some());
        let (mut away, mut here): (Vec<_>, Vec<_>) = others
            .map(|(node, _)| *node)
            .partition(|node| self.is_suspected(node, now_ms));
        let mut chosen = Vec::new();
        if let Some(node) = take(&mut away, random) {
            chosen.push(node);
        }
        while chosen.len() < FANOUT
            && let Some(node) = take(&mut here, random)
        {
            chosen.push(node);
        }
        chosen
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let line = |(node, known): (&NodeId, &Known)| Line {
            node: *node,
            age: known.age,
            heartbeat: known.heartbeat,
        };
        self.nodes.iter().map(line).collect()
    }

    /// What to tell somebody of whom nothing is known.
    pub(super) fn greeting(&self) -> Gossip {
        Gossip {
            cluster: self.cluster,
            lines: self.lines(),
            facts: self.facts_for(&[]),
        }
    }

    /// What to tell first: lines alone.
    pub(super) fn question(&self) -> Gossip {
        Gossip {
            cluster: self.cluster,
            lines: self.lines(),
            facts: Vec::new(),
        }
    }

    /// What to tell to somebody who told these lines.
    pub(super) fn answer(&self, theirs: &[Line]) -> Gossip {
        Gossip {
            facts: self.facts_for(theirs),
            ..self.question()
        }
    }

    /// The facts that somebody lacks who told these lines.
    fn facts_for(&self, theirs: &[Line]) -> Vec<(NodeId, Age, Facts)> {
        let ages: BTreeMap<NodeId, Age> = theirs.iter().map(|l| (l.node, l.age)).collect();
        let newer = self.nodes.iter().filter_map(|(node, known)| {
            let facts = known.facts.clone()?;
            let lacks = ages.get(node).is_none_or(|age| *age < known.age);
            lacks.then_some((*node, known.age, facts))
        });
        newer.take(MAX_FACTS).collect()
    }

    /// Takes in what another tells. Gives whether anything but heartbeats changed.
    ///
    /// # Errors
    /// If it is of another cluster.
    pub(super) fn hear(&mut self, gossip: &Gossip, now_ms: u64) -> Result<bool, String> {
        if let (Some(ours), Some(theirs)) = (self.cluster, gossip.cluster)
            && ours != theirs
        {
            return Err(format!(
                "another cluster ({theirs}); this node is in {ours}"
            ));
        }
        let mut changed = false;
        for (node, age, facts) in &gossip.facts {
            let room = self.nodes.len() < MAX_MEMBERS || self.nodes.contains_key(node);
            if *node == self.me || !facts.is_bounded() || !room {
                continue;
            }
            let known = self.nodes.entry(*node).or_insert(Known {
                age: Age::default(),
                facts: None,
                heartbeat: 0,
                heard_ms: now_ms,
                failed_ms: None,
            });
            if known.age < *age {
                if known.age.generation < age.generation {
                    (known.heartbeat, known.failed_ms) = (0, None);
                }
                (known.age, known.facts) = (*age, Some(facts.clone()));
                known.heard_ms = now_ms;
                changed = true;
            }
        }
        for line in &gossip.lines {
            if let Some(known) = self.nodes.get_mut(&line.node)
                && line.node != self.me
                && known.age.generation == line.age.generation
                && known.heartbeat < line.heartbeat
            {
                known.heartbeat = line.heartbeat;
                known.heard_ms = now_ms;
            }
        }
        Ok(changed)
    }

    /// All nodes of which more than the id is known.
    pub fn members(&self, now_ms: u64) -> Vec<Member> {
        let member = |(id, known): (&NodeId, &Known)| {
            Some(Member {
                id: *id,
                facts: known.facts.clone()?,
                suspected: self.is_suspected(id, now_ms),
                heard_ms_ago: now_ms.saturating_sub(known.heard_ms),
            })
        };
        self.nodes.iter().filter_map(member).collect()
    }
}

fn take(nodes: &mut Vec<NodeId>, random: &dyn Random) -> Option<NodeId> {
    if nodes.is_empty() {
        return None;
    }
    let place = random.next_u64() as usize % nodes.len();
    Some(nodes.swap_remove(place))
}
