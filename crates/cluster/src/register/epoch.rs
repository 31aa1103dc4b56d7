//! Epochs: which layout versions are live, how that changes, and how late requests are fenced off.
//!
//! An epoch's [`Config`] is the list of live layout versions; a quorum is a majority in each.
//! Epoch e+1 is a value written once: a conditional write ("only if absent") to the row *successor of
//! e*, under the quorums of epoch e. So two operators cannot make two. A change takes two epochs: one
//! adds a version, and, after all rows have moved, one drops the oldest.
//!
//! Every request carries its epoch. A replica keeps the highest that it knows, durably, and refuses
//! lower ones: since any two quorums of one epoch have a replica in common, a request of epoch e can
//! not succeed any more once a quorum of e knows e+1, and one of e+1 needs such a quorum.

use std::collections::BTreeSet;

use super::coordinator::Decision;
use super::quorum::{Quorums, ReplicaSet};
use super::rules::{Mutant, Rules};

/// A replica: a store in one incarnation.
///
/// `N` names a *store*: a node together with a random identity that was made when its disk was empty. A node
/// that lost its disk is another `N`, and no layout names it before an operator puts it in. The
/// incarnation counts how often a store was let in: one that was in no live version for a
/// while comes back under a new one, and empty, since what it kept may be older than tombstones that
/// are gone. Nothing that is meant for one incarnation is taken by another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member<N> {
    /// Its number; given once in the life of a cluster.
    pub incarnation: u64,
    /// The store.
    pub node: N,
}

/// The live layout versions of a partition in one epoch, oldest first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Config<N> {
    /// The number of the epoch.
    pub epoch: u64,
    /// The replicas of each live version.
    pub live: Vec<Vec<Member<N>>>,
    /// How many incarnations were given so far.
    pub incarnations: u64,
    /// Members of older versions that are lost for good, and waited for no more: see [`reduced`].
    pub skipped: BTreeSet<Member<N>>,
}

impl<N: Clone + Ord> Config<N> {
    /// The first epoch.
    pub fn first(nodes: Vec<N>) -> Config<N> {
        let mut config = Config {
            epoch: 1,
            live: Vec::new(),
            incarnations: 0,
            skipped: BTreeSet::new(),
        };
        config.add_version(nodes);
        config
    }

    /// The proposal to add a layout version with these stores. A dead one is skipped by leaving it out.
    #[must_use]
    pub fn with_next(&self, nodes: Vec<N>) -> Config<N> {
        let mut next = self.clone();
        next.epoch += 1;
        next.add_version(nodes);
        next
    }

    fn add_version(&mut self, nodes: Vec<N>) {
        let mut version = Vec::with_capacity(nodes.len());
        for node in nodes {
            let incarnation = self.incarnation_of(&node).unwrap_or_else(|| {
                self.incarnations += 1;
                self.incarnations - 1
            });
            version.push(Member { incarnation, node });
        }
        self.live.push(version);
    }

    /// The incarnation of a store in the live versions. A store that finds its own lower empties
    /// itself and becomes this one; if it finds none, it keeps what it has and serves nobody. One that was skipped
    /// is in none: it can only come back as another, and empty.
    pub fn incarnation_of(&self, node: &N) -> Option<u64> {
        let of_node = self.live.iter().flatten().filter(|m| m.node == *node);
        let counting = of_node.filter(|m| !self.skipped.contains(m));
        counting.map(|m| m.incarnation).max()
    }

    /// The proposal to wait for a store no more; `None` if the newest version has it, or no older one does.
    pub fn skipping(&self, node: &N) -> Option<Config<N>> {
        let (newest, older) = self.live.split_last()?;
        let of_node = older.iter().flatten().filter(|m| m.node == *node);
        let lost: Vec<Member<N>> = of_node
            .filter(|m| !self.skipped.contains(m))
            .cloned()
            .collect();
        if lost.is_empty() || newest.iter().any(|m| m.node == *node) {
            return None;
        }
        let mut next = self.clone();
        next.epoch += 1;
        next.skipped.extend(lost);
        Some(next)
    }

    /// The proposal to drop the oldest version; `None` if there is but one. Only after
    /// a [`Retirement`] of this epoch is complete (for every partition).
    pub fn without_oldest(&self) -> Option<Config<N>> {
        if self.live.len() < 2 {
            return None;
        }
        let mut next = self.clone();
        next.epoch += 1;
        next.live.remove(0);
        let live: BTreeSet<&Member<N>> = next.live.iter().flatten().collect();
        next.skipped.retain(|member| live.contains(member));
        Some(next)
    }

    /// All replicas of all live versions that count, each once.
    pub fn members(&self) -> BTreeSet<Member<N>> {
        let all = self.live.iter().flatten();
        all.filter(|m| !self.skipped.contains(m)).cloned().collect()
    }

    /// The quorums, with the index that the driver gave each replica.
    pub fn quorums(&self, rules: Rules, index: impl Fn(&Member<N>) -> usize) -> Quorums {
        let version = |replicas: &Vec<Member<N>>| self.counting(rules, replicas, &index);
        Quorums::of_versions(self.live.iter().flat_map(version).collect())
    }

    /// The oldest version as it counts in a quorum: what its [`Retirement`] must hear.
    pub fn oldest(&self, rules: Rules, index: impl Fn(&Member<N>) -> usize) -> Vec<ReplicaSet> {
        let oldest = self.live.first();
        oldest.map_or_else(Vec::new, |replicas| self.counting(rules, replicas, &index))
    }

