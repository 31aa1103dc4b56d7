//! A node on the map of the cluster: its state, its disks, and what is repaired there.

use std::collections::BTreeMap;

use archipel_api::admin::types::{DiskSpace, LayoutInfo, NodeInfo, NodeState, RepairNode};

use crate::show;

/// A zone with its nodes.
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<NodeView>,
}

/// A node, as the page shows it.
pub struct NodeView {
    /// The node, as the node that was asked knows it.
    pub node: NodeInfo,
    /// Its share of all copies, if the layout is known.
    share: Option<(u32, u64)>,
    /// The state of its disks and its repairs, if it told.
    health: Option<RepairNode>,
    now_ms: u64,
}

/// Returns the zones with their nodes, by name.
pub fn zones(
    nodes: Vec<NodeInfo>,
    layout: Option<&LayoutInfo>,
    health: Vec<RepairNode>,
    now_ms: u64,
) -> Vec<Zone> {
    let health = health.into_iter().map(|told| (told.node.clone(), told));
    let mut health: BTreeMap<String, RepairNode> = health.collect();
    let mut zones: BTreeMap<String, Vec<NodeView>> = BTreeMap::new();
    for node in nodes {
        let of_layout = layout.and_then(|layout| layout.nodes.iter().find(|n| n.id == node.id));
        let share = of_layout.map(|n| (n.partitions, (n.share * 100.0).round() as u64));
        let zone = node.zone.clone().unwrap_or_else(|| "no zone yet".into());
        zones.entry(zone).or_default().push(NodeView {
            share,
            health: health.remove(&node.id),
            node,
            now_ms,
        });
    }
    let zones = zones.into_iter();
    zones.map(|(name, nodes)| Zone { name, nodes }).collect()
}

impl NodeView {
    /// Returns the style of its dot.
    pub fn tone(&self) -> &'static str {
        match self.node.state {
            NodeState::Alive | NodeState::Itself => "good",
            NodeState::Suspected => "warn",
            NodeState::Gone => "bad",
        }
    }

    /// Returns its state.
    pub fn state(&self) -> String {
        match self.node.state {
            NodeState::Itself => "answers this page".into(),
            NodeState::Alive => "alive".into(),
            state if self.node.since_ms == 0 => format!("{}, never seen", state.name()),
            state => {
                let silent = self.now_ms.saturating_sub(self.node.since_ms) / 1000;
                format!("{}, silent for {}", state.name(), show::duration(silent))
            }
        }
    }

    /// Returns its capacity in the layout.
    pub fn capacity(&self) -> String {
        match self.node.capacity_bytes {
            Some(0) => "gateway".into(),
            Some(bytes) => show::bytes(bytes),
            None => "unknown".into(),
        }
    }

    /// Returns the time of a round trip to it.
    pub fn latency(&self) -> String {
        let ms = self.node.round_trip_ms;
        ms.map_or("–".into(), |ms| format!("{ms:.1} ms"))
    }

    /// Returns its part of all copies.
    pub fn holds(&self) -> String {
        match self.share {
            Some((partitions, percent)) => format!("{partitions} partitions, {percent}\u{a0}%"),
            None => "not in the layout".into(),
        }
    }

    /// Returns the space of its disks, if it told.
    pub fn disks(&self) -> Option<&DiskSpace> {
        let space = self.health.as_ref()?.space.as_ref()?;
        Some(space).filter(|space| space.capacity_bytes > 0)
    }

    /// Returns how much of its disks is taken, in hundredths: by other programs, too.
    pub fn taken(&self, space: &DiskSpace) -> u64 {
        let taken = space.capacity_bytes.saturating_sub(space.free_bytes);
        show::percent(taken, space.capacity_bytes)
    }

    /// Returns how much room is left.
    pub fn free(&self, space: &DiskSpace) -> String {
        show::bytes(space.free_bytes)
    }

    /// Returns what is repaired there or fails, each with the style of its dot.
    pub fn healing(&self) -> Vec<(&'static str, String)> {
        let Some(told) = &self.health else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        let disks = told.failed_disks.iter();
        lines.extend(disks.map(|disk| ("bad", format!("{disk}: it failed"))));
        let (waiting, stuck) = (told.repair.waiting, told.repair.stuck);
        if waiting > stuck {
            let blocks = show::count(waiting - stuck);
            lines.push(("busy", format!("replaces {blocks} damaged blocks")));
        }
        if stuck > 0 {
            let blocks = show::count(stuck);
            lines.push((
                "bad",
                format!("{blocks} damaged blocks have no good copy yet"),
            ));
        }
        let behind = told.behind.iter().filter(|behind| behind.rows > 0);
        lines.extend(behind.map(|behind| {
            let rows = show::count(behind.rows);
            ("busy", format!("compares {rows} rows with {}", behind.node))
        }));
        if told.scrub.running {
            let part = show::percent(told.scrub.bytes, told.scrub.stored_bytes);
            lines.push(("busy", format!("reads all its blocks: {part} %")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use archipel_api::admin::types::{BehindInfo, RepairCounts, ScrubInfo};

    use super::*;

    fn view(health: RepairNode) -> NodeView {
        NodeView {
            node: NodeInfo::default(),
            share: None,
            health: Some(health),
            now_ms: 0,
        }
    }

    #[test]
    fn node_tells_its_disks_and_what_heals() {
        assert!(view(RepairNode::default()).disks().is_none());
        assert_eq!(view(RepairNode::default()).healing(), []);
        let node = view(RepairNode {
            space: Some(DiskSpace {
                used_bytes: 10,
                free_bytes: 75_000,
                capacity_bytes: 100_000,
            }),
            failed_disks: vec!["disk 2: gone".into()],
            repair: RepairCounts {
                waiting: 5,
                stuck: 2,
                ..RepairCounts::default()
            },
            behind: vec![BehindInfo {
                node: "5eedf00d".into(),
                rows: 40,
                ..BehindInfo::default()
            }],
            scrub: ScrubInfo {
                running: true,
                bytes: 1,
                stored_bytes: 4,
                ..ScrubInfo::default()
            },
            ..RepairNode::default()
        });
        let space = node.disks().unwrap();
        assert_eq!(
            (node.taken(space), node.free(space)),
            (25, "73.2 KiB".into())
        );
        let expected = [
            ("bad", "disk 2: gone: it failed"),
            ("busy", "replaces 3 damaged blocks"),
            ("bad", "2 damaged blocks have no good copy yet"),
            ("busy", "compares 40 rows with 5eedf00d"),
            ("busy", "reads all its blocks: 25 %"),
        ];
        let expected = expected.map(|(tone, line)| (tone, line.to_owned()));
        assert_eq!(node.healing(), expected);
    }
}
