//! Floors: close, compare, freeze, agree, and the rows that count as gone.

use std::convert::Infallible;

use archipel_base::Stamp;

use super::Clock;
use crate::register::coordinator::{Operation, Outcome, Output, Start};
use crate::register::floor::{self, FloorAnswer, FloorOutput, FloorRequest, FloorRound, Floors};
use crate::register::message::{Answer, Request, Version};
use crate::register::quorum::Quorums;
use crate::register::replica::{self, Bounds, Cell, Recent};
use crate::register::rules::{Mutant, Rules};

fn stamp(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Default::default())
}

/// Drives a round over replicas. One number stands for each replica's rows.
fn run(floors: &mut [Floors], rows: &[u32]) -> FloorOutput<u32> {
    let quorums = Quorums::majority_of(floors.len());
    let (mut round, mut output) = FloorRound::new(Rules::CORRECT, quorums, stamp(100));
    while let FloorOutput::Ask(request) = output {
        for replica in round.waiting().iter() {
            let own = &mut floors[replica];
            let digest = |_, _| Ok::<_, Infallible>(rows[replica]);
            let Ok(answer) = floor::answer(Rules::CORRECT, own, 1, request, digest);
            if let Some(next) = round.on_answer(replica, answer) {
                output = next;
                break;
            }
        }
    }
    output
}

#[test]
fn replicas_with_equal_rows_agree() {
    let mut floors = vec![Floors::joining(1); 3];
    assert_eq!(run(&mut floors, &[7, 7, 7]), FloorOutput::Agreed);
    assert!(floors.iter().all(|f| f.agreed == stamp(100)));
}

#[test]
fn replicas_with_different_rows_close_and_do_not_agree() {
    let mut floors = vec![Floors::joining(1); 3];
    assert_eq!(run(&mut floors, &[7, 8, 7]), FloorOutput::Differ);
    assert!(floors.iter().all(|f| f.closed == stamp(100)));
    assert!(floors.iter().all(|f| f.agreed == Stamp::ZERO));
}

/// A replica applied a row between the comparison and the agreement. It refuses to freeze, and no
/// replica agrees.
#[test]
fn a_row_that_arrives_after_the_comparison_stops_the_round() {
    let quorums = Quorums::majority_of(3);
    let (mut round, _) = FloorRound::<u32>::new(Rules::CORRECT, quorums, stamp(100));
    let mut floors = Floors::joining(1);
    floors.closed = stamp(100);
    let closed = || FloorAnswer::Closed {
        agreed: Stamp::ZERO,
        agreed_epoch: 0,
    };
    for replica in 0..3 {
        round.on_answer(replica, closed());
    }
    let mut output = None;
    for replica in 0..3 {
        output = round.on_answer(replica, FloorAnswer::Rows(7));
    }
    let Some(FloorOutput::Ask(freeze)) = output else {
        panic!("{output:?}");
    };
    let changed = |_, _| Ok::<_, Infallible>(8);
    let Ok(answer) = floor::answer(Rules::CORRECT, &mut floors, 1, freeze, changed);
    assert_eq!(answer, FloorAnswer::Rows(8));
    assert_eq!(floors.frozen, Stamp::ZERO);
    assert_eq!(round.on_answer(0, answer), Some(FloorOutput::Differ));
    let same = |_, _| Ok::<_, Infallible>(7);
    let Ok(answer) = floor::answer(Rules::CORRECT, &mut floors, 1, freeze, same);
    assert_eq!(answer, FloorAnswer::Frozen);
    assert_eq!((floors.frozen, floors.agreed), (stamp(100), Stamp::ZERO));
}

#[test]
fn the_floor_waits_while_a_replica_is_unreachable() {
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

/// A replica that joined later took no part in the older replicas' agreement. It drops tombstones,
/// but goes on applying rows.
#[test]
fn a_new_replica_does_not_adopt_an_agreement_made_without_it() {
    let mut floors = Floors::joining(2);
    let compare = FloorRequest::Compare {
        floor: stamp(200),
        gone: stamp(100),
        gone_epoch: 1,
    };
    floors.closed = stamp(200);
    let digest = |_, gone| Ok::<_, Infallible>(gone);
    let Ok(_) = floor::answer(Rules::CORRECT, &mut floors, 2, compare, digest);
    assert_eq!((floors.gone, floors.agreed), (stamp(100), Stamp::ZERO));
}

#[test]
fn tombstones_are_gone_and_writes_refused_below_the_floor() {
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
        remembered: None,
    };
    assert_eq!((step.cell, step.answer), (None, refused));
}

/// Returns two answers around an agreed floor. One of three replicas reported its row, then
/// accepted the tombstone that ended it, then agreed with the others to drop the tombstone. Another
/// replica reports afterwards: nothing. Found by the model (`a delete, a floor, a slow read`).
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
fn a_read_does_not_return_an_answer_from_before_a_floor() {
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
            versions: Vec::new(),
        };
        outputs = read.on_answer(from, 1, answer, &mut clock.next());
    }
    let nothing = Outcome::Value(Version::absent());
    assert_eq!(outputs, [Output::Done(nothing)]);
}

#[test]
fn an_update_does_not_decide_on_an_answer_from_before_a_floor() {
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
            versions: Vec::new(),
        };
        outputs = update.on_answer(from, 1, answer, &mut clock.next());
    }
    assert_eq!(outputs, [Output::Decide(Version::absent())]);
}

