//! The replicas of one partition, as one operation sees them.

use std::time::Duration;

use archipel_base::{NodeId, PartitionId};

use crate::epochs::Epochs;
use crate::error::Error;
use crate::layout::{Epoch, StoreName};
use crate::peers::Peers;
use crate::register::epoch::Member;
use crate::register::{Quorums, ReplicaSet};
use crate::wire::Address;

/// Replicas that usually answer within this time are near; what they do with a request is part of it, such as syncing a write.
const NEAR: Duration = Duration::from_millis(10);
/// How long a replica that should not be needed is not asked. Near ones mostly answer within it, also under load.
const SPARE: Duration = Duration::from_millis(15);

/// The replicas of a partition in all live layout versions, nearest first. An operation knows them by their place.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub partition: PartitionId,
    pub epoch: u64,
    pub members: Vec<Member<StoreName>>,
    pub quorums: Quorums,
    /// The oldest live version's part in the quorums.
    pub oldest: Vec<ReplicaSet>,
    me: StoreName,
}

impl Group {
    /// The group of a partition now.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while this node is in no cluster.
    pub fn now(
        epochs: &Epochs,
        peers: Option<&Peers>,
        partition: PartitionId,
    ) -> Result<Group, Error> {
        let epoch = epochs.current().ok_or_else(|| {
            Error::Unavailable("this node is in no layout yet; fix: archipel layout assign".into())
        })?;
        let mut members: Vec<_> = epoch.replicas(partition).into_iter().flatten().collect();
        members.sort_unstable();
        members.dedup();
        let me = epochs.me();
        members.sort_by_key(|member| {
            let away = peers.map(|peers| peers.distance(&member.node.node));
            (member.node != me, away)
        });
        Ok(Group::of(&epoch, partition, members, me))
    }

    fn of(
        epoch: &Epoch,
        partition: PartitionId,
        members: Vec<Member<StoreName>>,
        me: StoreName,
    ) -> Group {
        let place = |member: &Member<StoreName>| members.iter().position(|m| m == member);
        let versions = epoch.quorums(partition, place);
        Group {
            partition,
            epoch: epoch.number(),
            oldest: versions.first().cloned().unwrap_or_default(),
            quorums: Quorums::of_versions(versions.into_iter().flatten().collect()),
            members,
            me,
        }
    }

    /// The group under the newest epoch, in which those known before keep their places.
    pub fn renewed(&self, epochs: &Epochs, peers: Option<&Peers>) -> Result<Group, Error> {
        let fresh = Group::now(epochs, peers, self.partition)?;
        let mut members = self.members.clone();
        let new = fresh.members.iter().filter(|m| !self.members.contains(m));
        members.extend(new);
        let epoch = epochs
            .current()
            .ok_or_else(|| Error::Unavailable("this node is in no layout".into()))?;
        Ok(Group::of(&epoch, self.partition, members, self.me))
    }

    /// Whether the replica at that place is this node's own.
    pub fn is_local(&self, place: usize) -> bool {
        self.members.get(place).is_some_and(|m| m.node == self.me)
    }

    /// Whether a node seems to be away.
    pub fn is_away(&self, peers: Option<&Peers>, node: &NodeId) -> bool {
        *node != self.me.node && peers.is_some_and(|peers| peers.directory.is_suspected(node))
    }

    /// Whether another replica need not be asked what those of `asked` are asked, who are nearer: then for how long not. Their answers are
    /// enough if they come; a third would only cost work where all are near, while it comes sooner than the second at times where they are far.
    pub fn spare_time(&self, peers: Option<&Peers>, asked: ReplicaSet) -> Option<Duration> {
        if !self.quorums.is_quorum(asked) {
            return None;
        }
        let is_near = |place: usize| {
            let node = self.members.get(place).map(|member| member.node.node);
            let distance = peers.zip(node).map(|(peers, node)| peers.distance(&node));
            self.is_local(place) || distance.is_some_and(|(away, far)| !away && far < NEAR)
        };
        asked.iter().all(is_near).then_some(SPARE)
    }

    /// Whether no other node has a part in it.
    pub fn is_local_alone(&self) -> bool {
        self.members.len() == 1 && self.is_local(0)
    }

    /// The place of this node's own replica, if it has one in force.
    pub fn local(&self) -> Option<usize> {
        self.quorums
            .all()
            .iter()
            .find(|place| self.is_local(*place))
    }

    /// How the replica at that place is addressed.
    pub fn address(&self, place: usize) -> Option<Address> {
        let member = self.members.get(place)?;
        Some(Address {
            epoch: self.epoch,
            incarnation: member.incarnation,
            partition: self.partition,
        })
    }
}

#[cfg(test)]
mod tests;
