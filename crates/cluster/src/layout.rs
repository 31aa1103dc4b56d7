//! Who holds what: layout versions, and the epochs in which they live.
//!
//! A [`Layout`] says which nodes hold which partition. An [`Epoch`] is the list of layout versions that are live at
//! once: one, or two while data moves from the older to the newer. How epochs follow one another
//! is the matter of [`register::epoch`](crate::register::epoch); this is what it is applied to.

use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, NodeId, PartitionId};
use serde::{Deserialize, Serialize};

use crate::register::ReplicaSet;
use crate::register::epoch::{Config, Member, reduced};

/// How many partitions a cluster has. Fixed when it is made.
pub const PARTITIONS: u16 = 1024;

/// All partitions, the control partition last.
pub fn all_partitions() -> impl Iterator<Item = PartitionId> {
    let data = (0..PARTITIONS).map(PartitionId);
    data.chain([PartitionId::CONTROL])
}
/// The most nodes in a layout.
pub const MAX_NODES: usize = 1000;
/// The most replicas of a partition.
pub const MAX_REPLICAS: usize = 15;
/// The most layout versions that live at once.
const MAX_LIVE: usize = 8;

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
    /// Who.
    #[serde(rename = "n")]
    pub store: StoreName,
    /// Its site: replicas go to different ones.
    #[serde(rename = "z")]
    pub zone: String,
    /// How much it may hold, in bytes; 0 for a gateway.
    #[serde(rename = "c")]
    pub capacity_bytes: u64,
}

/// How many copies there are, and over how many zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redundancy {
    /// Copies of each partition, on as many nodes.
    #[serde(rename = "r")]
    pub replicas: u8,
    /// In at least so many zones; `None`: as many as there are, up to one for each copy.
    #[serde(rename = "z")]
    pub zones: Option<u8>,
}

/// One layout version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Its number; the first is 1.
    #[serde(rename = "v")]
    pub version: u64,
    /// What was asked for.
    #[serde(rename = "r")]
    pub redundancy: Redundancy,
    /// All nodes, gateways too.
    #[serde(rename = "n")]
    pub roles: Vec<Role>,
    /// For each partition the places in `roles` of its replicas, one after another.
    #[serde(rename = "a")]
    pub assignment: Vec<u16>,
    /// The places in `roles` of the control group.
    #[serde(rename = "c")]
    pub control: Vec<u16>,
}

impl Layout {
    /// A layout of one node with one copy of everything.
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

    /// The places in `roles` of a partition's replicas.
    pub fn replicas_of(&self, partition: PartitionId) -> &[u16] {
        if partition == PartitionId::CONTROL {
            return &self.control;
        }
        let each = usize::from(self.redundancy.replicas);
        let from = usize::from(partition.0) * each;
        self.assignment.get(from..from + each).unwrap_or_default()
    }

    /// The role of a node.
    pub fn role_of(&self, node: &NodeId) -> Option<&Role> {
        self.roles.iter().find(|role| role.store.node == *node)
    }

    /// The roles of the nodes that hold data.
    pub fn storage_roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.iter().filter(|role| role.capacity_bytes > 0)
    }

    /// Whether every place that is named exists: what comes from a peer is not trusted.
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

/// The layout versions that are live, and their number in the order of such lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Names the cluster: two never become one.
    pub cluster: Id,
    /// The number, and the stores of each live version in their incarnations.
    pub config: Config<StoreName>,
    /// The live versions, oldest first, as in `config`.
    pub layouts: Vec<Arc<Layout>>,
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
}

impl Versioned for Stored {
    const VERSION: u8 = 1;
}

impl Epoch {
    /// The first epoch of a cluster.
    pub fn first(cluster: Id, layout: Layout) -> Epoch {
        let stores = layout.roles.iter().map(|role| role.store).collect();
        Epoch {
            cluster,
            config: Config::first(stores),
            layouts: vec![Arc::new(layout)],
        }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.config.epoch
    }

    /// The newest live version.
    pub fn newest(&self) -> &Layout {
        // Made with one, never left without (`decode` checks).
        self.layouts.last().expect("a live layout")
    }

    /// The proposal to add a layout version.
    #[must_use]
    pub fn with_next(&self, layout: Layout) -> Epoch {
        let stores = layout.roles.iter().map(|role| role.store).collect();
        let mut layouts = self.layouts.clone();
        layouts.push(Arc::new(layout));
        Epoch {
            cluster: self.cluster,
            config: self.config.with_next(stores),
            layouts,
        }
    }

    /// The proposal to wait no more for a store that is lost for good and that only older versions have; see
    /// [`Config::skipping`].
    pub fn skipping(&self, store: &StoreName) -> Option<Epoch> {
        Some(Epoch {
            config: self.config.skipping(store)?,
            ..self.clone()
        })
    }

    /// The proposal to drop the oldest version, if there are several.
    pub fn without_oldest(&self) -> Option<Epoch> {
        let config = self.config.without_oldest()?;
        Some(Epoch {
            cluster: self.cluster,
            config,
            layouts: self.layouts.get(1..)?.to_vec(),
        })
    }

    /// Whether a layout may be added: a change that is under way must end first, unless it is stuck.
    pub fn is_changing(&self) -> bool {
        self.layouts.len() > 1
    }

    /// The replicas of a partition in each live version, oldest first, without those that were skipped.
    pub fn replicas(&self, partition: PartitionId) -> Vec<Vec<Member<StoreName>>> {
        let versions = self.layouts.iter().zip(&self.config.live);
        versions
            .map(|(layout, members)| {
                let places = layout.replicas_of(partition).iter();
                let named = places.filter_map(|place| members.get(usize::from(*place)));
                let counting = named.filter(|member| !self.config.skipped.contains(member));
                counting.copied().collect()
            })
            .collect()
    }

    /// For each live version, oldest first, the sets of which a quorum of a partition holds a majority each, with the
    /// index that the driver gave each replica.
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

    /// Whether a store is waited for no more.
    pub fn is_skipped(&self, store: &StoreName) -> bool {
        self.config
            .skipped
            .iter()
            .any(|member| member.node == *store)
    }

    /// The incarnation in which a store is in the live versions.
    pub fn incarnation_of(&self, store: &StoreName) -> Option<u64> {
        self.config.incarnation_of(store)
    }

    /// As bytes.
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
        })
    }

    /// The reverse of [`encode`](Epoch::encode).
    ///
    /// # Errors
    /// If the bytes are no epoch, or one that names what it does not have.
    pub fn decode(bytes: &[u8]) -> Result<Epoch, codec::DecodeError> {
        let stored: Stored = codec::decode(bytes)?;
        let malformed = |why: &str| codec::DecodeError::Malformed(why.into());
        if !(1..=MAX_LIVE).contains(&stored.layouts.len())
            || stored.layouts.len() != stored.members.len()
        {
            return Err(malformed("an epoch's number of layouts"));
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
                return Err(malformed("a layout that does not fit together"));
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
        })
    }
}

#[cfg(test)]
mod tests;
