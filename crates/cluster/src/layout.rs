//! Layouts: the nodes that hold each partition, and the epochs in which layout versions are live.
//!
//! A [`Layout`] names the nodes that hold each partition. An [`Epoch`] is the list of live layout
//! versions: one, or two while data moves from the older to the newer, and more if a change that is
//! stuck was followed by another.
//! [`register::epoch`](crate::register::epoch) defines the succession of epochs. This module
//! applies it to layouts.

use std::collections::BTreeSet;
use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, NodeId, PartitionId};
use serde::{Deserialize, Serialize};

use crate::register::ReplicaSet;
use crate::register::epoch::{Config, Member, reduced};

mod admission;
mod level;

pub use admission::MAX_ADMITTED;
pub use level::{LEVEL, next_level};

/// The number of partitions of a cluster. It never changes.
pub const PARTITIONS: u16 = 1024;

/// Returns all partitions, the control partition last.
pub fn all_partitions() -> impl Iterator<Item = PartitionId> {
    let data = (0..PARTITIONS).map(PartitionId);
    data.chain([PartitionId::CONTROL])
}
/// The largest number of nodes in a layout.
pub const MAX_NODES: usize = 1000;
/// The largest number of replicas of a partition.
pub const MAX_REPLICAS: usize = 15;
/// The largest number of live layout versions.
pub(crate) const MAX_LIVE: usize = 8;

/// A store: a node, and the random name that its disks got when they were empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct StoreName {
    /// The node.
    #[serde(rename = "n")]
    pub node: NodeId,
    /// Its store.
    #[serde(rename = "s")]
    pub store: Id,
}

/// A node's part in a layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Role {
    /// The store.
    #[serde(rename = "n")]
    pub store: StoreName,
    /// Its zone. Replicas are in different zones.
    #[serde(rename = "z")]
    pub zone: String,
    /// Its capacity in bytes; 0 for a gateway.
    #[serde(rename = "c")]
    pub capacity_bytes: u64,
}

/// The number of replicas, and the number of zones that they span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redundancy {
    /// The number of copies of each partition, on as many nodes.
    #[serde(rename = "r")]
    pub replicas: u8,
    /// The smallest number of zones. `None`: as many as there are, up to one for each copy.
    #[serde(rename = "z")]
    pub zones: Option<u8>,
}

/// Returns true for the name of a zone: it stands in tables, in settings and on command lines.
pub fn is_zone_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}

/// One layout version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Its number; the first is 1.
    #[serde(rename = "v")]
    pub version: u64,
    /// The redundancy that the layout provides.
    #[serde(rename = "r")]
    pub redundancy: Redundancy,
    /// All nodes, including gateways.
    #[serde(rename = "n")]
    pub roles: Vec<Role>,
    /// For each partition the indices in `roles` of its replicas, one after another.
    #[serde(rename = "a")]
    pub assignment: Vec<u16>,
    /// The indices in `roles` of the control group.
    #[serde(rename = "c")]
    pub control: Vec<u16>,
}

impl Layout {
    /// Returns a layout of one node with one copy of everything.
    pub fn single(store: StoreName, zone: &str, capacity_bytes: u64) -> Layout {
        Layout {
            version: 1,
            redundancy: Redundancy {
                replicas: 1,
                zones: None,
            },
            roles: vec![Role {
                store,
                zone: zone.to_owned(),
                capacity_bytes,
            }],
            assignment: vec![0; PARTITIONS.into()],
            control: vec![0],
        }
    }

    /// Returns the indices in `roles` of a partition's replicas.
    pub fn replicas_of(&self, partition: PartitionId) -> &[u16] {
        if partition == PartitionId::CONTROL {
            return &self.control;
        }
        let each = usize::from(self.redundancy.replicas);
        let from = usize::from(partition.0) * each;
        self.assignment.get(from..from + each).unwrap_or_default()
    }

    /// Returns the role of a node.
    pub fn role_of(&self, node: &NodeId) -> Option<&Role> {
        self.roles.iter().find(|role| role.store.node == *node)
    }

