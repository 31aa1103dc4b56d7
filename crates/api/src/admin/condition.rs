//! The state of the cluster as one node sees it: who is away, what is at risk, what to do.
//!
//! A pure function of the live layouts and the states of the nodes. A partition can be read and
//! written while a majority of its replicas answers in every live layout.

use std::collections::{BTreeMap, BTreeSet};

use archipel_base::PartitionId;
use archipel_cluster::layout::{Epoch, Layout, PARTITIONS, Role, StoreName};
use archipel_cluster::register::epoch::quorum_of;

use super::types::{ClusterState, ClusterStatus, NodeInfo, NodeState};

/// The most nodes that a line names; it counts the others.
const NAMED: usize = 5;

/// The consequences of absent nodes for the partitions.
#[derive(Default)]
struct Risk {
    /// Partitions that lack a copy, and the most copies that one lacks.
    short: u32,
    most_missing: usize,
    /// The number of them that stop if one more node is lost.
    on_the_edge: u32,
    /// The number of partitions that can be neither read nor written.
    stopped: u32,
    /// True if buckets, keys and the layout are among them.
    control_stopped: bool,
}

/// The reason why a node of a layout is absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Away {
    /// It does not answer.
    Silent(NodeState),
    /// It answers with another store than the layout names: its disks were lost.
    OtherStore,
    /// It answers, and speaks only this feature level, which is below that of the cluster.
    TooOld(u32),
    /// It answers, and has not learnt the newest layout for long.
    Lagging,
}

/// The stores of live layouts that are absent.
type Absent<'a> = BTreeMap<StoreName, (&'a Role, Away)>;

/// Returns the state of the cluster of `epoch`.
pub(super) fn assess(epoch: &Epoch, nodes: &[NodeInfo]) -> ClusterStatus {
    let known: BTreeMap<&str, &NodeInfo> = nodes.iter().map(|n| (n.id.as_str(), n)).collect();
    let waited_for = |role: &&Role| !epoch.is_skipped(&role.store);
    let live = || {
        let roles = epoch.layouts.iter().flat_map(|layout| &layout.roles);
        roles.filter(waited_for)
    };
    // By store: a node whose disks were lost has another one in the newest layout while it is
    // filled.
    let away: Absent<'_> = live()
        .filter_map(|role| Some((role.store, (role, away(role, epoch.level, &known)?))))
        .collect();
    let risk = risk(epoch, &|role| away.contains_key(&role.store));
    let mut advice = absences(epoch, nodes, &away);
    advice.extend(risk.lines(away.len()));
    advice.extend(remedy(epoch, &away, &risk));
    advice.extend(epoch.is_changing().then(|| {
        "data moves to a newer layout version: archipel layout show tells the progress".to_owned()
    }));
    advice.extend(outrun(epoch, nodes));
    advice.extend(unassigned(epoch, nodes));
    let newest = epoch.newest();
    let zones: BTreeSet<&str> = newest.roles.iter().map(|role| role.zone.as_str()).collect();
    ClusterStatus {
        nodes: newest.roles.len() as u32,
        zones: zones.len() as u32,
        layout_version: newest.version,
        epoch: epoch.number(),
        level: epoch.level,
        changing: epoch.is_changing(),
        partitions_short: risk.short,
        partitions_stopped: risk.stopped,
        state: match () {
            () if risk.stopped > 0 || risk.control_stopped => ClusterState::Unavailable,
            () if !away.is_empty() => ClusterState::Degraded,
            () => ClusterState::Healthy,
        },
        advice,
    }
}

/// Returns the reason why the cluster keeps this node from serving requests. Returns `None` while
/// part of the data is reachable.
pub(super) fn serves_nothing(status: Option<&ClusterStatus>) -> Option<String> {
    match status {
        None => Some("this node is in no layout yet".into()),
        Some(cluster) if cluster.partitions_stopped == u32::from(PARTITIONS) => {
            Some("no partition has a reachable majority of its copies".into())
        }
        Some(_) => None,
    }
}

fn away(role: &Role, level: u32, known: &BTreeMap<&str, &NodeInfo>) -> Option<Away> {
    let Some(node) = known.get(role.store.node.to_string().as_str()) else {
        return Some(Away::Silent(NodeState::Gone));
    };
    let same_store = node.store.is_empty() || node.store == role.store.store.to_string();
    match node.state.answers() {
        false => Some(Away::Silent(node.state)),
        true if !same_store => Some(Away::OtherStore),
        // 0 means that it is not known.
        true if (1..level).contains(&node.level) => Some(Away::TooOld(node.level)),
        true if node.lagging => Some(Away::Lagging),
        true => None,
    }
}

/// The standing of a node in a layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Here,
    Away,
    /// It is lost and was removed as dead.
    Skipped,
}

