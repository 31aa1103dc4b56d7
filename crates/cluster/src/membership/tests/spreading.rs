//! News reaches every node, soon, at a bounded cost.

use super::*;

/// Returns how many seconds pass until all nodes know all others.
fn seconds_to_know(world: &mut World) -> u64 {
    let mut seconds = 0;
    while !world.all_know_all() {
        assert!(seconds < 30, "not all know all after {seconds} seconds");
        world.run(1_000);
        seconds += 1;
    }
    seconds
}

#[test]
fn all_nodes_soon_know_one_another() {
    for (nodes, bound) in [(2, 2), (3, 3), (10, 5), (100, 8)] {
        for seed in 0..3 {
            let mut world = World::new(nodes, seed);
            world.loss = 10;
            let seconds = seconds_to_know(&mut world);
            assert!(seconds <= bound, "{nodes} nodes: {seconds} seconds");
        }
    }
}

/// A hundred nodes of which a message names 25 are like a thousand of which it names 256: suspicion
/// takes four times as long.
#[test]
fn more_nodes_than_a_message_holds_know_one_another() {
    let mut world = World::new(100, 1);
    world.set_max_lines(25);
    world.loss = 10;
    let seconds = seconds_to_know(&mut world);
    assert!(seconds <= 25, "{seconds} seconds");
    world.run(20_000);
    for second in 0..60 {
        world.run(1_000);
        assert_eq!(world.wrongly_suspected(), BTreeSet::new(), "{second}");
    }
    world.kill(7);
    world.run(17_000);
    assert_eq!(world.who_suspects(7).len(), 99);
}

#[test]
fn changed_node_info_reaches_every_node() {
    let mut world = World::new(30, 4);
    world.loss = 10;
    world.run(10_000);
    world.members(17).change(|info| info.epoch = 9);
    world.run(6_000);
    for n in 0..30 {
        let now = world.now;
        let all = world.members(n).members(now);
        assert!(all.iter().any(|m| m.id == id(17) && m.info.epoch == 9));
    }
}

#[test]
fn unchanged_node_info_keeps_its_revision() {
    let mut node = alone(0);
    let before = node.edition;
    node.change(|info| info.epoch = 0);
    assert_eq!(node.edition, before);
    node.change(|info| info.epoch = 1);
    assert!(node.edition > before);
}

/// There are three exchanges a second and node at most. Bytes grow with the nodes until a message
/// holds no more lines, and then stay the same.
#[test]
fn cost_of_gossip_is_bounded() {
    let cost = |nodes: usize, max_lines: usize| {
        let mut world = World::new(nodes, 1);
        world.set_max_lines(max_lines);
        world.run(20_000);
        world.take_costs();
        world.measuring = true;
        world.run(3_000);
        let (most, mean, asked) = world.take_costs();
        assert!(asked <= 10, "{nodes} nodes: {asked} exchanges in 3 s");
        println!(
            "{nodes} nodes, {max_lines} lines: {mean} bytes/s, the busiest {most}",
            mean = mean / 3,
            most = most / 3
        );
        (most / 3, mean / 3)
    };
    for (nodes, bytes_per_second) in [(3, 400), (10, 1_500), (100, 15_000)] {
        let (most, _) = cost(nodes, 256);
        assert!(most <= bytes_per_second, "{nodes} nodes: {most}");
    }
    let (_, few) = cost(50, 25);
    let (_, many) = cost(150, 25);
    assert!(many * 10 <= few * 12, "{few}, {many}");
}
