//! Layouts and their succession, with the cases that the simulator found.

use archipel_base::Stamp;

use super::Clock;
use crate::register::coordinator::{Operation, Output, Start};
use crate::register::epoch::{Config, Fence, Retirement, fence};
use crate::register::message::{Answer, Version};
use crate::register::quorum::{Quorums, ReplicaSet};
use crate::register::replica::{self, Bounds, Cell, Recent};
use crate::register::rules::Rules;

#[test]
fn a_quorum_is_a_majority_of_every_live_version() {
    let old: ReplicaSet = [0, 1, 2].into_iter().collect();
    let new: ReplicaSet = [0, 3, 4].into_iter().collect();
    let quorums = Quorums::of_versions(vec![old, new]);
    let is_quorum = |set: &[usize]| quorums.is_quorum(set.iter().copied().collect());
    assert!(is_quorum(&[0, 1, 3]));
    assert!(!is_quorum(&[0, 1, 2]));
    assert!(!is_quorum(&[0, 3, 4]));
    assert!(quorums.is_blocked_by([1, 2].into_iter().collect()));
    assert!(!Quorums::of_versions(Vec::new()).is_quorum(old));
}

/// Found by the simulator: a store left a layout and came back later under its old name. It brought
/// rows whose tombstones were gone.
#[test]
fn a_returning_store_gets_a_new_incarnation() {
    let first = Config::first(vec!["a", "b", "c"]);
    let both = first.with_next(vec!["a", "b", "d"]);
    assert_eq!(both.incarnation_of(&"a"), first.incarnation_of(&"a"));
    assert_eq!(both.incarnation_of(&"c"), first.incarnation_of(&"c"));
    let second = both.without_oldest().expect("two versions are live");
    assert_eq!(second.incarnation_of(&"c"), None);
    let back = second.with_next(vec!["a", "b", "c"]);
    assert!(back.incarnation_of(&"c") > first.incarnation_of(&"c"));
    let mut numbers: Vec<u64> = back.members().iter().map(|m| m.incarnation).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 4);
}

/// Found by the simulator: a node that had missed several layouts knew none of the replicas any
/// more. It ignored the news of newer layouts, because the nodes that told it were no replicas to
/// it.
#[test]
fn any_node_may_report_a_newer_layout() {
    let start = Start {
        rules: Rules::CORRECT,
        quorums: Quorums::majority_of(3),
    };
    let (mut operation, _) = Operation::<u32>::read(start);
    let mut clock = Clock::new(1, 1000);
    let told = Answer::Superseded { epoch: 7 };
    let outputs = operation.on_answer(63, operation.round(), told, &mut clock.next());
    assert_eq!(outputs, vec![Output::Refresh { epoch: 7 }]);
}

#[test]
fn requests_of_an_earlier_epoch_are_fenced_off() {
    assert_eq!(fence(Rules::CORRECT, 2, 1), Fence::Superseded);
    assert_eq!(fence(Rules::CORRECT, 2, 2), Fence::Pass);
    assert_eq!(fence(Rules::CORRECT, 2, 3), Fence::Learn);
}

#[test]
fn a_version_retires_after_a_majority_listed_and_all_rows_were_read() {
    let mut work = Retirement::new(ReplicaSet::first(3));
    work.on_listed(0, ["x", "y"]);
    assert!(!work.is_complete(Rules::CORRECT));
    work.on_read("x");
    work.on_listed(1, ["x"]);
    assert_eq!(work.next_key(), Some("y"));
    assert!(!work.is_complete(Rules::CORRECT));
    work.on_read("y");
    assert!(work.is_complete(Rules::CORRECT));
}

/// Found while the simulator was written: a row whose holder restarted after a promise could spread
/// to no replica. A version that a quorum holds may pass a promise. A minority's version may not.
#[test]
fn only_a_version_that_a_quorum_holds_passes_a_promise() {
    let stamp = |millis| Stamp::new(millis, 0, Default::default());
    let cell = Cell::<u32> {
        promised: stamp(20),
        ..Cell::default()
    };
    let version = Version {
        stamp: stamp(10),
        write: Default::default(),
        value: Some(1),
    };
    let bounds = Bounds::without_floors(1000, 0);
    let mut recent = Recent::forgotten(Rules::CORRECT, &cell, &bounds);
    let mut spread = |settled| {
        let version = version.clone();
        replica::spread(
            Rules::CORRECT,
            &bounds,
            &cell,
            &mut recent,
            version,
            settled,
        )
    };
    assert_eq!(spread(false), None);
    let taken = spread(true).expect("it is accepted");
    assert_eq!((taken.stamp, taken.promised), (stamp(10), stamp(20)));
}