fn risk(epoch: &Epoch, is_away: &dyn Fn(&Role) -> bool) -> Risk {
    let layouts = epoch.layouts.iter();
    let layouts: Vec<(&Layout, Vec<Place>)> = layouts
        .map(|layout| {
            let place = |role: &Role| match epoch.is_skipped(&role.store) {
                true => Place::Skipped,
                false if is_away(role) => Place::Away,
                false => Place::Here,
            };
            (&**layout, layout.roles.iter().map(place).collect())
        })
        .collect();
    let mut risk = Risk::default();
    for partition in (0..PARTITIONS).map(PartitionId) {
        let (missing, spare) = counts(&layouts, partition);
        risk.short += u32::from(missing > 0);
        risk.most_missing = risk.most_missing.max(missing);
        risk.on_the_edge += u32::from(missing > 0 && spare == 0);
        risk.stopped += u32::from(spare < 0);
    }
    risk.control_stopped = counts(&layouts, PartitionId::CONTROL).1 < 0;
    risk
}

/// Returns how many replicas of a partition are away, and how many more may fail before the
/// majority is lost. Below 0 it is lost already. The worst of all live layouts counts.
fn counts(layouts: &[(&Layout, Vec<Place>)], partition: PartitionId) -> (usize, i64) {
    let each = layouts.iter().map(|(layout, places)| {
        let replicas = layout.replicas_of(partition);
        let count = |wanted: Place| {
            let all = replicas.iter().map(|at| places.get(usize::from(*at)));
            all.filter(|place| *place == Some(&wanted)).count()
        };
        let (missing, left) = (count(Place::Away), replicas.len() - count(Place::Skipped));
        let may_miss = left - quorum_of(replicas.len(), left).min(left);
        (missing, may_miss as i64 - missing as i64)
    });
    each.fold((0, i64::MAX), |(missing, spare), (m, s)| {
        (missing.max(m), spare.min(s))
    })
}

/// Returns a line for each zone that is away as a whole, and for each other node that is.
fn absences(epoch: &Epoch, nodes: &[NodeInfo], away: &Absent<'_>) -> Vec<String> {
    let others = nodes
        .iter()
        .filter(|n| n.in_layout && n.state != NodeState::Itself);
    let mut lines = Vec::new();
    if others.clone().count() > 1 && others.clone().all(|n| !n.state.answers()) {
        lines.push(
            "no other node answers: this one is cut off, or alone; check its network first".into(),
        );
    }
    let zones = epoch.newest().roles.iter().map(|role| role.zone.as_str());
    for zone in zones.collect::<BTreeSet<_>>() {
        let roles = epoch.newest().roles.iter().filter(|role| role.zone == zone);
        let lost: Vec<&(&Role, Away)> = roles
            .clone()
            .filter_map(|role| away.get(&role.store))
            .collect();
        let silent = lost.iter().all(|(_, why)| matches!(why, Away::Silent(_)));
        if silent && lost.len() == roles.count() {
            lines.push(format!(
                "zone {zone} does not answer: {}",
                names(lost.iter().map(|(role, _)| *role))
            ))
        } else {
            lines.extend(lost.iter().map(|(role, why)| absence(role, *why)))
        }
    }
    let leaving = away
        .values()
        .filter(|(role, _)| epoch.newest().role_of(&role.store.node).is_none());
    lines.extend(leaving.map(|(role, why)| absence(role, *why)));
    lines
}

fn absence(role: &Role, why: Away) -> String {
    let (short, zone) = (role.store.node.short(), &role.zone);
    match why {
        Away::Silent(state) => format!(
            "node {short} in zone {zone} does not answer ({})",
            state.name()
        ),
        Away::OtherStore => format!(
            "node {short} in zone {zone} has a new, empty store: it holds nothing until it is assigned again"
        ),
        Away::TooOld(level) => format!(
            "node {short} in zone {zone} speaks only feature level {level}: it serves nothing"
        ),
        Away::Lagging => format!(
            "node {short} in zone {zone} answers, and does not learn the newest layout: it serves nothing"
        ),
    }
}

impl Risk {
    fn lines(&self, away: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let (short, most) = (self.short, self.most_missing);
        if short > self.stopped {
            let copies = match most {
                1 => "a copy".to_owned(),
                most => format!("up to {most} copies"),
            };
            let on = match self.stopped {
                0 => "reads and writes go on",
                _ => "reads and writes of the others go on",
            };
            let edge = match self.on_the_edge {
                0 => String::new(),
                edge => {
                    format!("; if one more node that holds them is lost, up to {edge} of them stop")
                }
            };
            lines.push(format!(
                "{short} of {PARTITIONS} partitions lack {copies}; {on}{edge}"
            ));
        } else if short == 0 && away > 0 {
            lines.push("no data lacks a copy".into());
        }
        if self.stopped > 0 {
            let stopped = self.stopped;
            lines.push(format!(
                "{stopped} of {PARTITIONS} partitions have no reachable majority of their copies: their objects can be neither read nor written until enough nodes return"
            ));
        }
        if self.control_stopped {
            lines.push("buckets, keys and the layout have no reachable majority of their copies: they cannot be changed, and soon nodes refuse requests because they cannot confirm them, until enough nodes return".into());
        }
        lines
    }
}

