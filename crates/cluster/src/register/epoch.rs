//! Epochs: the live layout versions, their succession, and the fence against late requests.
//!
//! An epoch's [`Config`] is the list of live layout versions. A quorum is a majority in each. Epoch
//! e+1 is a value that is written once: a conditional write ("only if absent") to the row
//! *successor of e*, under the quorums of epoch e. So two operators cannot make two successors. A
//! change takes two epochs. The first adds a version. The second drops the oldest version, after
//! all rows have moved.
//!
//! Every request carries its epoch. A replica durably keeps the highest epoch that it knows, and
//! refuses lower ones. Any two quorums of one epoch share a replica. So a request of epoch e cannot
//! succeed any more once a quorum of e knows e+1, and a request of e+1 needs such a quorum.

use std::collections::BTreeSet;

use super::coordinator::Decision;
use super::quorum::{Quorums, ReplicaSet};
use super::rules::{Mutant, Rules};

/// A replica: a store in one incarnation.
///
/// `N` names a *store*: a node together with a random identity that was made when its disk was
/// empty. A node that lost its disk is another `N`, and no layout names it before an operator
/// assigns it. The incarnation counts how often a store was let in. A store that was in no live
/// version for a while comes back under a new incarnation, and empty, because its old rows may be
/// older than tombstones that are gone. No incarnation accepts anything that is meant for another
/// one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member<N> {
    /// The incarnation number. It is given once in the life of a cluster.
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
    /// The number of incarnations given so far.
    pub incarnations: u64,
    /// Members of older versions that are lost for good. Nothing waits for them: see [`reduced`].
    pub skipped: BTreeSet<Member<N>>,
}

impl<N: Clone + Ord> Config<N> {
    /// Returns the first epoch.
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

    /// Returns the proposal that adds a layout version with these stores. A dead store is left out
    /// of them. Older versions that name it still wait for it, until it is
    /// [skipped](Config::skipping).
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

    /// Returns the incarnation of a store in the live versions. A store whose own incarnation is
    /// lower wipes itself and becomes this one. A store without one answers no requests. Its node
    /// then purges it, unless it is quarantined (`upkeep::tombstone_gc::stale`). A skipped store
    /// has none: it can come back only under a new incarnation, and empty.
    pub fn incarnation_of(&self, node: &N) -> Option<u64> {
        let of_node = self.live.iter().flatten().filter(|m| m.node == *node);
        let counting = of_node.filter(|m| !self.skipped.contains(m));
        counting.map(|m| m.incarnation).max()
    }

    /// Returns the proposal to stop waiting for a store. Returns `None` if the newest version names
    /// the store, or no older one does.
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

    /// Returns the proposal to drop the oldest version, or `None` if there is only one. Use it only
    /// after a [`Retirement`] of this epoch is complete for every partition.
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

    /// Returns all replicas of all live versions that count, each once.
    pub fn members(&self) -> BTreeSet<Member<N>> {
        let all = self.live.iter().flatten();
        all.filter(|m| !self.skipped.contains(m)).cloned().collect()
    }

    /// Returns the quorums, with the index that the driver gave each replica.
    pub fn quorums(&self, rules: Rules, index: impl Fn(&Member<N>) -> usize) -> Quorums {
        let version = |replicas: &Vec<Member<N>>| self.counting(rules, replicas, &index);
        Quorums::of_versions(self.live.iter().flat_map(version).collect())
    }

