//! Going on without a node that is lost for good, if an older layout version cannot retire without
//! it.
//!
//! [`register::epoch`](crate::register::epoch::reduced) argues why this is sound. The node's
//! replica is removed in its incarnation, so that it never counts again.

use std::collections::BTreeMap;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use archipel_net::Class;
use bytes::Bytes;
use tokio::time::timeout;

use crate::error::Error;
use crate::layout::{Epoch, PARTITIONS, StoreName};
use crate::node::wire::method;
use crate::reconfigure::LayoutChanges;
use crate::reconfigure::change::{no_layout, refused};
use crate::register::epoch::{Member, may_lose, quorum_of};

/// The time that a node which is said to be lost has to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The position of partitions once a node is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// The number of copies in the oldest version that has one on the node.
    pub copies: usize,
    /// The number of copies that are left, including those of nodes that do not answer.
    pub left: usize,
    /// The number of remaining copies on nodes that answer.
    pub answering: usize,
    /// True if a version that is older still has all rows, so that nothing is lost here.
    pub kept: bool,
}

impl Position {
    /// Returns true if something that was acknowledged may be lost.
    pub fn may_lose(self) -> bool {
        !self.kept && may_lose(self.copies, self.left)
    }

    /// Returns true if enough nodes answer for the version to retire.
    pub fn goes_on(self) -> bool {
        self.answering >= quorum_of(self.copies, self.left)
    }
}

/// The consequences of removing a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Risk {
    /// The node's store.
    pub store: StoreName,
    /// The oldest layout version that waits for the node.
    pub version: u64,
    /// The number of moving partitions with a copy on the node, by what is left of them.
    pub partitions: BTreeMap<Position, u32>,
    /// The same for the control partition, if the node has a copy of it.
    pub control: Option<Position>,
}

impl LayoutChanges {
    /// Returns what removing a node would mean now.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if there is nothing to remove, with advice.
    #[boxed]
    pub async fn removal_risk(&self, node: &NodeId) -> Result<Risk, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        let store = skippable(&epoch, node)?;
        let answers = |store: &StoreName| !self.is_away(store);
        // A node that answers with another store has lost this one.
        let is_lost = self.has_other_store(&store);
        if !is_lost && (answers(&store) || self.answers_now(node).await) {
            let short = node.short();
            return Err(refused(format!(
                "node {short} answers, so it is not lost; fix: let it run until its data has moved, or \
                 stop it for good first"
            )));
        }
        Ok(risk(&epoch, store, &answers))
    }

    /// Asks a node that is suspected whether it is there. Others may have said that it is not.
    async fn answers_now(&self, node: &NodeId) -> bool {
        let Some(peers) = &self.peers else {
            return false;
        };
        let call = peers.call_bytes(node, method::EPOCH, Class::Control, Bytes::new());
        matches!(timeout(PATIENCE, call).await, Ok(Ok(_)))
    }

    /// Stops waiting for a node: its replicas of older layout versions never count again.
    ///
    /// # Errors
    /// As [`removal_risk`](LayoutChanges::removal_risk), or if no majority of the control group
    /// answers.
    #[boxed]
    pub async fn remove_dead(&self, node: &NodeId) -> Result<Risk, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        let risk = self.removal_risk(node).await?;
        let proposal = epoch.skipping(&risk.store);
        let proposal = proposal.ok_or_else(|| {
            refused("the layout was changed meanwhile; fix: archipel layout show, and look again")
        })?;
        if self.succeed(&epoch, proposal).await? {
            Ok(risk)
        } else {
            Err(refused(
                "the layout was changed meanwhile; fix: archipel layout show, and look again",
            ))
        }
    }
}

/// Returns the store of a node that may be removed: the oldest one that a layout version waits for
/// and the newest version does not have. The newest version may have another store of the same
/// node.
fn skippable(epoch: &Epoch, node: &NodeId) -> Result<StoreName, Error> {
    let short = node.short();
    let (newest, roles) = (epoch.newest(), epoch.layouts.iter().flat_map(|l| &l.roles));
    let all = roles
        .map(|role| role.store)
        .filter(|store| store.node == *node);
    let is_kept = |store: &StoreName| newest.roles.iter().any(|role| role.store == *store);
    let mut left = all.filter(|store| !is_kept(store)).peekable();
    let was_left = left.peek().is_some();
    if let Some(store) = left.find(|store| !epoch.is_skipped(store)) {
        return Ok(store);
    }
    Err(refused(match () {
        () if newest.role_of(node).is_some() => format!(
            "node {short} is in the newest layout version; fix: archipel layout remove {short}, or assign \
             it if it has a new store, apply that, and look again"
        ),
        () if was_left => format!("node {short} is removed already: nothing is left to do"),
        () => format!(
            "node {short}: no layout version waits for it; fix: see in archipel layout show what a \
             change waits for"
        ),
    }))
}

