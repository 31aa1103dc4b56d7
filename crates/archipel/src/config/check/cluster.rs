//! `[cluster]`

use std::net::SocketAddr;

use archipel_cluster::layout::{MAX_NODES, MAX_REPLICAS, is_zone_name};
use archipel_net::dual::{host_and_port, is_tcp};

use super::event_targets::shown;
use super::{Check, file};
use crate::config::{Cluster, Discovery, Network, Transport, discover, secret};

/// The fix of an address at which no node can be reached.
const REACHABLE: &str = "name the addresses at which other nodes reach this one, such as [\"198.51.100.7:3901\"] or [\"nas.example.org:3901\"]";

impl Check {
    pub(super) fn cluster(&mut self, cluster: &file::Cluster) -> Cluster {
        let zone = cluster.zone.clone().unwrap_or_else(|| "local".into());
        if !is_zone_name(&zone) {
            let fix =
                "use 1 to 64 letters, digits, hyphens, underscores and dots, such as \"home\"";
            self.problem("cluster.zone", Some(zone.clone()), "not a zone name", fix);
        }
        let transport = cluster.transport.as_deref();
        let transport = self.choice("cluster.transport", transport, &Transport::NAMES);
        let network = match &cluster.listen {
            Some(listen) => self.network(cluster, listen, transport),
            None => {
                let needs = [
                    ("join", !cluster.join.is_empty()),
                    ("advertise", !cluster.advertise.is_empty()),
                    ("discover", !cluster.discover.is_empty()),
                    (
                        "first_nodes",
                        cluster.first_nodes.is_some_and(|nodes| nodes > 1),
                    ),
                ];
                for (key, _) in needs.iter().filter(|(_, set)| *set) {
                    let fix = "set cluster.listen, such as \"[::]:3901\"";
                    let why = format!("cluster.{key} needs cluster.listen, which is missing");
                    self.problem("cluster.listen", None, &why, fix);
                }
                None
            }
        };
        Cluster { network, zone }
    }

    fn network(
        &mut self,
        cluster: &file::Cluster,
        listen: &str,
        transport: Transport,
    ) -> Option<Network> {
        let listen = self.address("cluster.listen", listen);
        for (key, addresses) in [("join", &cluster.join), ("advertise", &cluster.advertise)] {
            for address in addresses {
                self.host_and_port(&format!("cluster.{key}"), address);
            }
        }
        for address in cluster.advertise.iter().filter(|address| is_tcp(address)) {
            let why = "cluster.transport already decides the transport";
            let fix = "write only host and port, and select the transport with cluster.transport";
            self.problem("cluster.advertise", Some(address.clone()), why, fix);
        }
        let everywhere = |address: &&String| is_unspecified(address);
        for address in cluster.advertise.iter().filter(everywhere) {
            let why = "it stands for all interfaces of this machine: no other node can dial it";
            self.problem("cluster.advertise", Some(address.clone()), why, REACHABLE);
        }
        let (first_nodes, first_replicas) = self.first_layout(cluster);
        let discover = self.discover(cluster);
        if cluster.secret_file.is_none() {
            let fix = "name a file with the same content on all nodes; make it with: head -c 32 /dev/urandom | base64";
            let why = "cluster.listen needs a secret";
            self.problem("cluster.secret_file", None, why, fix);
        }
        let previous = cluster.previous_secret_file.as_deref();
        // A short one can be changed with it.
        let previous_secret = self.token("cluster.previous_secret_file", previous);
        let (file, least) = (&cluster.secret_file, secret::MIN_CLUSTER_SECRET_CHARS);
        let secret = self.secret("cluster.secret_file", file.as_deref(), least);
        let advertise = if !cluster.advertise.is_empty() {
            cluster.advertise.clone()
        } else if !listen.ip().is_unspecified() {
            vec![listen.to_string()]
        } else {
            let why =
                "cluster.listen covers all interfaces, so the address for other nodes is unknown";
            self.problem("cluster.advertise", None, why, REACHABLE);
            Vec::new()
        };
        Some(Network {
            listen,
            advertise,
            // All problems are found first.
            secret: secret?,
            previous_secret,
            join: cluster.join.clone(),
            discover,
            first_nodes,
            first_replicas,
            transport,
            zone: cluster.zone.clone(),
        })
    }

    fn host_and_port(&mut self, key: &str, address: &str) {
        let parts = host_and_port(address).rsplit_once(':');
        let fine = parts.is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !fine || address.len() > 250 {
            let fix =
                "write host and port, such as \"nas.example.org:3901\" or \"[2001:db8::7]:3901\"";
            self.problem(key, Some(address.into()), "not a host with a port", fix);
        }
    }

    /// Returns the number of nodes that form the first layout by themselves, and its replicas.
    fn first_layout(&mut self, cluster: &file::Cluster) -> (Option<u16>, Option<u8>) {
        let nodes = cluster.first_nodes;
        let finds = !cluster.join.is_empty() || !cluster.discover.is_empty();
        if nodes == Some(1) && finds {
            let fix = "remove cluster.first_nodes from nodes that join a cluster, or give all nodes the number of nodes that begin together";
            let why = "each node would found a cluster of its own, also one that starts later";
            self.problem("cluster.first_nodes", Some("1".into()), why, fix);
        }
        if let Some(alone) = nodes.filter(|nodes| *nodes > 1 && !finds) {
            let fix = "name the other nodes in cluster.join, or a source in cluster.discover";
            let why = "this node is not told where the others are, and whether a cluster is there already";
            self.problem("cluster.first_nodes", Some(alone.to_string()), why, fix);
        }
        if let Some(wrong) = nodes.filter(|nodes| !(1..=MAX_NODES).contains(&usize::from(*nodes))) {
            let fix = format!("the number of nodes that begin together, from 1 to {MAX_NODES}");
            let key = "cluster.first_nodes";
            self.problem(key, Some(wrong.to_string()), "not a number of nodes", &fix);
        }
        let most = usize::from(nodes.unwrap_or(1)).min(MAX_REPLICAS);
        if let Some(replicas) = cluster.first_replicas
            && !(1..=most).contains(&replicas.into())
        {
            let fix = format!(
                "a number from 1 to {most}: the replicas are on different nodes of cluster.first_nodes"
            );
            let key = "cluster.first_replicas";
            self.problem(
                key,
                Some(replicas.to_string()),
                "not a number of replicas",
                &fix,
            );
        }
        (nodes.filter(|nodes| *nodes > 1), cluster.first_replicas)
    }

    fn discover(&mut self, cluster: &file::Cluster) -> Vec<Discovery> {
        let token = cluster.discover_token_file.as_deref();
        let token = self.token("cluster.discover_token_file", token);
        let parsed = cluster.discover.iter().filter_map(|source| {
            let parsed = Discovery::parse(source, token.clone());
            let refused = |why| {
                self.problem(
                    "cluster.discover",
                    Some(shown(source)),
                    why,
                    discover::FORMS,
                )
            };
            parsed.map_err(refused).ok()
        });
        parsed.collect()
    }
}

/// Returns true for an address of all interfaces, such as `0.0.0.0:3901` and `[::]:3901`. A node can
/// listen there, and none can be dialled there.
pub fn is_unspecified(address: &str) -> bool {
    let address = host_and_port(address);
    // Resolvers read the host `0` as `0.0.0.0`. People write `*` for it.
    let host = address.rsplit_once(':').map(|(host, _)| host);
    let parsed = address.parse::<SocketAddr>();
    matches!(host, Some("0" | "*"))
        || parsed.is_ok_and(|address| address.ip().to_canonical().is_unspecified())
}