/// A replica that joined later and only heard that tombstones are gone does not know the other
/// rows.
#[test]
fn a_row_that_a_new_replica_lacks_is_not_gone() {
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
            versions: Vec::new(),
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

/// One key on three replicas with their floors.
struct Trio {
    rules: Rules,
    floors: [Floors; 3],
    cells: [Cell<u32>; 3],
}

impl Trio {
    fn new(rules: Rules) -> Trio {
        Trio {
            rules,
            floors: [Floors::joining(1); 3],
            cells: Default::default(),
        }
    }

    fn bounds(&self, replica: usize) -> Bounds {
        Bounds::without_floors(1000, 0).with_floors(&self.floors[replica])
    }

    fn recent(&self, replica: usize) -> Recent {
        Recent::forgotten(self.rules, &self.cells[replica], &self.bounds(replica))
    }

    fn ask(&mut self, replica: usize, request: Request<u32>) -> Answer<u32> {
        let (bounds, mut recent) = (self.bounds(replica), self.recent(replica));
        let cell = &self.cells[replica];
        let step = replica::step(self.rules, &bounds, cell, &mut recent, request, true);
        if let Some(cell) = step.cell {
            self.cells[replica] = cell;
        }
        step.answer
    }

    fn write(&mut self, replica: usize, version: Version<u32>) {
        let write = Request::Write {
            version,
            guarded: false,
        };
        assert_eq!(self.ask(replica, write), Answer::Accepted);
    }

    fn apply(&mut self, replica: usize, version: Version<u32>) {
        let (bounds, mut recent) = (self.bounds(replica), self.recent(replica));
        let cell = &self.cells[replica];
        let applied = replica::spread(self.rules, &bounds, cell, &mut recent, version, false);
        self.cells[replica] = applied.expect("it is newer, and no floor is frozen");
    }

    fn answer_floor(
        &mut self,
        replica: usize,
        request: FloorRequest<Option<Stamp>>,
    ) -> FloorAnswer<Option<Stamp>> {
        let held = self.cells[replica].stamp;
        let digest = |floor, _| {
            let counts = held <= floor && held != Stamp::ZERO;
            Ok::<_, Infallible>(counts.then_some(held))
        };
        let floors = &mut self.floors[replica];
        let Ok(answer) = floor::answer(self.rules, floors, 1, request, digest);
        answer
    }

    /// Reads with answers of these replicas. `early` was given by the first of them before.
    fn read(&mut self, from: [usize; 2], early: Option<Answer<u32>>) -> Vec<Output<u32>> {
        let start = Start {
            rules: self.rules,
            quorums: Quorums::majority_of(3),
        };
        let (mut operation, sends) = Operation::read(start);
        let round = operation.round();
        assert_eq!(sends.len(), 3);
        let ask = Request::Read { with_value: true };
        let first = early.unwrap_or_else(|| self.ask(from[0], ask.clone()));
        let second = self.ask(from[1], ask);
        let mut never = |_: Stamp| unreachable!("a read writes back under the version's own stamp");
        operation.on_answer(from[0], round, first, &mut never);
        operation.on_answer(from[1], round, second, &mut never)
    }
}

/// Runs a floor round in the middle of which a late row arrives at the third replica. Returns the
/// result of a read that began before, and of one through the other replicas afterwards.
fn late_row_between_the_steps(rules: Rules) -> (Vec<Output<u32>>, Vec<Output<u32>>) {
    let version = |millis, value| Version {
        stamp: stamp(millis),
        write: Clock::new(1, millis).id(),
        value: Some(value),
    };
    let (old, new) = (version(50, 1), version(200, 2));
    let mut trio = Trio::new(rules);
    trio.write(0, old.clone());
    let early = trio.ask(0, Request::Read { with_value: true });
    let quorums = Quorums::majority_of(3);
    let (mut round, mut output) = FloorRound::new(rules, quorums, stamp(100));
    let mut is_late = true;
    while let FloorOutput::Ask(request) = output {
        let is_compare = matches!(request, FloorRequest::Compare { .. });
        if is_compare {
            // Nobody holds anything up to the floor now.
            trio.write(0, new.clone());
        }
        let mut next = None;
        for replica in round.waiting().iter() {
            let answer = trio.answer_floor(replica, request);
            next = next.or(round.on_answer(replica, answer));
        }
        if is_compare && std::mem::take(&mut is_late) {
            // The first replica sent it before it held the newer one.
            trio.apply(2, old.clone());
        }
        output = next.expect("all replicas have answered");
    }
    (trio.read([0, 2], Some(early)), trio.read([1, 2], None))
}

/// A read returned a row that the next one discarded as of the past: a replica had agreed that all
/// held the same up to the floor, and another had applied the row after it was compared.
#[test]
fn a_row_that_a_read_returned_is_not_taken_for_past_after_a_floor_round() {
    let is_value = |outputs: &[Output<u32>], value: Option<u32>| matches!(outputs, [Output::Done(Outcome::Value(version))] if version.value == value);
    let (first, second) = late_row_between_the_steps(Rules::CORRECT);
    assert!(is_value(&first, Some(1)), "{first:?}");
    assert!(!is_value(&second, None), "{second:?}");
    let broken = Rules::broken(Mutant::AgreeUnfrozen);
    let (first, second) = late_row_between_the_steps(broken);
    assert!(is_value(&first, Some(1)), "{first:?}");
    assert!(
        is_value(&second, None),
        "the control does not work: {second:?}"
    );
}
