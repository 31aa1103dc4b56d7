//! An unreachable node is suspected soon, and no other node is.

use super::*;

fn settled(nodes: usize, seed: u64, loss: u64) -> World {
    let mut world = World::new(nodes, seed);
    world.loss = loss;
    world.run(15_000);
    world
}

#[test]
fn dead_node_is_suspected_by_all_within_five_seconds() {
    for nodes in [3, 10, 100] {
        for seed in 0..4 {
            let mut world = settled(nodes, seed, 10);
            assert_eq!(world.who_suspects(1), Vec::<usize>::new());
            world.kill(1);
            world.run(5_000);
            assert_eq!(world.who_suspects(1).len(), nodes - 1, "{nodes} nodes");
            assert_eq!(world.wrongly_suspected(), BTreeSet::new());
        }
    }
}

#[test]
fn lost_messages_make_no_node_suspected() {
    for (nodes, seconds) in [(3, 600), (10, 300), (100, 30)] {
        let mut world = settled(nodes, 11, 10);
        for second in 0..seconds {
            world.run(1_000);
            let wrong = world.wrongly_suspected();
            assert!(wrong.is_empty(), "{nodes} nodes, {second} s: {wrong:?}");
        }
    }
}

#[test]
fn half_of_all_nodes_may_die_at_once() {
    let mut world = settled(20, 3, 0);
    (0..10).for_each(|n| world.kill(n));
    world.run(5_000);
    (0..10).for_each(|n| assert_eq!(world.who_suspects(n).len(), 10));
    world.run(60_000);
    assert_eq!(world.wrongly_suspected(), BTreeSet::new());
}

#[test]
fn node_that_comes_back_is_soon_seen_as_another_run() {
    for nodes in [3, 10, 100] {
        let mut world = settled(nodes, 2, 10);
        world.kill(1);
        world.run(20_000);
        world.restart(1);
        world.run(5_000);
        assert_eq!(world.wrongly_suspected(), BTreeSet::new(), "{nodes} nodes");
        for n in (0..nodes).filter(|n| *n != 1) {
            let now = world.now;
            let all = world.members(n).members(now);
            let back = all.iter().find(|member| member.id == id(1)).unwrap();
            assert_eq!((back.generation, back.suspected), (2, false));
            assert!(back.since_ms_ago <= 5_000, "{}", back.since_ms_ago);
        }
    }
}

#[test]
fn restart_within_a_second_makes_no_node_suspected() {
    let mut world = settled(10, 5, 0);
    world.kill(4);
    world.run(1_000);
    world.restart(4);
    for _ in 0..10 {
        world.run(1_000);
        assert_eq!(world.who_suspects(4), Vec::<usize>::new());
    }
}

#[test]
fn seed_may_die_and_come_back() {
    let mut world = settled(5, 6, 0);
    world.kill(0);
    world.run(30_000);
    world.restart(0);
    world.run(5_000);
    assert!(world.all_know_all());
    assert_eq!(world.wrongly_suspected(), BTreeSet::new());
}

/// A node with company still asks a seed from time to time. Otherwise nodes that met elsewhere
/// would never find it.
#[test]
fn nodes_that_met_elsewhere_find_the_seed_when_it_starts() {
    let mut world = World::new(4, 8);
    world.kill(0);
    world.acquaint(1, 2);
    world.run(30_000);
    assert_eq!(world.who_suspects(1), vec![3]);
    world.restart(0);
    world.run(15_000);
    assert!(world.all_know_all());
}

/// Only the direction from 1 to 2 is cut: calls between them fail, both live.
#[test]
fn link_cut_in_one_direction_makes_no_third_node_suspected() {
    let mut world = settled(5, 7, 0);
    world.cuts.insert((1, 2));
    for _ in 0..60 {
        world.run(1_000);
        assert!(world.who_suspects(1).iter().all(|n| *n == 2));
        assert!(world.who_suspects(2).iter().all(|n| *n == 1));
    }
    world.cuts.clear();
    world.run(5_000);
    assert_eq!(world.wrongly_suspected(), BTreeSet::new());
}