    /// Returns the roles of the nodes that hold data.
    pub fn storage_roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.iter().filter(|role| role.capacity_bytes > 0)
    }

    /// Returns true if every index is within `roles`. Data from a peer is not trusted.
    fn is_sound(&self) -> bool {
        let each = usize::from(self.redundancy.replicas);
        let whole = self.assignment.len() == each * usize::from(PARTITIONS);
        let places = self.assignment.iter().chain(&self.control);
        let known = places
            .copied()
            .all(|place| usize::from(place) < self.roles.len());
        let sizes = (1..=MAX_REPLICAS).contains(&each) && self.roles.len() <= MAX_NODES;
        whole && known && sizes && !self.control.is_empty()
    }
}

/// The live layout versions, and their number in the sequence of such lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// The cluster's id. Two clusters never become one.
    pub cluster: Id,
    /// The epoch's number, and the stores of each live version in their incarnations.
    pub config: Config<StoreName>,
    /// The live versions, oldest first, as in `config`.
    pub layouts: Vec<Arc<Layout>>,
    /// The cluster's feature level: see [`LEVEL`].
    pub level: u32,
    /// The nodes that an operator admitted although no live version has them.
    pub admitted: BTreeSet<NodeId>,
}

/// An epoch as it is stored and sent.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "c")]
    cluster: Id,
    #[serde(rename = "e")]
    epoch: u64,
    #[serde(rename = "i")]
    incarnations: u64,
    #[serde(rename = "m")]
    members: Vec<Vec<(u64, StoreName)>>,
    #[serde(rename = "l")]
    layouts: Vec<Layout>,
    #[serde(rename = "s", default)]
    skipped: Vec<(u64, StoreName)>,
    #[serde(rename = "f")]
    level: u32,
    #[serde(rename = "a", default, skip_serializing_if = "BTreeSet::is_empty")]
    admitted: BTreeSet<NodeId>,
}

impl Versioned for Stored {
    const VERSION: u8 = 1;
}

impl Epoch {
    /// Returns the first epoch of a cluster.
    pub fn first(cluster: Id, layout: Layout) -> Epoch {
        let stores = layout.roles.iter().map(|role| role.store).collect();
        Epoch {
            cluster,
            config: Config::first(stores),
            layouts: vec![Arc::new(layout)],
            level: 1,
            admitted: BTreeSet::new(),
        }
    }

    /// Returns the epoch's number.
    pub fn number(&self) -> u64 {
        self.config.epoch
    }

    /// Returns the newest live version.
    pub fn newest(&self) -> &Layout {
        // `first` adds one, no step removes the last, and `decode` checks.
        self.layouts.last().expect("a live layout")
    }

    /// Returns the proposal to add a layout version.
    #[must_use]
    pub fn with_next(&self, layout: Layout) -> Epoch {
        let stores: Vec<StoreName> = layout.roles.iter().map(|role| role.store).collect();
        let mut next = self.clone();
        // The layout admits them from now on, and no longer than it has them.
        next.admitted
            .retain(|node| stores.iter().all(|store| store.node != *node));
        next.config = self.config.with_next(stores);
        next.layouts.push(Arc::new(layout));
        next
    }

    /// Returns the proposal to raise the feature level.
    #[must_use]
    pub fn with_level(&self, level: u32) -> Epoch {
        let mut next = self.clone();
        next.config.epoch += 1;
        next.level = level;
        next
    }

    /// Returns the proposal to stop waiting for a store that is lost for good and that only older
    /// versions have; see [`Config::skipping`].
    pub fn skipping(&self, store: &StoreName) -> Option<Epoch> {
        Some(Epoch {
            config: self.config.skipping(store)?,
            ..self.clone()
        })
    }

    /// Returns the proposal to drop the oldest version, if there are several.
    pub fn without_oldest(&self) -> Option<Epoch> {
        Some(Epoch {
            config: self.config.without_oldest()?,
            layouts: self.layouts.get(1..)?.to_vec(),
            ..self.clone()
        })
    }

    /// Returns true while a change is under way. It must end before another layout is added, unless
    /// it is stuck.
    pub fn is_changing(&self) -> bool {
        self.layouts.len() > 1
    }

    /// Returns the replicas of a partition in each live version, oldest first, without skipped
    /// ones.
    pub fn replicas(&self, partition: PartitionId) -> Vec<Vec<Member<StoreName>>> {
        let mut versions = self.named(partition);
        for replicas in &mut versions {
            replicas.retain(|member| !self.config.skipped.contains(member));
        }
        versions
    }

