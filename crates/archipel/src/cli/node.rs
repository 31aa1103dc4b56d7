//! `archipel node`

use archipel_api::admin::types::{Join, NodeInfo, NodeState};
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;

/// What can be done with nodes.
#[derive(Subcommand)]
pub enum Command {
    /// Print the id of the server's node
    Id,
    /// Ask further nodes of the cluster: archipel node join b.example.net:3901
    Join {
        /// Nodes of the cluster; one that answers is enough
        #[arg(required = true, value_name = "HOST:PORT")]
        addresses: Vec<String>,
    },
    /// List all nodes that are known, and what they are in
    List,
}

/// Does it.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let nodes: Vec<NodeInfo> = match command {
        Command::Id => return id(target, &client.get::<Vec<NodeInfo>>("/v1/nodes").await?),
        Command::Join { addresses } => client.post("/v1/nodes/join", &Join { addresses }).await?,
        Command::List => client.get("/v1/nodes").await?,
    };
    list(target, &nodes)
}

/// The id alone, so that scripts can use it.
fn id(target: &Target, nodes: &[NodeInfo]) -> Result<(), Failure> {
    let node = nodes.iter().find(|node| node.state == NodeState::Itself);
    let node = node.ok_or_else(|| Failure("the server does not tell its own node".into()))?;
    match target.json {
        true => table::print_json(node),
        false => table::text(&node.id),
    }
}

fn list(target: &Target, nodes: &[NodeInfo]) -> Result<(), Failure> {
    if target.json {
        return table::print_json(&nodes);
    }
    let rows: Vec<[String; 9]> = nodes.iter().map(row).collect();
    table::print(
        [
            "NODE",
            "ZONE",
            "CAPACITY",
            "STATE",
            "LAST HEARD",
            "ROUND TRIP",
            "VERSION",
            "BY",
            "ADDRESSES",
        ],
        &rows,
    )?;
    match hint(nodes) {
        Some(hint) => table::text(&format!("\n{hint}")),
        None => Ok(()),
    }
}

fn row(node: &NodeInfo) -> [String; 9] {
    let or_dash = |text: String| if text.is_empty() { "-".into() } else { text };
    let heard = match (node.state, node.since_ms) {
        (NodeState::Itself, _) | (_, 0) => "-".into(),
        (_, heard) => format!("{} ago", table::age(heard)),
    };
    let state = match node.in_layout {
        true => node.state.name().to_owned(),
        false => format!("{}, no layout", node.state.name()),
    };
    [
        node.short.clone(),
        node.zone.clone().unwrap_or_else(|| "-".into()),
        node.capacity_bytes.map_or_else(|| "-".into(), capacity),
        state,
        heard,
        node.round_trip_ms
            .map_or_else(|| "-".into(), |ms| format!("{ms:.1} ms")),
        or_dash(node.version.clone()),
        or_dash(node.transport.clone()),
        or_dash(node.addresses.join(", ")),
    ]
}

/// A node's capacity as it was given: in decimal units, as capacities are.
pub fn capacity(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let name = UNITS[unit];
    match bytes {
        0 => "gateway".into(),
        _ if value.fract() == 0.0 => format!("{value} {name}"),
        _ => format!("{value:.1} {name}"),
    }
}

/// What to do with nodes that have no part in the layout.
fn hint(nodes: &[NodeInfo]) -> Option<String> {
    let idle: Vec<&NodeInfo> = nodes.iter().filter(|node| !node.in_layout).collect();
    if idle.is_empty() {
        return None;
    }
    let shorts: Vec<&str> = idle.iter().map(|node| node.short.as_str()).collect();
    let missing = |missing: bool, flag: &str| {
        if missing {
            format!(" {flag}")
        } else {
            String::new()
        }
    };
    let zone = missing(idle.iter().any(|n| n.zone.is_none()), "--zone ZONE");
    let size = missing(
        idle.iter().any(|n| n.capacity_bytes.is_none()),
        "--capacity 500GB",
    );
    let nodes = shorts.join(" ");
    Some(format!(
        "Nodes in no layout hold no data. To let them take part:\n  archipel layout assign {nodes}{zone}{size}\n  archipel layout show"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(zone: Option<&str>) -> NodeInfo {
        NodeInfo {
            short: "0badcafe".into(),
            zone: zone.map(String::from),
            state: NodeState::Alive,
            ..NodeInfo::default()
        }
    }

    #[test]
    fn a_node_without_a_part_is_marked_with_the_command_that_gives_it_one() {
        assert_eq!(row(&idle(None))[3], "alive, no layout");
        let hint = hint(&[idle(None)]).unwrap();
        assert!(
            hint.contains("archipel layout assign 0badcafe --zone ZONE --capacity 500GB"),
            "{hint}"
        );
    }

    #[test]
    fn what_a_node_tells_of_itself_need_not_be_given() {
        let told = NodeInfo {
            capacity_bytes: Some(1),
            ..idle(Some("paris"))
        };
        let hint = hint(&[told]).unwrap();
        assert!(hint.contains("assign 0badcafe\n"), "{hint}");
    }

    #[test]
    fn a_capacity_is_shown_as_it_was_given() {
        let shown = [0, 999, 500_000_000_000, 1_500_000_000_000, 2 << 40].map(capacity);
        assert_eq!(shown, ["gateway", "999 B", "500 GB", "1.5 TB", "2.2 TB"]);
    }

    #[test]
    fn without_idle_nodes_there_is_no_hint() {
        let part = NodeInfo {
            in_layout: true,
            ..idle(None)
        };
        assert_eq!(hint(&[part]), None);
    }
}
