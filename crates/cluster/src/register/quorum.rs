//! Sets of replicas, and what a quorum of them is.

use std::fmt;

/// A set of replicas of one partition, by index.
///
/// Indices are the driver's: it numbers the replicas of all live layout versions together,
/// nearest first if it likes, and keeps the numbers for as long as an operation runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReplicaSet(u64);

impl ReplicaSet {
    /// The most replicas that the live layout versions of a partition have together.
    pub const MAX: usize = 64;

    /// No replica.
    pub const EMPTY: ReplicaSet = ReplicaSet(0);

    /// The replicas `0..n`.
    pub fn first(n: usize) -> ReplicaSet {
        (0..n).collect()
    }

    /// Adds a replica; one out of range is ignored.
    pub fn insert(&mut self, replica: usize) {
        if replica < Self::MAX {
            self.0 |= 1 << replica;
        }
    }

    /// Whether it is in.
    pub fn contains(self, replica: usize) -> bool {
        replica < Self::MAX && self.0 & 1 << replica != 0
    }

    /// How many.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in either.
    #[must_use]
    pub fn union(self, other: ReplicaSet) -> ReplicaSet {
        ReplicaSet(self.0 | other.0)
    }

    /// Those in both.
    #[must_use]
    pub fn intersection(self, other: ReplicaSet) -> ReplicaSet {
        ReplicaSet(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: ReplicaSet) -> ReplicaSet {
        ReplicaSet(self.0 & !other.0)
    }

    /// The replicas in ascending order.
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

/// The replicas of a partition in each live layout version. A quorum is a majority in every one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Quorums {
    versions: Vec<ReplicaSet>,
}

impl Quorums {
    /// One layout version with the replicas `0..n`.
    pub fn majority_of(n: usize) -> Quorums {
        Quorums::of_versions(vec![ReplicaSet::first(n)])
    }

    /// The live layout versions, oldest first. Without any (or with an empty one) nothing is a quorum.
    pub fn of_versions(versions: Vec<ReplicaSet>) -> Quorums {
        Quorums { versions }
    }

    /// The live layout versions, oldest first.
    pub fn versions(&self) -> &[ReplicaSet] {
        &self.versions
    }

    /// All replicas of all versions.
    pub fn all(&self) -> ReplicaSet {
        let all = self.versions.iter();
        all.fold(ReplicaSet::EMPTY, |all, v| all.union(*v))
    }

    /// Whether `set` holds a majority of every version.
    pub fn is_quorum(&self, set: ReplicaSet) -> bool {
        let majority = |v: &ReplicaSet| 2 * v.intersection(set).len() > v.len();
        !self.versions.is_empty() && self.versions.iter().all(majority)
    }

    /// Whether no quorum can be found without the replicas of `set`.
    pub fn is_blocked_by(&self, set: ReplicaSet) -> bool {
        !self.is_quorum(self.all().without(set))
    }

    /// Only the newest version: what a mutant takes for the whole.
    pub(crate) fn newest_only(&self) -> Quorums {
        Quorums {
            versions: self.versions.last().copied().into_iter().collect(),
        }
    }
}