/// Returns true if the newest layout names another store of the same node.
fn is_replaced(epoch: &Epoch, role: &Role) -> bool {
    let newest = epoch.newest().role_of(&role.store.node);
    newest.is_some_and(|newest| newest.store != role.store)
}

/// Returns advice about the nodes that are away.
fn remedy(epoch: &Epoch, away: &Absent<'_>, risk: &Risk) -> Vec<String> {
    let of = |is_so: fn(&Away) -> bool| {
        let some = away.values().filter(move |(_, why)| is_so(why));
        // The store that has taken the place of another one fetches the data of that.
        let some = some.filter(|(role, why)| *why != Away::OtherStore || !is_replaced(epoch, role));
        let mut shorts: Vec<String> = some.map(|(role, _)| role.store.node.short()).collect();
        shorts.dedup();
        (!shorts.is_empty()).then(|| shorts.join(" "))
    };
    let silent = of(|why| matches!(why, Away::Silent(_))).map(|nodes| {
        let otherwise = if risk.control_stopped {
            "until then the layout cannot be changed either".to_owned()
        } else {
            let remove = format!("archipel layout remove {nodes}, then archipel layout show");
            format!("if lost for good: {remove}")
        };
        format!("to do: bring {nodes} back; {otherwise}")
    });
    let emptied = of(|why| *why == Away::OtherStore)
        .map(|nodes| format!("to do: archipel layout assign {nodes}, then archipel layout show"));
    let too_old = of(|why| matches!(why, Away::TooOld(_)))
        .map(|nodes| format!("to do: start a newer Archipel on {nodes}"));
    let lagging = of(|why| *why == Away::Lagging).map(|nodes| {
        format!(
            "to do: on {nodes}, archipel node join ADDRESS, with the address of a node of the newest layout"
        )
    });
    let others = emptied.into_iter().chain(too_old).chain(lagging);
    silent.into_iter().chain(others).collect()
}

/// Names a node that tells a newer layout than this node knows, and is not in the known one. So this
/// node does not believe it, and neither should the operator without looking: a node with the
/// cluster's secret can announce any number. An admitted node comes first.
fn outrun(epoch: &Epoch, nodes: &[NodeInfo]) -> Option<String> {
    let ahead = nodes
        .iter()
        .filter(|node| !node.in_layout && node.state.answers() && node.epoch > epoch.number());
    let told = ahead.max_by_key(|node| (node.admitted, node.epoch))?;
    let (short, id) = (&told.short, &told.id);
    let address = told.addresses.first().map_or("ADDRESS", String::as_str);
    Some(match told.admitted {
        true => format!(
            "node {short}, which was admitted, tells a newer layout; if this line stays: archipel node join \
             {address}"
        ),
        false => format!(
            "node {short} is a stranger and tells a newer layout, as anybody can who has the cluster's secret; \
             if this line stays, and one of your own nodes has the id {id} (archipel node id): archipel node \
             join with that node's address"
        ),
    })
}

/// Names nodes that answer and have no role. A node that knows a newer layout may have one there.
/// Anybody who has the cluster's secret may be among them.
fn unassigned(epoch: &Epoch, nodes: &[NodeInfo]) -> Option<String> {
    let idle = nodes.iter().filter(|node| {
        !node.in_layout && !node.admitted && node.state.answers() && node.epoch <= epoch.number()
    });
    let shorts: Vec<String> = idle.map(|node| node.short.clone()).collect();
    (!shorts.is_empty()).then(|| {
        let nodes = some(shorts);
        format!(
            "in no layout, so without data: {nodes}; if it is one of your own (archipel node id): archipel layout \
             assign NODE --zone ZONE --capacity SIZE"
        )
    })
}

fn names<'a>(roles: impl Iterator<Item = &'a Role>) -> String {
    some(roles.map(|role| role.store.node.short()).collect())
}

/// Names the first of these nodes, and counts the others.
fn some(mut shorts: Vec<String>) -> String {
    if shorts.len() > NAMED {
        let more = shorts.len() - NAMED;
        shorts.truncate(NAMED);
        shorts.push(format!("and {more} more"));
    }
    format!(
        "node{} {}",
        if shorts.len() == 1 { "" } else { "s" },
        shorts.join(", ")
    )
}

#[cfg(test)]
mod tests;
