//! `archipel node`

use archipel_api::admin::types::{Join, NodeInfo, NodeState, Page};
use clap::Subcommand;

use super::deletion::Deletion;
use super::table::{self, done};
use super::target::Target;
use crate::client::{Failure, path, query};
use crate::config::size;

/// The subcommands of `archipel node`.
#[derive(Subcommand)]
pub enum Command {
    /// Print the id of the server's node
    Id,
    /// Join a cluster through some of its nodes: archipel node join b.example.net:3901
    Join {
        /// Nodes of the cluster; one that answers is enough
        #[arg(required = true, value_name = "HOST:PORT")]
        addresses: Vec<String>,
    },
    /// List the known nodes with their state and part in the layout
    List {
        /// List only nodes in this zone
        #[arg(long, value_name = "ZONE")]
        zone: Option<String>,
        /// List only nodes in this state
        #[arg(
            long,
            value_name = "STATE",
            value_parser = ["alive", "suspected", "gone", "self"]
        )]
        state: Option<String>,
    },
    /// Show a node
    Info {
        /// The id of the node, or its first digits, at least four; or "self"
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Let the other nodes answer a node that is in no layout
    ///
    /// Nodes of the layout are answered without that. All others get the list of nodes and the
    /// layout, so that they can be assigned, and nothing else, although they know the cluster's
    /// secret.
    Admit {
        /// The id of the node, or its first digits, at least four
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Take an admission back: the other nodes refuse the node from now on
    Dismiss {
        /// The id of the node, or its first digits, at least four
        #[arg(value_name = "NODE")]
        node: String,
        /// The options of a deletion.
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let admission = |node: &str| path(&["v1", "nodes", node, "admission"]);
    match command {
        Command::Id => id(target, &client.get("/v1/nodes/self").await?),
        Command::Info { node } => {
            let node: NodeInfo = client.get(&path(&["v1", "nodes", &node])).await?;
            show(target, &node)
        }
        Command::Join { addresses } => {
            let _: Page<NodeInfo> = client.post("/v1/nodes/join", &Join { addresses }).await?;
            list(target, client.list("/v1/nodes").await?)
        }
        Command::Admit { node } => {
            client.put_nothing(&admission(&node)).await?;
            done(target, &format!("node {node} is admitted"))
        }
        Command::Dismiss { node, deletion } => {
            let message = format!("node {node} is not admitted any more");
            let route = admission(&node);
            deletion.run(target, &client, &route, &message).await
        }
        Command::List { zone, state } => {
            let filters = [("zone", zone.as_deref()), ("state", state.as_deref())];
            list(target, client.list(&query("/v1/nodes", &filters)).await?)
        }
    }
}

/// Prints the id alone, so that scripts can use it.
fn id(target: &Target, node: &NodeInfo) -> Result<(), Failure> {
    if target.json {
        table::print_json(node)
    } else {
        table::text(&node.id)
    }
}

fn show(target: &Target, node: &NodeInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(node);
    }
    let [
        _,
        zone,
        capacity,
        state,
        heard,
        round_trip,
        version,
        transport,
        addresses,
    ] = row(node);
    table::print_pairs(&[
        ("node", node.id.clone()),
        ("zone", zone),
        ("capacity", capacity),
        ("state", state),
        ("last heard", heard),
        ("round trip", round_trip),
        ("version", version),
        ("transport", transport),
        ("addresses", addresses),
    ])
}

fn list(target: &Target, mut nodes: Vec<NodeInfo>) -> Result<(), Failure> {
    // This node first, then by zone.
    nodes.sort_by_cached_key(|n| (n.state != NodeState::Itself, n.zone.clone(), n.id.clone()));
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
    match hint(&nodes) {
        Some(hint) => table::document(&format!("\n{hint}")),
        None => Ok(()),
    }
}

fn row(node: &NodeInfo) -> [String; 9] {
    let or_dash = |text: String| if text.is_empty() { "-".into() } else { text };
    let heard = match (node.state, node.since_ms) {
        (NodeState::Itself, _) | (_, 0) => "-".into(),
        (_, heard) => format!("{} ago", table::age(heard)),
    };
    let state = match (node.in_layout, node.admitted) {
        (true, _) => node.state.name().to_owned(),
        (false, true) => format!("{}, admitted", node.state.name()),
        (false, false) => format!("{}, no layout", node.state.name()),
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

/// Formats a capacity. A node without one is a gateway.
pub fn capacity(bytes: u64) -> String {
    match bytes {
        0 => "gateway".into(),
        _ => size::show(bytes),
    }
}

/// Returns a hint about nodes that are not in the layout.
fn hint(nodes: &[NodeInfo]) -> Option<String> {
    let idle = nodes
        .iter()
        .filter(|node| !node.in_layout && !node.admitted);
    // A node that does not answer would be one more copy that is lacking.
    let answers = |node: &&NodeInfo| matches!(node.state, NodeState::Alive | NodeState::Itself);
    let idle: Vec<&NodeInfo> = idle.filter(answers).collect();
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
    let capacity = missing(
        idle.iter().any(|n| n.capacity_bytes.is_none()),
        "--capacity 500GiB",
    );
    let nodes = shorts.join(" ");
    Some(format!(
        "Nodes outside the layout hold no data. To add them:\n  archipel layout assign {nodes}{zone}{capacity}\n  archipel layout show"
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
    fn node_outside_the_layout_is_marked_with_the_command_that_adds_it() {
        assert_eq!(row(&idle(None))[3], "alive, no layout");
        let hint = hint(&[idle(None)]).unwrap();
        assert!(
            hint.contains("archipel layout assign 0badcafe --zone ZONE --capacity 500GiB"),
            "{hint}"
        );
    }

    #[test]
    fn hint_omits_the_values_that_a_node_announced() {
        let node = NodeInfo {
            capacity_bytes: Some(1),
            ..idle(Some("paris"))
        };
        let hint = hint(&[node]).unwrap();
        assert!(hint.contains("assign 0badcafe\n"), "{hint}");
    }

    #[test]
    fn capacity_is_shown_as_all_sizes_are() {
        let shown = [0, 999, 500 << 30, 500_000_000_000].map(capacity);
        assert_eq!(shown, ["gateway", "999 B", "500.0 GiB", "465.7 GiB"]);
    }

    #[test]
    fn admitted_node_is_marked_and_not_named_by_the_hint() {
        let node = NodeInfo {
            admitted: true,
            ..idle(None)
        };
        assert_eq!(row(&node)[3], "alive, admitted");
        assert_eq!(hint(&[node]), None);
    }

    #[test]
    fn node_that_does_not_answer_is_not_named_by_the_hint() {
        for state in [NodeState::Suspected, NodeState::Gone] {
            let node = NodeInfo {
                state,
                ..idle(None)
            };
            assert_eq!(hint(&[node]), None);
        }
    }

    #[test]
    fn no_hint_without_idle_nodes() {
        let part = NodeInfo {
            in_layout: true,
            ..idle(None)
        };
        assert_eq!(hint(&[part]), None);
    }
}
