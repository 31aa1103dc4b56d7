//! Tests of valid and of invalid topologies.

use super::*;

fn node<'a>(nodes: &'a [Node], name: &str) -> &'a Node {
    nodes.iter().find(|node| node.name == name).unwrap()
}

#[test]
fn presets_are_valid() {
    for name in Topology::presets() {
        let topology = Topology::load(name).unwrap();
        assert_eq!(topology.name, name);
        let text = toml::to_string(&topology).unwrap();
        assert_eq!(
            Topology::parse(&text).unwrap().nodes().len(),
            topology.nodes().len()
        );
    }
}

#[test]
fn three_sites_preset_has_short_links_inside_and_long_links_between() {
    let topology = Topology::load("three-sites").unwrap();
    let nodes = topology.nodes();
    let near = topology.link(node(&nodes, "n1"), node(&nodes, "n2"));
    let far = topology.link(node(&nodes, "n1"), node(&nodes, "n3"));
    assert_eq!((near.latency, near.jitter), (250_000, 0));
    assert_eq!((far.latency, far.jitter), (50_000_000, 10_000_000));
    assert_eq!(node(&nodes, "client").role, Role::Client);
}

#[test]
fn nodes_may_be_counted_instead_of_named() {
    let nodes = Topology::load("hundred").unwrap().nodes();
    let storage = nodes.iter().filter(|node| node.role == Role::Storage);
    assert_eq!(storage.count(), 100);
    assert_eq!(
        (nodes[0].name.as_str(), nodes[0].site.as_str()),
        ("s1-1", "s1")
    );
}

#[test]
fn exceptions_override_general_properties() {
    let text = "name = 't'\n[between]\nrtt_ms = 10\nrate_mbit = 8\n\
        [[sites]]\nname = 's1'\nnodes = ['a']\n[[sites]]\nname = 's2'\nnodes = ['b']\n\
        [[links]]\nbetween = ['s1', 's2']\nquality = { loss = 0.5 }\n\
        [[links]]\nfrom = 'a'\nto = 's2'\nquality = { rtt_ms = 30 }\n";
    let topology = Topology::parse(text).unwrap();
    let nodes = topology.nodes();
    let there = topology.link(&nodes[0], &nodes[1]);
    let back = topology.link(&nodes[1], &nodes[0]);
    assert_eq!((there.latency, there.loss), (15_000_000, 0.5));
    assert_eq!((back.latency, back.loss), (5_000_000, 0.5));
    assert_eq!((there.rate_bits, there.queue_bytes), (8_000_000, 100_000));
}

#[test]
fn changes_keep_the_other_properties() {
    let old = Topology::load("lossy").unwrap().between.quality();
    let spec = LinkSpec {
        rtt_ms: Some(80.0),
        ..LinkSpec::default()
    };
    let new = spec.over(&old);
    assert_eq!(new.latency, 2 * old.latency);
    assert_eq!(
        (new.loss, new.rate_bits, new.queue_bytes),
        (old.loss, old.rate_bits, old.queue_bytes)
    );
}

#[test]
fn invalid_topologies_are_refused() {
    let site = "[[sites]]\nname = 's'\nnodes = ['a']\n";
    let refused = [
        "name = 't'\nsites = []".to_owned(),
        format!("name = 'a b'\n{site}"),
        format!("name = '../x'\n{site}"),
        format!("name = 't'\nmtu = 100\n{site}"),
        format!("name = 't'\nspeed = 3\n{site}"),
        format!("name = 't'\n[between]\nloss = 1.5\n{site}"),
        format!("name = 't'\n[between]\nrtt_ms = nan\n{site}"),
        format!("name = 't'\n[between]\nrtt_ms = 10\njitter_ms = 11\n{site}"),
        format!("name = 't'\ncarrier = 'bridge'\n[between]\nrtt_ms = 10\n{site}"),
        format!("name = 't'\n{site}{site}"),
        format!("name = 't'\n{site}[[links]]\nbetween = ['a', 'b']\nquality = {{}}\n"),
        format!("name = 't'\n{site}[[links]]\nfrom = 'a'\nquality = {{}}\n"),
        format!("name = 't'\n{site}[[links]]\nbetween = ['a', 's']\nquality = {{ rtt = 3 }}\n"),
    ];
    for text in refused {
        assert!(Topology::parse(&text).is_err(), "{text}");
    }
}
