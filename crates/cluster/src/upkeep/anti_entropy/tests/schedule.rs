//! When passes are due.

use std::collections::BTreeMap;

use archipel_base::NodeId;

use super::super::schedule::{Ended, Schedule};

const INTERVAL: u64 = 600_000;

fn node(n: u8) -> NodeId {
    NodeId([n; 32])
}

fn peers(of: &[(u8, bool)]) -> BTreeMap<NodeId, bool> {
    of.iter().map(|(n, away)| (node(*n), *away)).collect()
}

#[test]
fn new_or_returned_node_is_due_soon_and_a_suspected_one_never() {
    let mut schedule = Schedule::default();
    let mut chance = || 1000;
    schedule.follow(0, &peers(&[(1, false), (2, true)]), &mut chance);
    assert_eq!(schedule.start(0), None);
    assert_eq!(schedule.start(5000), Some(node(1)));
    assert_eq!(schedule.start(5000), None, "one pass at a time with each");
    schedule.ended(&node(1), 6000, Ended::Whole, INTERVAL, &mut chance);
    schedule.follow(7000, &peers(&[(1, false), (2, false)]), &mut chance);
    assert_eq!(schedule.start(12_000), Some(node(2)), "it is back");
    assert_eq!(schedule.start(12_000), None, "the other has time");
    schedule.hurry(&node(1));
    schedule.follow(13_000, &peers(&[(1, false), (2, false)]), &mut chance);
    assert_eq!(schedule.start(18_000), Some(node(1)), "it was called for");
}

/// The pass under way may have compared what the next one is asked for.
#[test]
fn pass_that_is_asked_for_during_another_comes_soon() {
    let mut schedule = Schedule::default();
    let mut chance = || 0;
    let here = peers(&[(1, false)]);
    schedule.follow(0, &here, &mut chance);
    assert_eq!(schedule.start(0), Some(node(1)));
    schedule.hurry(&node(1));
    schedule.follow(1000, &here, &mut chance);
    schedule.ended(&node(1), 2000, Ended::Whole, INTERVAL, &mut chance);
    schedule.follow(3000, &here, &mut chance);
    let (_, _, wait) = schedule.look(&node(1), 3000).unwrap();
    assert!(wait <= 5000, "{wait}");
}

/// The driver was ended by a panic. Its passes ended with it, and no other node does their work.
#[test]
fn passes_of_a_driver_that_begins_again_are_due() {
    let mut schedule = Schedule::default();
    let mut chance = || 0;
    schedule.follow(0, &peers(&[(1, false)]), &mut chance);
    assert_eq!(schedule.start(60_000), Some(node(1)));
    assert_eq!(schedule.start(60_000), None);
    schedule.forget_running();
    assert_eq!(schedule.start(60_000), Some(node(1)));
}

#[test]
fn failed_pass_is_retried_soon_and_then_less_and_less_often() {
    for setback in [Ended::Failed, Ended::Stuck] {
        let mut schedule = Schedule::default();
        let mut chance = || 0;
        schedule.follow(0, &peers(&[(1, false)]), &mut chance);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let (_, _, wait) = schedule.look(&node(1), now).unwrap();
            now += wait;
            assert_eq!(schedule.start(now), Some(node(1)));
            schedule.ended(&node(1), now, setback, INTERVAL, &mut chance);
            waits.push(wait);
        }
        assert!(waits.windows(2).all(|two| two[0] <= two[1]), "{waits:?}");
        let (_, _, last) = schedule.look(&node(1), now).unwrap();
        assert!(last <= INTERVAL && last > INTERVAL / 2, "{last}");
        schedule.ended(&node(1), now, Ended::Partly, INTERVAL, &mut chance);
        let (_, _, soon) = schedule.look(&node(1), now).unwrap();
        assert!(soon < 20_000, "{soon}");
    }
}

/// A client that waits for the pass must not find that nothing goes on before it begins.
#[test]
fn schedule_is_busy_from_the_request_to_the_end_of_the_pass() {
    let mut schedule = Schedule::default();
    let mut chance = || 1000;
    let here = peers(&[(1, false)]);
    schedule.follow(0, &here, &mut chance);
    assert!(schedule.is_busy(), "a new node");
    assert_eq!(schedule.start(5000), Some(node(1)));
    schedule.ended(&node(1), 6000, Ended::Whole, INTERVAL, &mut chance);
    assert!(!schedule.is_busy());
    schedule.hurry_all();
    assert!(schedule.is_busy());
    schedule.follow(7000, &here, &mut chance);
    assert!(schedule.is_busy());
    assert_eq!(schedule.start(12_000), Some(node(1)));
    assert!(schedule.is_busy());
    schedule.ended(&node(1), 13_000, Ended::Failed, INTERVAL, &mut chance);
    assert!(!schedule.is_busy());
    schedule.hurry_all();
    schedule.follow(14_000, &peers(&[(1, true)]), &mut chance);
    assert!(!schedule.is_busy(), "it waits for the node to come back");
}