    /// Returns the sets of the oldest version that count in a quorum. Its [`Retirement`] needs a
    /// majority of each.
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

/// Returns how many of the `left` replicas of a version that had `of` form its part of a quorum,
/// after the others were skipped.
///
/// Every value that a majority accepted must be seen by one of them. Of `of` replicas, `of -
/// majority + 1` are sure to meet each majority. A majority of the remaining replicas may be more,
/// and two quorums need it to meet. If too few remain for that, data may be lost, and all of them
/// are asked so that the loss is as small as possible.
pub fn quorum_of(of: usize, left: usize) -> usize {
    let majority = left / 2 + 1;
    let sure = of - of.min(of / 2 + 1) + 1;
    match left {
        0 => 0,
        _ if left == of || majority >= sure => majority,
        _ => left,
    }
}

/// Returns true if acknowledged data may be lost when only `left` of a version's `of` replicas
/// remain.
pub fn may_lose(of: usize, left: usize) -> bool {
    left + of / 2 < of
}

/// Returns the sets of a live version that had `of` replicas, of which `left` remain and the others
/// are skipped. A quorum holds a majority of each set. One set per replica means that all are
/// needed ([`quorum_of`]). If no replica remains, there is no set.
pub fn reduced(of: usize, left: ReplicaSet) -> Vec<ReplicaSet> {
    match quorum_of(of, left.len()) {
        _ if left.len() == of => vec![left],
        0 => Vec::new(),
        needed if needed == left.len() / 2 + 1 => vec![left],
        _ => left.iter().map(|one| [one].into_iter().collect()).collect(),
    }
}

/// Decides the conditional write that chooses an epoch's successor: the first proposal stays.
pub fn succeed<V>(current: Option<&V>, proposal: V) -> Decision<V> {
    match current {
        None => Decision::Write(Some(proposal)),
        Some(_) => Decision::Keep,
    }
}

/// A replica's reaction to the epoch of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// The epochs are equal. Go on.
    Pass,
    /// The request has an earlier epoch. Answer `Superseded`.
    Superseded,
    /// The request has a later epoch. Learn it durably and compare again. Do not answer before.
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

/// The work in one partition, under one epoch, before its oldest layout version may be dropped. A
/// majority of the oldest version lists its keys, and each key is read under the epoch's quorums.
/// The read writes the row back if a majority of a newer version lacks it.
///
/// An empty list counts: it shows that the replica fences off earlier epochs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Retirement<K> {
    /// A majority of each set must have listed its keys.
    oldest: Vec<ReplicaSet>,
    listed: ReplicaSet,
    open: BTreeSet<K>,
    done: BTreeSet<K>,
}

impl<K: Clone + Ord> Retirement<K> {
    /// Begins a retirement. `oldest` are the replicas of the oldest live version.
    pub fn new(oldest: ReplicaSet) -> Retirement<K> {
        Retirement::of(vec![oldest])
    }

    /// Begins a retirement. `oldest` are the sets of the oldest live version that count in a
    /// quorum: see [`reduced`].
    pub fn of(oldest: Vec<ReplicaSet>) -> Retirement<K> {
        Retirement {
            oldest,
            listed: ReplicaSet::EMPTY,
            open: BTreeSet::new(),
            done: BTreeSet::new(),
        }
    }

    /// Adds all keys that a replica holds. It listed them while it knew the epoch.
    pub fn on_listed(&mut self, from: usize, keys: impl IntoIterator<Item = K>) {
        self.listed.insert(from);
        let done = &self.done;
        self.open
            .extend(keys.into_iter().filter(|k| !done.contains(k)));
    }

    /// Returns at most `limit` keys that must be read under the epoch's quorums.
    pub fn open_keys(&self, limit: usize) -> Vec<K> {
        self.open.iter().take(limit).cloned().collect()
    }

    /// Returns a key that must be read under the epoch's quorums.
    pub fn next_key(&self) -> Option<K> {
        self.open.first().cloned()
    }

    /// Notes that a read of a key under the epoch's quorums succeeded.
    pub fn on_read(&mut self, key: K) {
        self.open.remove(&key);
        self.done.insert(key);
    }

    /// Returns true if enough replicas have listed their keys.
    pub fn is_listed(&self) -> bool {
        let majority = |set: &ReplicaSet| 2 * self.listed.intersection(*set).len() > set.len();
        self.oldest.iter().all(majority)
    }

    /// Returns true if the oldest version may be dropped.
    pub fn is_complete(&self, rules: Rules) -> bool {
        rules.breaks(Mutant::RetireEarly) || (self.is_listed() && self.open.is_empty())
    }
}