    fn counting(
        &self,
        rules: Rules,
        replicas: &[Member<N>],
        index: &impl Fn(&Member<N>) -> usize,
    ) -> Vec<ReplicaSet> {
        let counting = replicas.iter().filter(|m| !self.skipped.contains(m));
        let left: ReplicaSet = counting.map(index).collect();
        if rules.breaks(Mutant::SkippedAgree) && left.len() < replicas.len() {
            return left
                .iter()
                .take(1)
                .map(|one| [one].into_iter().collect())
                .collect();
        }
        reduced(replicas.len(), left)
    }
}

/// How many of the `left` replicas of a version that had `of` make its part of a quorum, after the others were skipped.
///
/// Whatever a majority accepted must be seen by one of them: of `of` replicas, `of - majority + 1` are sure to meet each majority.
/// A majority of those that are left may be more, and is needed for two quorums to meet. If too few are left for
/// that, something may be lost, and all of them are asked, so that it is as little as can be.
pub fn quorum_of(of: usize, left: usize) -> usize {
    let majority = left / 2 + 1;
    let sure = of - of.min(of / 2 + 1) + 1;
    match left {
        0 => 0,
        _ if left == of || majority >= sure => majority,
        _ => left,
    }
}

/// Whether something that was acknowledged may be lost if so many replicas of a version are left.
pub fn may_lose(of: usize, left: usize) -> bool {
    left + of / 2 < of
}

/// A live version that had `of` replicas, of which these are left and the others are skipped: sets of which a quorum holds a
/// majority each. A set for each replica says that all are needed ([`quorum_of`]); none are left, none is asked.
pub fn reduced(of: usize, left: ReplicaSet) -> Vec<ReplicaSet> {
    match quorum_of(of, left.len()) {
        _ if left.len() == of => vec![left],
        0 => Vec::new(),
        needed if needed == left.len() / 2 + 1 => vec![left],
        _ => left.iter().map(|one| [one].into_iter().collect()).collect(),
    }
}

/// The condition of the write that chooses an epoch's successor: the first proposal stays.
pub fn succeed<V>(current: Option<&V>, proposal: V) -> Decision<V> {
    match current {
        None => Decision::Write(Some(proposal)),
        Some(_) => Decision::Keep,
    }
}

/// What a replica does with a request of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// Same epoch: go on.
    Pass,
    /// The request is of an earlier epoch: answer `Superseded`.
    Superseded,
    /// The request is of a later epoch: learn it, durably, and look again. Do not answer before.
    Learn,
}

/// Compares a replica's epoch with that of a request.
pub fn fence(rules: Rules, known: u64, requested: u64) -> Fence {
    match known.cmp(&requested) {
        std::cmp::Ordering::Equal => Fence::Pass,
        std::cmp::Ordering::Greater if rules.breaks(Mutant::NoFence) => Fence::Pass,
        std::cmp::Ordering::Greater => Fence::Superseded,
        std::cmp::Ordering::Less => Fence::Learn,
    }
}

/// What must be done in one partition, under one epoch, before its oldest layout version may go:
/// a majority of the oldest version lists its keys, and each is read under the epoch's quorums
/// (which writes it back where a majority of a newer version lacks it).
///
/// An empty list counts: it shows that the replica fences off earlier epochs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retirement<K> {
    /// Of each a majority must have listed.
    oldest: Vec<ReplicaSet>,
    listed: ReplicaSet,
    open: BTreeSet<K>,
    done: BTreeSet<K>,
}

impl<K: Clone + Ord> Retirement<K> {
    /// Nothing is done. `oldest` are the replicas of the oldest live version.
    pub fn new(oldest: ReplicaSet) -> Retirement<K> {
        Retirement::of(vec![oldest])
    }

    /// Nothing is done. `oldest` is the oldest live version as it counts in a quorum: see [`reduced`].
    pub fn of(oldest: Vec<ReplicaSet>) -> Retirement<K> {
        Retirement {
            oldest,
            listed: ReplicaSet::EMPTY,
            open: BTreeSet::new(),
            done: BTreeSet::new(),
        }
    }

    /// A replica listed all keys that it holds, while it knew the epoch.
    pub fn on_listed(&mut self, from: usize, keys: impl IntoIterator<Item = K>) {
        self.listed.insert(from);
        let done = &self.done;
        self.open
            .extend(keys.into_iter().filter(|k| !done.contains(k)));
    }

    /// Keys that are to be read under the epoch's quorums, at most `limit`.
    pub fn open_keys(&self, limit: usize) -> Vec<K> {
        self.open.iter().take(limit).cloned().collect()
    }

    /// A key that is to be read under the epoch's quorums.
    pub fn next_key(&self) -> Option<K> {
        self.open.first().cloned()
    }

    /// The read of a key under the epoch's quorums gave a value.
    pub fn on_read(&mut self, key: K) {
        self.open.remove(&key);
        self.done.insert(key);
    }

    /// Whether enough replicas have listed what they hold.
    pub fn is_listed(&self) -> bool {
        let majority = |set: &ReplicaSet| 2 * self.listed.intersection(*set).len() > set.len();
        self.oldest.iter().all(majority)
    }

    /// Whether the oldest version may go.
    pub fn is_complete(&self, rules: Rules) -> bool {
        rules.breaks(Mutant::RetireEarly) || (self.is_listed() && self.open.is_empty())
    }
}
