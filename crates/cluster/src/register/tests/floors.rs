//! Floors: close, compare, agree; and what counts as gone.

use archipel_base::Stamp;

use super::Clock;
use crate::register::coordinator::{Operation, Outcome, Output, Start};
use crate::register::floor::{self, FloorAnswer, FloorOutput, FloorRequest, FloorRound, Floors};
use crate::register::message::{Answer, Request, Version};
use crate::register::quorum::Quorums;
use crate::register::replica::{self, Bounds, Cell, Recent};
use crate::register::rules::Rules;

fn stamp(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Default::default())
}

/// Drives a round over replicas whose rows are given by one number each.
fn run(floors: &mut [Floors], rows: &[u32]) -> FloorOutput {
    let quorums = Quorums::majority_of(floors.len());
    let (mut round, mut output) = FloorRound::new(Rules::CORRECT, quorums, stamp(100));
    while let FloorOutput::Ask(request) = output {
        for replica in round.waiting().iter() {
            let own = &mut floors[replica];
            let answer = floor::answer(Rules::CORRECT, own, 1, request, |_, _| rows[replica]);
            if let Some(next) = round.on_answer(replica, answer) {
                output = next;
                break;
            }
        }
    }
    output
}

#[test]
fn replicas_that_hold_the_same_agree() {
    let mut floors = vec![Floors::joining(1); 3];
    assert_eq!(run(&mut floors, &[7, 7, 7]), FloorOutput::Agreed);
    assert!(floors.iter().all(|f| f.agreed == stamp(100)));
}

#[test]
fn replicas_that_differ_close_and_do_not_agree() {
    let mut floors = vec![Floors::joining(1); 3];
    assert_eq!(run(&mut floors, &[7, 8, 7]), FloorOutput::Differ);
    assert!(floors.iter().all(|f| f.closed == stamp(100)));
    assert!(floors.iter().all(|f| f.agreed == Stamp::ZERO));
}

#[test]
fn while_one_is_away_the_floor_waits() {
    let (mut round, _) =
        FloorRound::<u32>::new(Rules::CORRECT, Quorums::majority_of(3), stamp(100));
    let closed = FloorAnswer::Closed {
        agreed: Stamp::ZERO,
        agreed_epoch: 0,
    };
    assert_eq!(round.on_answer(0, closed), None);
    assert_eq!(round.on_answer(1, closed), None);
    assert_eq!(round.waiting().iter().collect::<Vec<_>>(), vec![2]);
}

/// A replica that joined later had no part in what its elders agreed: it drops tombstones, but
/// goes on taking rows.
#[test]
fn a_newcomer_does_not_adopt_what_was_agreed_without_it() {
    let mut floors = Floors::joining(2);
    let compare = FloorRequest::Compare {
        floor: stamp(200),
        gone: stamp(100),
        gone_epoch: 1,
    };
    floors.closed = stamp(200);
    floor::answer(Rules::CORRECT, &mut floors, 2, compare, |_, gone| gone);
    assert_eq!((floors.gone, floors.agreed), (stamp(100), Stamp::ZERO));
}

#[test]
fn below_the_floor_tombstones_are_gone_and_writes_refused() {
    let mut floors = Floors::joining(1);
    floors.closed = stamp(100);
    floors.hear(stamp(100), 1);
    let bounds = Bounds::without_floors(1000, 0).with_floors(&floors);
    let tombstone = Cell::<u32> {
        promised: stamp(90),
        stamp: stamp(80),
        write: Default::default(),
        value: None,
    };
    assert_eq!(replica::above_floor(&tombstone, &bounds), Cell::default());
    let mut recent = Recent::forgotten(Rules::CORRECT, &tombstone, &bounds);
    let late = Version {
        stamp: stamp(95),
        write: Clock::new(1, 0).id(),
        value: Some(1),
    };
    let offered = late.clone();
    let taken = replica::spread(
        Rules::CORRECT,
        &bounds,
        &tombstone,
        &mut recent,
        offered,
        true,
    );
    assert_eq!(taken, None);
    let request = Request::Write {
        version: late,
        guarded: false,
    };
    let step = replica::step(
        Rules::CORRECT,
        &bounds,
        &tombstone,
        &mut recent,
        request,
        true,
    );
    let refused = Answer::Stale {
        highest: stamp(100),
    };
    assert_eq!((step.cell, step.answer), (None, refused));
}

/// A replica of three that told what it held, then took the tombstone that ended that, then agreed with the others that the tombstone
/// may go; and one that tells what it holds afterwards: nothing. Found by the model (`a delete, a floor, a slow read`).
fn a_slow_round() -> [(Version<u32>, bool, Floors); 2] {
    let before = Version {
        stamp: stamp(50),
        write: Clock::new(1, 0).id(),
        value: Some(1),
    };
    let (open, mut agreed) = (Floors::joining(1), Floors::joining(1));
    agreed.closed = stamp(100);
    agreed.hear(stamp(100), 1);
    [(before, true, open), (Version::absent(), false, agreed)]
}

#[test]
fn a_read_does_not_take_for_the_newest_what_was_told_before_a_floor() {
    let start = Start {
        rules: Rules::CORRECT,
        quorums: Quorums::majority_of(3),
    };
    let (mut read, _) = Operation::<u32>::read(start);
    let mut clock = Clock::new(2, 1000);
    let mut outputs = Vec::new();
    for (from, (version, live, floors)) in a_slow_round().into_iter().enumerate() {
        let answer = Answer::Found {
            version,
            live,
            floor: floors.gone,
            agreed: floors.agreed,
        };
        outputs = read.on_answer(from, 1, answer, &mut clock.next());
    }
    let nothing = Outcome::Value(Version::absent());
    assert_eq!(outputs, [Output::Done(nothing)]);
}

#[test]
fn an_update_does_not_decide_on_what_was_told_before_a_floor() {
    let start = Start {
        rules: Rules::CORRECT,
        quorums: Quorums::majority_of(3),
    };
    let mut clock = Clock::new(2, 1000);
    let id = clock.id();
    let (mut update, _) = Operation::<u32>::update(start, id, false, &mut clock.next());
    let mut outputs = Vec::new();
    for (from, (version, _, floors)) in a_slow_round().into_iter().enumerate() {
        let answer = Answer::Promised {
            version,
            accepted: Vec::new(),
            known_from: Stamp::ZERO,
            floor: floors.gone,
            agreed: floors.agreed,
        };
        outputs = update.on_answer(from, 1, answer, &mut clock.next());
    }
    assert_eq!(outputs, [Output::Decide(Version::absent())]);
}

/// Who only heard that tombstones are gone, and joined since, does not know what else there is.
#[test]
fn what_a_newcomer_lacks_is_not_gone() {
    let start = Start {
        rules: Rules::CORRECT,
        quorums: Quorums::majority_of(3),
    };
    let [(live, ..), (nothing, _, floors)] = a_slow_round();
    let (mut read, _) = Operation::<u32>::read(start);
    let mut clock = Clock::new(2, 1000);
    let mut answer = |from, version, live, agreed| {
        let answer = Answer::Found {
            version,
            live,
            floor: floors.gone,
            agreed,
        };
        read.on_answer(from, 1, answer, &mut clock.next())
    };
    answer(0, live.clone(), true, floors.agreed);
    let outputs = answer(1, nothing, false, Stamp::ZERO);
    let writes_back = |output: &Output<u32>| matches!(output, Output::Send { request: Request::Write { version, .. }, .. } if *version == live);
    assert!(
        !outputs.is_empty() && outputs.iter().all(writes_back),
        "{outputs:?}"
    );
}