/// Returns what is left without `store`.
fn risk(epoch: &Epoch, store: StoreName, answers: &dyn Fn(&StoreName) -> bool) -> Risk {
    let mut partitions = BTreeMap::new();
    for partition in (0..PARTITIONS).map(PartitionId) {
        if let Some(position) = position(epoch, partition, &store, answers) {
            *partitions.entry(position).or_default() += 1;
        }
    }
    let waits =
        |member: &Member<StoreName>| member.node == store && !epoch.config.skipped.contains(member);
    let mut versions = epoch.layouts.iter().zip(&epoch.config.live);
    let oldest = versions.find(|(_, members)| members.iter().any(waits));
    Risk {
        store,
        version: oldest.map_or(0, |(layout, _)| layout.version),
        partitions,
        control: position(epoch, PartitionId::CONTROL, &store, answers),
    }
}

/// Returns what is left of a partition in the oldest version that has a copy on `store`. Until the
/// versions before that one retire, they hold all rows, too, unless too many of their copies were
/// given up.
fn position(
    epoch: &Epoch,
    partition: PartitionId,
    store: &StoreName,
    answers: &dyn Fn(&StoreName) -> bool,
) -> Option<Position> {
    let mut kept = false;
    for (layout, replicas) in epoch.layouts.iter().zip(epoch.replicas(partition)) {
        let copies = layout.replicas_of(partition).len();
        if replicas.iter().all(|member| member.node != *store) {
            kept |= !may_lose(copies, replicas.len());
            continue;
        }
        let left = replicas.iter().filter(|member| member.node != *store);
        let answering = left.clone().filter(|member| answers(&member.node));
        return Some(Position {
            copies,
            left: left.clone().count(),
            answering: answering.count(),
            kept,
        });
    }
    None
}

impl Risk {
    /// Returns an explanation, with a line for each position.
    pub fn explain(&self) -> Vec<String> {
        let (short, version) = (self.store.node.short(), self.version);
        let count: u32 = self.partitions.values().sum();
        let mut lines = vec![format!(
            "node {short} has a copy of {count} of {PARTITIONS} partitions in layout version \
             {version}, in a store that does not answer"
        )];
        let each = self.partitions.iter();
        lines.extend(each.map(|(position, count)| {
            let noun = if *count == 1 {
                "partition"
            } else {
                "partitions"
            };
            format!("{count} {noun}: {}", position.explain())
        }));
        let control = self.control.iter();
        lines.extend(control.map(|p| format!("buckets, keys and the layout: {}", p.explain())));
        lines.push(
            "its copies never count again: if it comes back, its data is dropped; if it can be \
             repaired, start it instead of removing it"
                .into(),
        );
        lines
    }

    /// Returns true if something that was acknowledged may be lost.
    pub fn may_lose(&self) -> bool {
        let all = self.partitions.keys().chain(&self.control);
        all.copied().any(Position::may_lose)
    }
}

impl Position {
    fn explain(self) -> String {
        let Position {
            copies,
            left,
            answering,
            kept,
        } = self;
        let loss = match (left, self.may_lose()) {
            _ if kept => {
                "an older layout version has all rows, so nothing that was acknowledged is lost"
                    .to_owned()
            }
            (0, _) => "rows that have not moved yet are lost".to_owned(),
            (_, true) => {
                let gone = copies - left;
                format!("rows that only the {gone} others had acknowledged are lost")
            }
            (_, false) => "nothing that was acknowledged is lost".to_owned(),
        };
        let wait = if self.goes_on() {
            ""
        } else {
            "; it still waits for nodes that do not answer"
        };
        format!("{left} of {copies} copies are left, {answering} of them answer: {loss}{wait}")
    }
}

#[cfg(test)]
mod tests;
