//! The replicas of one partition, as one operation sees them.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId};

use crate::error::Error;
use crate::layout::{Epoch, StoreName};
use crate::node::epochs::Epochs;
use crate::node::peers::Peers;
use crate::node::times::Times;
use crate::node::wire::Address;
use crate::register::epoch::Member;
use crate::register::{Quorums, ReplicaSet};

/// Replicas that usually answer within this time are near. The time includes their work, such as
/// the sync of a write.
const NEAR: Duration = Duration::from_millis(10);

/// The replicas of a partition in all live layout versions, nearest first. An operation names them
/// by their replica index.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub partition: PartitionId,
    pub epoch: u64,
    pub members: Vec<Member<StoreName>>,
    pub quorums: Quorums,
    /// The quorums of the oldest live layout version.
    pub oldest: Vec<ReplicaSet>,
    me: StoreName,
}

impl Group {
    /// Returns the group of a partition under the newest known epoch.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while this node is in no cluster.
    pub fn now(
        epochs: &Epochs,
        peers: Option<&Peers>,
        partition: PartitionId,
    ) -> Result<Group, Error> {
        let epoch = current(epochs)?;
        let me = epochs.me();
        let members = sorted_members(&epoch, peers, partition, me);
        Ok(Group::of(&epoch, partition, members, me))
    }

    fn of(
        epoch: &Epoch,
        partition: PartitionId,
        members: Vec<Member<StoreName>>,
        me: StoreName,
    ) -> Group {
        let index = |member: &Member<StoreName>| members.iter().position(|m| m == member);
        let versions = epoch.quorums(partition, index);
        Group {
            partition,
            epoch: epoch.number(),
            oldest: versions.first().cloned().unwrap_or_default(),
            quorums: Quorums::of_versions(versions.into_iter().flatten().collect()),
            members,
            me,
        }
    }

    /// Returns the group under the newest epoch. Replicas that were known before keep their
    /// indexes.
    pub fn renewed(&self, epochs: &Epochs, peers: Option<&Peers>) -> Result<Group, Error> {
        // One epoch for all of it: a member of another one would not count in a quorum.
        let epoch = current(epochs)?;
        let mut members = self.members.clone();
        for member in sorted_members(&epoch, peers, self.partition, self.me) {
            if !members.contains(&member) {
                members.push(member);
            }
        }
        if members.len() > ReplicaSet::MAX {
            // A set would silently lack some, and look as if they had been given up.
            return Err(Error::Unavailable(
                "the layout changed too often meanwhile; it is tried again with the newest one"
                    .into(),
            ));
        }
        Ok(Group::of(&epoch, self.partition, members, self.me))
    }

    /// Returns true if the replica with this index is this node's own.
    pub fn is_local(&self, index: usize) -> bool {
        self.members.get(index).is_some_and(|m| m.node == self.me)
    }

    /// Returns true if a node is suspected.
    pub fn is_away(&self, peers: Option<&Peers>, node: &NodeId) -> bool {
        *node != self.me.node && peers.is_some_and(|peers| peers.directory.is_suspected(node))
    }

    /// Returns how long requests to the other replicas are deferred; `None` if they are not. They
    /// are deferred if the replicas in `asked` form a quorum and all are near: their answers are
    /// enough if they come, and a third answer would only cost work. If they are far, the third
    /// answer sometimes comes before the second.
    pub fn defer_time(&self, peers: Option<&Peers>, asked: ReplicaSet) -> Option<Duration> {
        if !self.quorums.is_quorum(asked) {
            return None;
        }
        let defer = peers.map_or(Times::USUAL.defer, |peers| peers.times.defer);
        let is_near = |index: usize| {
            let node = self.members.get(index).map(|member| member.node.node);
            let distance = peers.zip(node).map(|(peers, node)| peers.distance(&node));
            self.is_local(index) || distance.is_some_and(|(away, far)| !away && far < NEAR)
        };
        asked.iter().all(is_near).then_some(defer)
    }

    /// Returns true if this node's replica is the only one.
    pub fn is_local_alone(&self) -> bool {
        self.members.len() == 1 && self.is_local(0)
    }

    /// Returns the index of this node's own replica, if a live layout version names it.
    pub fn local(&self) -> Option<usize> {
        self.quorums
            .all()
            .iter()
            .find(|index| self.is_local(*index))
    }

    /// Returns the indexes of the replicas of other nodes that live layout versions name, in order.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let all = self.quorums.all().iter();
        all.filter(|index| !self.is_local(*index))
    }

    /// Returns the replica with this index.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is none.
    pub fn member(&self, index: usize) -> Result<&Member<StoreName>, Error> {
        self.members.get(index).ok_or_else(unknown_replica)
    }

    /// Returns the address of the replica with this index, as [`Group::address`] does.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is none.
    pub fn address_of(&self, index: usize) -> Result<Address, Error> {
        self.address(index).ok_or_else(unknown_replica)
    }

    /// Returns the address of the replica with this index.
    pub fn address(&self, index: usize) -> Option<Address> {
        let member = self.members.get(index)?;
        Some(Address {
            epoch: self.epoch,
            incarnation: member.incarnation,
            partition: self.partition,
        })
    }
}

fn unknown_replica() -> Error {
    Error::Unavailable("the replica is not known".into())
}

/// Returns the newest epoch that this node knows, if it speaks its feature level.
fn current(epochs: &Epochs) -> Result<Arc<Epoch>, Error> {
    epochs.check_level()?;
    epochs.current().ok_or_else(|| {
        Error::Unavailable("this node is in no layout yet; fix: archipel layout assign".into())
    })
}

/// Returns the replicas of a partition in all live layout versions, each once, nearest first.
fn sorted_members(
    epoch: &Epoch,
    peers: Option<&Peers>,
    partition: PartitionId,
    me: StoreName,
) -> Vec<Member<StoreName>> {
    let mut members: Vec<_> = epoch.replicas(partition).into_iter().flatten().collect();
    members.sort_unstable();
    members.dedup();
    members.sort_by_key(|member| {
        let away = peers.map(|peers| peers.distance(&member.node.node));
        (member.node != me, away)
    });
    members
}

#[cfg(test)]
mod tests;
