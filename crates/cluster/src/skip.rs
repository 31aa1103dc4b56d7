//! Going on without a node that is lost for good, where an older layout version cannot retire without it.
//!
//! What is sound about it stands in [`register::epoch`](crate::register::epoch::reduced): the node's replica is skipped in its
//! incarnation, so that it never counts again.

use std::collections::BTreeMap;

use archipel_base::{NodeId, PartitionId};

use crate::change::{no_layout, refused};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::layout::{Epoch, PARTITIONS, StoreName};
use crate::register::epoch::{may_lose, quorum_of};

/// Partitions that are in the same position once a node is skipped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// How many copies the older version has.
    pub copies: usize,
    /// How many of them are left, those of nodes that do not answer too.
    pub left: usize,
    /// How many of those answer.
    pub answering: usize,
}

impl Position {
    /// Whether something that was acknowledged may be lost.
    pub fn may_lose(self) -> bool {
        may_lose(self.copies, self.left)
    }

    /// Whether enough answer for the version to retire.
    pub fn goes_on(self) -> bool {
        self.answering >= quorum_of(self.copies, self.left)
    }
}

/// What skipping a node means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Risk {
    /// The node's store.
    pub store: StoreName,
    /// The layout version that waits for it.
    pub version: u64,
    /// How many partitions that move have a copy on it, by what is left of them.
    pub partitions: BTreeMap<Position, u32>,
    /// The same for the control partition, if it has a copy of it.
    pub control: Option<Position>,
}

impl Cluster {
    /// What skipping a node would mean now.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if there is nothing to skip, with what to do instead.
    pub fn skip_risk(&self, node: &NodeId) -> Result<Risk, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        let store = skippable(&epoch, node)?;
        let me = self.me().node;
        let peers = self.0.peers.as_ref();
        let answers = |other: &NodeId| {
            *other == me || peers.is_some_and(|peers| !peers.directory.is_suspected(other))
        };
        if answers(node) {
            let short = node.short();
            return Err(refused(format!(
                "node {short} answers: it is not lost; fix: let it run until its data has moved, or stop it for good first"
            )));
        }
        Ok(risk(&epoch, store, &answers))
    }

    /// Waits for a node no more: its replicas of older layout versions never count again.
    ///
    /// # Errors
    /// As [`skip_risk`](Cluster::skip_risk); or if no majority of the control group answers.
    pub async fn skip_dead(&self, node: &NodeId) -> Result<Risk, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        let risk = self.skip_risk(node)?;
        let proposal = epoch.skipping(&risk.store);
        let proposal = proposal.ok_or_else(|| refused("the layout changed meanwhile"))?;
        match self.succeed(&epoch, proposal).await? {
            true => Ok(risk),
            false => Err(refused(
                "the layout was changed meanwhile; fix: archipel layout show, and look again",
            )),
        }
    }
}

/// The store of a node that may be skipped.
fn skippable(epoch: &Epoch, node: &NodeId) -> Result<StoreName, Error> {
    let short = node.short();
    if epoch.newest().role_of(node).is_some() {
        return Err(refused(format!(
            "node {short} is in the newest layout version; fix: archipel layout remove {short}, apply that, and look again"
        )));
    }
    let older = epoch.layouts.iter().find_map(|l| l.role_of(node));
    let role = older.ok_or_else(|| {
        refused(format!(
            "node {short}: no layout version waits for it; fix: archipel layout show tells what a change waits for"
        ))
    })?;
    match epoch.is_skipped(&role.store) {
        true => Err(refused(format!("node {short} is skipped already"))),
        false => Ok(role.store),
    }
}

/// What is left without `store`.
fn risk(epoch: &Epoch, store: StoreName, answers: &dyn Fn(&NodeId) -> bool) -> Risk {
    let mut partitions = BTreeMap::new();
    for partition in (0..PARTITIONS).map(PartitionId) {
        if let Some(position) = position(epoch, partition, &store, answers) {
            *partitions.entry(position).or_default() += 1;
        }
    }
    let oldest = epoch.layouts.first();
    Risk {
        store,
        version: oldest.map_or(0, |layout| layout.version),
        partitions,
        control: position(epoch, PartitionId::CONTROL, &store, answers),
    }
}

/// What is left of a partition in the oldest version, if it has a copy on `store`.
fn position(
    epoch: &Epoch,
    partition: PartitionId,
    store: &StoreName,
    answers: &dyn Fn(&NodeId) -> bool,
) -> Option<Position> {
    let replicas = epoch.replicas(partition).into_iter().next()?;
    let copies = epoch.layouts.first()?.replicas_of(partition).len();
    replicas.iter().find(|member| member.node == *store)?;
    let left = replicas.iter().filter(|member| member.node != *store);
    let answering = left.clone().filter(|member| answers(&member.node.node));
    Some(Position {
        copies,
        left: left.clone().count(),
        answering: answering.count(),
    })
}

impl Risk {
    /// In plain words, a line for each position.
    pub fn explain(&self) -> Vec<String> {
        let (short, version) = (self.store.node.short(), self.version);
        let count: u32 = self.partitions.values().sum();
        let mut lines = vec![format!(
            "node {short} has a copy of {count} of {PARTITIONS} partitions in layout version {version}, and answers no more"
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
            "it never counts again: should it come back, what it holds is thrown away; if it can be brought back, start it instead of skipping it"
                .into(),
        );
        lines
    }

    /// Whether something that was acknowledged may be lost.
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
        } = self;
        let loss = match (left, self.may_lose()) {
            (0, _) => "what has not moved yet is lost".to_owned(),
            (_, true) => {
                let gone = copies - left;
                format!("what only the {gone} others had acknowledged is lost")
            }
            (_, false) => "nothing that was acknowledged is lost".to_owned(),
        };
        let wait = match self.goes_on() {
            true => "",
            false => "; it still waits for nodes that do not answer",
        };
        format!("{left} of {copies} copies are left, {answering} of them answer: {loss}{wait}")
    }
}

#[cfg(test)]
mod tests;
