//! Sets of replicas, and the quorums among them.

use std::fmt;

/// A set of replicas of one partition, by index.
///
/// The driver chooses the indices. It numbers the replicas of all live layout versions together,
/// nearest first if it likes, and keeps the numbers while an operation runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReplicaSet(u64);

impl ReplicaSet {
    /// The largest number of replicas that a partition has in all live layout versions together.
    pub const MAX: usize = 64;

    /// The empty set.
    pub const EMPTY: ReplicaSet = ReplicaSet(0);

    /// Returns the replicas `0..n`.
    pub fn first(n: usize) -> ReplicaSet {
        (0..n).collect()
    }

    /// Adds a replica. Ignores an index out of range.
    pub fn insert(&mut self, replica: usize) {
        if replica < Self::MAX {
            self.0 |= 1 << replica;
        }
    }

    /// Returns true if `replica` is in the set.
    pub fn contains(self, replica: usize) -> bool {
        replica < Self::MAX && self.0 & 1 << replica != 0
    }

    /// Returns the number of replicas.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the replicas that are in either set.
    #[must_use]
    pub fn union(self, other: ReplicaSet) -> ReplicaSet {
        ReplicaSet(self.0 | other.0)
    }

    /// Returns the replicas that are in both sets.
    #[must_use]
    pub fn intersection(self, other: ReplicaSet) -> ReplicaSet {
        ReplicaSet(self.0 & other.0)
    }

    /// Returns the replicas that are not in `other`.
    #[must_use]
    pub fn without(self, other: ReplicaSet) -> ReplicaSet {
        ReplicaSet(self.0 & !other.0)
    }

    /// Returns the replicas in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MAX).filter(move |&r| self.contains(r))
    }
}

impl FromIterator<usize> for ReplicaSet {
    fn from_iter<I: IntoIterator<Item = usize>>(replicas: I) -> ReplicaSet {
        let mut set = ReplicaSet::EMPTY;
        replicas.into_iter().for_each(|r| set.insert(r));
        set
    }
}

impl fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The replicas of a partition in each live layout version. A quorum is a majority in every
/// version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Quorums {
    versions: Vec<ReplicaSet>,
}

impl Quorums {
    /// Returns the quorums of one layout version with the replicas `0..n`.
    pub fn majority_of(n: usize) -> Quorums {
        Quorums::of_versions(vec![ReplicaSet::first(n)])
    }

    /// Returns the quorums of these live layout versions, oldest first. If there is none, or one is
    /// empty, no set is a quorum.
    pub fn of_versions(versions: Vec<ReplicaSet>) -> Quorums {
        Quorums { versions }
    }

    /// Returns the live layout versions, oldest first.
    pub fn versions(&self) -> &[ReplicaSet] {
        &self.versions
    }

    /// Returns all replicas of all versions.
    pub fn all(&self) -> ReplicaSet {
        let all = self.versions.iter();
        all.fold(ReplicaSet::EMPTY, |all, v| all.union(*v))
    }

    /// Returns true if `set` has a majority of every version.
    pub fn is_quorum(&self, set: ReplicaSet) -> bool {
        let majority = |v: &ReplicaSet| 2 * v.intersection(set).len() > v.len();
        !self.versions.is_empty() && self.versions.iter().all(majority)
    }

    /// Returns true if every quorum needs a replica of `set`.
    pub fn is_blocked_by(&self, set: ReplicaSet) -> bool {
        !self.is_quorum(self.all().without(set))
    }

    /// Returns the quorums of the newest version alone, for a mutant.
    pub(crate) fn newest_only(&self) -> Quorums {
        Quorums {
            versions: self.versions.last().copied().into_iter().collect(),
        }
    }
}
