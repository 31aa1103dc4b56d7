//! Metrics about other nodes: members, calls, connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use archipel_base::NodeId;
use archipel_net::PeerStatistics;
use archipel_net::rpc::MethodCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{gauge, lookups};
use crate::network::Links;

/// The collector.
pub(super) struct Peers(pub Links);

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peers")
    }
}

impl Collector for Peers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let members = self.0.members.list();
        let away = members.iter().filter(|member| member.suspected).count();
        let about = "Known nodes, this one included";
        gauge(
            &mut encoder,
            "archipel_members",
            about,
            members.len() as f64,
        )?;
        let about = "Nodes that are suspected to be down";
        gauge(
            &mut encoder,
            "archipel_members_suspected",
            about,
            away as f64,
        )?;
        let correction = self.0.members.clock().correction_millis();
        let about =
            "The correction of this node's clock towards the majority of nodes; 0 if it is right";
        gauge(
            &mut encoder,
            "archipel_clock_correction_seconds",
            about,
            correction as f64 / 1000.0,
        )?;
        lookups::encode(&self.0.lookups, &mut encoder)?;
        self.calls(&mut encoder)?;
        let known: BTreeSet<NodeId> = members.iter().map(|member| member.id).collect();
        let mut peers = self.0.rpc.transport().statistics();
        // Anybody with the cluster's secret connects under any number of names.
        peers.retain(|peer| known.contains(&peer.peer));
        connections(&peers, &mut encoder)
    }
}

impl Peers {
    fn calls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        type Pick = fn(&MethodCounts) -> u64;
        let kinds: [(&str, &str, Pick); 3] = [
            ("archipel_calls_made", "Calls to other nodes", |c| c.made),
            (
                "archipel_calls_failed",
                "Calls to other nodes that failed",
                |c| c.failed,
            ),
            ("archipel_calls_served", "Calls from other nodes", |c| {
                c.served
            }),
        ];
        let counts = self.0.rpc.counts();
        for (name, about, pick) in kinds {
            let mut family = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
            for (method, counts) in &counts {
                let labels = [("method", method.as_str())];
                let counter = ConstCounter::new(pick(counts));
                counter.encode(family.encode_family(&labels)?)?;
            }
        }
        let about = "Calls to other nodes in progress";
        gauge(
            encoder,
            "archipel_calls_in_flight",
            about,
            self.0.rpc.in_flight() as f64,
        )
    }
}

/// Encodes the statistics of peers. A figure that is not known of a peer is absent.
fn connections(
    peers: &[PeerStatistics],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    type Pick = fn(&PeerStatistics) -> Option<f64>;
    let kinds: [(&str, &str, MetricType, Pick); 5] = [
        (
            "archipel_peer_connections",
            "Connections to a node",
            MetricType::Gauge,
            |p| Some(p.connections as f64),
        ),
        (
            "archipel_peer_round_trip_seconds",
            "Round trip to a node",
            MetricType::Gauge,
            |p| p.round_trip.map(|time| time.as_secs_f64()),
        ),
        (
            "archipel_peer_sent_bytes",
            "Bytes sent to a node",
            MetricType::Gauge,
            |p| Some(p.sent_bytes as f64),
        ),
        (
            "archipel_peer_received_bytes",
            "Bytes received from a node",
            MetricType::Gauge,
            |p| Some(p.received_bytes as f64),
        ),
        (
            "archipel_peer_lost_packets",
            "Lost packets to a node",
            MetricType::Gauge,
            |p| Some(p.lost_packets as f64),
        ),
    ];
    let labels = labels(peers);
    for (name, about, kind, pick) in kinds {
        let mut family = encoder.encode_descriptor(name, about, None, kind)?;
        for (peer, label) in peers.iter().zip(&labels) {
            let Some(value) = pick(peer) else {
                continue;
            };
            let labels = [("peer", label.as_str())];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Returns the label of each peer: its short name, or its whole one where two have the same short
/// one. A series that stands there twice makes a scraper refuse all of them.
fn labels(peers: &[PeerStatistics]) -> Vec<String> {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for peer in peers {
        *named.entry(peer.peer.short()).or_default() += 1;
    }
    let label = |peer: &PeerStatistics| {
        let short = peer.peer.short();
        match named.get(&short) {
            Some(1) => short,
            _ => peer.peer.to_string(),
        }
    };
    peers.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Known(PeerStatistics);

    impl Collector for Known {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            connections(std::slice::from_ref(&self.0), &mut encoder)
        }
    }

    #[test]
    fn what_is_not_known_of_a_peer_has_no_sample() {
        let text = |peer| {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(Known(peer)));
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let unknown = text(PeerStatistics::default());
        assert!(
            unknown.contains("archipel_peer_connections{peer="),
            "{unknown}"
        );
        assert!(!unknown.contains("round_trip_seconds{"), "{unknown}");
        let known = text(PeerStatistics {
            round_trip: Some(std::time::Duration::from_millis(500)),
            ..PeerStatistics::default()
        });
        let sample = "archipel_peer_round_trip_seconds{peer=\"00000000\"} 0.5";
        assert!(known.contains(sample), "{known}");
    }

    #[test]
    fn peers_with_the_same_short_name_have_labels_of_their_own() {
        let peer = |first: u8, last: u8| {
            let mut peer = PeerStatistics::default();
            (peer.peer.0[0], peer.peer.0[31]) = (first, last);
            peer
        };
        let labels = labels(&[peer(1, 1), peer(2, 1), peer(2, 2)]);
        assert_eq!(labels[0], "01000000");
        let zeros = "0".repeat(60);
        assert_eq!(
            labels[1..],
            [format!("02{zeros}01"), format!("02{zeros}02")]
        );
    }
}