    /// Returns the replicas of a partition in each live version, oldest first, with skipped ones.
    pub fn named(&self, partition: PartitionId) -> Vec<Vec<Member<StoreName>>> {
        let versions = self.layouts.iter().zip(&self.config.live);
        versions
            .map(|(layout, members)| {
                let places = layout.replicas_of(partition).iter();
                let named = places.filter_map(|place| members.get(usize::from(*place)));
                named.copied().collect()
            })
            .collect()
    }

    /// Returns, for each live version of a partition, oldest first, the sets of which a quorum
    /// holds a majority each. `index` is the driver's index of a replica.
    pub fn quorums(
        &self,
        partition: PartitionId,
        index: impl Fn(&Member<StoreName>) -> Option<usize>,
    ) -> Vec<Vec<ReplicaSet>> {
        let versions = self.layouts.iter().zip(self.replicas(partition));
        versions
            .map(|(layout, counting)| {
                let of = layout.replicas_of(partition).len();
                reduced(of, counting.iter().filter_map(&index).collect())
            })
            .collect()
    }

    /// Returns true if nothing waits for this store any more. It may have been skipped in one
    /// incarnation and count in a later one.
    pub fn is_skipped(&self, store: &StoreName) -> bool {
        let mut skipped = self.config.skipped.iter();
        skipped.any(|member| member.node == *store) && self.incarnation_of(store).is_none()
    }

    /// Returns the incarnation of a store in the live versions.
    pub fn incarnation_of(&self, store: &StoreName) -> Option<u64> {
        self.config.incarnation_of(store)
    }

    /// Encodes the epoch.
    pub fn encode(&self) -> Vec<u8> {
        let members = self.config.live.iter();
        codec::encode(&Stored {
            cluster: self.cluster,
            epoch: self.config.epoch,
            incarnations: self.config.incarnations,
            members: members
                .map(|version| version.iter().map(|m| (m.incarnation, m.node)).collect())
                .collect(),
            layouts: self.layouts.iter().map(|l| (**l).clone()).collect(),
            skipped: self
                .config
                .skipped
                .iter()
                .map(|m| (m.incarnation, m.node))
                .collect(),
            level: self.level,
            admitted: self.admitted.clone(),
        })
    }

    /// Decodes the result of [`encode`](Epoch::encode).
    ///
    /// # Errors
    /// If the bytes are no epoch, or if an index is out of range.
    pub fn decode(bytes: &[u8]) -> Result<Epoch, codec::DecodeError> {
        let stored: Stored = codec::decode(bytes)?;
        let malformed = |why: &str| codec::DecodeError::Malformed(why.into());
        if !(1..=MAX_LIVE).contains(&stored.layouts.len())
            || stored.layouts.len() != stored.members.len()
        {
            return Err(malformed("an epoch's number of layouts"));
        }
        if stored.admitted.len() > MAX_ADMITTED {
            return Err(malformed("an epoch's admitted nodes"));
        }
        if stored.level == 0 {
            return Err(malformed("an epoch's level"));
        }
        let versions = stored.layouts.iter().zip(&stored.members);
        for (layout, members) in versions {
            let same = layout.roles.len() == members.len()
                && layout
                    .roles
                    .iter()
                    .zip(members)
                    .all(|(role, (_, store))| role.store == *store);
            if !same || !layout.is_sound() {
                return Err(malformed("an inconsistent layout"));
            }
        }
        let member = |(incarnation, node): &(u64, StoreName)| Member {
            incarnation: *incarnation,
            node: *node,
        };
        Ok(Epoch {
            cluster: stored.cluster,
            config: Config {
                epoch: stored.epoch,
                live: stored
                    .members
                    .iter()
                    .map(|version| version.iter().map(member).collect())
                    .collect(),
                incarnations: stored.incarnations,
                skipped: stored.skipped.iter().map(member).collect(),
            },
            layouts: stored.layouts.into_iter().map(Arc::new).collect(),
            level: stored.level,
            admitted: stored.admitted,
        })
    }
}

#[cfg(test)]
mod tests;