/// A node asks another one last if it cannot reach it, even if others say that it lives. It soon
/// hears when it can reach it again.
#[test]
fn node_that_cannot_be_reached_from_here_is_suspected_here() {
    let mut world = settled(3, 7, 0);
    world.cuts.extend([(1, 2), (2, 1)]);
    world.run(15_000);
    assert_eq!(world.who_suspects(2), vec![1]);
    assert_eq!(world.who_suspects(1), vec![2]);
    assert_eq!(world.who_suspects(0), Vec::<usize>::new());
    world.cuts.clear();
    world.run(5_000);
    assert_eq!(world.wrongly_suspected(), BTreeSet::new());
}

#[test]
fn zone_that_is_cut_off_is_suspected_until_it_is_back() {
    let mut world = settled(30, 9, 0);
    for inside in 0..10 {
        for outside in 10..30 {
            world.cuts.extend([(inside, outside), (outside, inside)]);
        }
    }
    world.run(5_000);
    assert_eq!(world.who_suspects(0), (10..30).collect::<Vec<_>>());
    assert_eq!(world.who_suspects(20), (0..10).collect::<Vec<_>>());
    world.run(600_000);
    assert_eq!(world.who_suspects(0), (10..30).collect::<Vec<_>>());
    world.cuts.clear();
    world.run(6_000);
    assert_eq!(world.wrongly_suspected(), BTreeSet::new());
}

/// A node that stands still is suspected meanwhile. When it continues, it suspects no node.
#[test]
fn node_that_stood_still_suspects_no_other_node() {
    for nodes in [3, 10] {
        let mut world = settled(nodes, 12, 0);
        world.pause(1, 30_000);
        world.run(6_000);
        assert_eq!(world.who_suspects(1).len(), nodes - 1);
        world.run(24_000);
        for _ in 0..100 {
            world.run(100);
            for other in (0..nodes).filter(|n| *n != 1) {
                assert!(!world.who_suspects(other).contains(&1));
            }
        }
        assert_eq!(world.who_suspects(1), Vec::<usize>::new());
    }
}

/// A round trip takes 1.6 to 2.4 seconds. Most calls time out, yet there are signs of life of both.
#[test]
fn slow_link_makes_no_node_suspected() {
    let mut world = settled(3, 13, 0);
    world.latency_ms = 800;
    for _ in 0..120 {
        world.run(1_000);
        assert_eq!(world.wrongly_suspected(), BTreeSet::new());
    }
}

/// Late and indirect news of dead nodes revive none of them.
#[test]
fn old_news_revives_no_node() {
    let mut world = settled(6, 14, 0);
    // From now on 5 hears only 4, and 4 hears no node.
    for far in [4, 5] {
        for other in 0..4 {
            world.cuts.extend([(far, other), (other, far)]);
        }
    }
    world.run(2_000);
    world.kill(5);
    world.run(20_000);
    world.cuts.clear();
    for _ in 0..100 {
        world.run(100);
        assert!(world.who_suspects(5).len() == 5);
    }
    assert_eq!(world.wrongly_suspected(), BTreeSet::new());
}

#[test]
fn leaving_node_is_suspected_at_once() {
    let mut world = settled(10, 15, 0);
    world.members(3).leave();
    world.run(1_500);
    world.kill(3);
    world.run(1_000);
    assert_eq!(world.who_suspects(3).len(), 9);
    world.restart(3);
    world.run(3_000);
    assert_eq!(world.who_suspects(3), Vec::<usize>::new());
}

#[test]
fn three_failed_calls_without_a_sign_of_life_make_a_node_suspected() {
    let (mut here, mut other) = (alone(0), alone(1));
    acquaint(&mut here, &mut other, 10_000);
    assert!(!here.is_suspected(&id(1)));
    (0..2).for_each(|_| here.report(&id(1), false, 10_100));
    assert!(!here.is_suspected(&id(1)));
    here.report(&id(1), false, 10_100);
    assert!(here.is_suspected(&id(1)));
    here.report(&id(1), true, 10_200);
    assert!(!here.is_suspected(&id(1)));
}
