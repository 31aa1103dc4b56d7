//! Plain writes that guards refuse, and replicas that refuse what would be taken from a version.

use archipel_storage::{RowVersion, Value, VersionName};
use bytes::Bytes;

use super::*;
use crate::register::rules::Mutant;

/// Three replicas, of which each has a guard of its own.
struct Guarded {
    cells: Vec<Cell<Value>>,
    recent: Vec<Recent>,
    holds: [bool; 3],
    rules: Rules,
}

/// The requests of an operation that have no answer yet.
struct Sent {
    operation: Operation<Value>,
    requests: Vec<(usize, u32, Request<Value>)>,
    done: Option<Outcome<Value>>,
    is_pausing: bool,
}

impl Guarded {
    /// Returns replicas that hold this version, written by another node.
    fn holding(name: VersionName, stamp: u64) -> Guarded {
        let cell = Cell {
            promised: at(stamp),
            stamp: at(stamp),
            write: Id([9; 16]),
            value: Some(value(name)),
        };
        let bounds = Bounds::without_floors(1 << 30, 0);
        // They have been running since before that.
        let recent = Recent::forgotten(Rules::CORRECT, &Cell::<Value>::default(), &bounds);
        Guarded {
            cells: vec![cell; 3],
            recent: vec![recent; 3],
            holds: [true; 3],
            rules: Rules::CORRECT,
        }
    }

    fn begin(&self, start: impl FnOnce(Start) -> (Operation<Value>, Vec<Output<Value>>)) -> Sent {
        let (operation, outputs) = start(Start {
            rules: self.rules,
            quorums: Quorums::majority_of(3),
        });
        let mut sent = Sent {
            operation,
            requests: Vec::new(),
            done: None,
            is_pausing: false,
        };
        sent.note(outputs);
        sent
    }

    /// Lets these replicas answer what waits for them, one after another.
    fn answer(&mut self, sent: &mut Sent, replicas: &[usize], clock: &mut Clock) {
        for replica in replicas {
            while let Some(place) = sent.requests.iter().position(|(to, ..)| to == replica) {
                let (to, round, request) = sent.requests.remove(place);
                let bounds = Bounds::without_floors(1 << 30, 0);
                let (cell, recent) = (&self.cells[to], &mut self.recent[to]);
                let holds = self.holds[to];
                let step = replica::step(Rules::CORRECT, &bounds, cell, recent, request, holds);
                if let Some(cell) = step.cell {
                    self.cells[to] = cell;
                }
                let more = sent
                    .operation
                    .on_answer(to, round, step.answer, &mut clock.next());
                sent.note(more);
                if std::mem::take(&mut sent.is_pausing) {
                    let more = sent.operation.resume(&mut clock.next());
                    sent.note(more);
                }
            }
        }
    }
}

impl Sent {
    fn note(&mut self, outputs: Vec<Output<Value>>) {
        for output in outputs {
            match output {
                Output::Send { to, round, request } => self.requests.push((to, round, request)),
                Output::Done(outcome) => self.done = Some(outcome),
                Output::Pause { .. } => self.is_pausing = true,
                other => panic!("{other:?}"),
            }
        }
    }

    fn fail(&mut self, replica: usize, clock: &mut Clock) {
        let round = self.operation.round();
        self.requests.retain(|(to, ..)| *to != replica);
        let more = self.operation.on_failure(replica, round, &mut clock.next());
        self.note(more);
    }
}

fn at(number: u64) -> Stamp {
    Stamp {
        time: number,
        writer: Writer(7),
    }
}

fn value(name: VersionName) -> Value {
    Value {
        metadata: Bytes::from_static(b"an object"),
        version: name.is_some().then(|| {
            Box::new(RowVersion {
                at: name,
                ..RowVersion::default()
            })
        }),
        ..Value::default()
    }
}

/// Returns a clock whose next stamp follows `at(number)`.
fn clock_after(number: u64) -> Clock {
    Clock {
        writer: 1,
        last: number,
        ids: 0,
    }
}

/// Sends a plain write under `at(100)` that two replicas refuse. `accepts` tells whether the third
/// one gets it before that. Returns the operation after the answers of the two to its `Prepare`.
fn refused(replicas: &mut Guarded, accepts: bool, clock: &mut Clock) -> Sent {
    replicas.holds = [false, false, true];
    let mut sent = replicas.begin(|start| {
        let (value, next) = (Some(value(None)), &mut clock.next());
        Operation::write(start, Id([1; 16]), value, true, next)
    });
    if accepts {
        // Its answer is lost.
        let operation = sent.operation.clone();
        replicas.answer(&mut sent, &[2], clock);
        sent.operation = operation;
    } else {
        sent.requests.retain(|(to, ..)| *to != 2);
    }
    // A version newer than the write refuses the first ballot.
    replicas.answer(&mut sent, &[0, 1, 0, 1], clock);
    sent
}

/// The third replica would keep the write as the null version when it learns of the version with a
/// name.
#[test]
fn a_refused_write_that_a_replica_may_keep_ends_as_unknown() {
    for (newest, rounds) in [(10, 2), (200, 4)] {
        // The third replica lacks the version with a name.
        let mut replicas = Guarded::holding(Some(at(newest)), newest);
        replicas.cells[2] = Guarded::holding(None, 5).cells.remove(0);
        let mut clock = clock_after(99);
        let mut sent = refused(&mut replicas, true, &mut clock);
        assert_eq!(sent.done, None, "the third replica has not answered");
        replicas.answer(&mut sent, &[2], &mut clock);
        assert_eq!(sent.done, Some(Outcome::Unknown));
        assert_eq!(sent.operation.round(), rounds);

        // As a control, an operation that breaks the rule ends without effect.
        let mut replicas = Guarded::holding(Some(at(newest)), newest);
        replicas.rules = Rules::broken(Mutant::RetryRefused);
        let mut clock = clock_after(99);
        let mut sent = refused(&mut replicas, true, &mut clock);
        replicas.answer(&mut sent, &[2, 0, 1], &mut clock);
        assert_eq!(sent.done, Some(Outcome::Guarded));
    }
}

#[test]
fn a_refused_write_ends_as_unknown_if_a_replica_that_may_keep_it_is_away() {
    for is_silent in [false, true] {
        let mut replicas = Guarded::holding(Some(at(10)), 10);
        let mut clock = clock_after(99);
        let mut sent = refused(&mut replicas, false, &mut clock);
        assert_eq!(sent.done, None);
        if is_silent {
            let more = sent.operation.on_timeout(&mut clock.next());
            sent.note(more);
        } else {
            sent.fail(2, &mut clock);
        }
        assert_eq!(sent.done, Some(Outcome::Unknown));
        assert_eq!(sent.operation.round(), 2);
    }
}

/// All replicas remember that they did not accept it.
#[test]
fn a_refused_write_that_no_replica_accepted_has_no_effect() {
    for (newest, rounds) in [(10, 3), (200, 4)] {
        let mut replicas = Guarded::holding(Some(at(newest)), newest);
        let mut clock = clock_after(99);
        let mut sent = refused(&mut replicas, false, &mut clock);
        replicas.answer(&mut sent, &[2, 0, 1], &mut clock);
        assert_eq!(sent.done, Some(Outcome::Guarded));
        assert_eq!(sent.operation.round(), rounds);
    }
}

/// The null version found is written again above the attempt, so the attempt never counts. Nobody
/// waits for the third replica.
#[test]
fn a_refused_write_of_the_version_that_is_current_has_no_effect() {
    let mut replicas = Guarded::holding(None, 10);
    let mut clock = clock_after(99);
    let mut sent = refused(&mut replicas, true, &mut clock);
    replicas.answer(&mut sent, &[0, 1], &mut clock);
    assert_eq!(sent.done, Some(Outcome::Guarded));
    assert_eq!(sent.operation.round(), 3);
    for cell in &replicas.cells[..2] {
        assert_eq!(cell.write, Id([9; 16]));
        assert!(cell.stamp > replicas.cells[2].stamp);
    }
}

/// The reaction of a replica to the `Prepare` of an operation that takes something from a version.
#[derive(Clone, Copy)]
enum Does {
    Promise,
    Hold,
    Fail,
}

/// Returns how an operation ends whose replicas do this, in this order.
fn taking(by_all: bool, does: [Does; 3]) -> (Option<Outcome<Value>>, usize) {
    let mut replicas = Guarded::holding(None, 10);
    let mut clock = clock_after(99);
    let mut sent = replicas.begin(|start| {
        let (operation, outputs) = Operation::update(start, Id([1; 16]), true, &mut clock.next());
        (operation.promised_by_all(by_all), outputs)
    });
    for (replica, does) in does.into_iter().enumerate() {
        match does {
            Does::Promise => replicas.answer(&mut sent, &[replica], &mut clock),
            Does::Fail => sent.fail(replica, &mut clock),
            Does::Hold => {
                let (operation, next) = (&mut sent.operation, &mut clock.next());
                let more = operation.on_answer(replica, 1, Answer::Held, next);
                sent.note(more);
            }
        }
        if sent.done.is_some() {
            return (sent.done, replica + 1);
        }
    }
    let more = sent.operation.give_up();
    sent.note(more);
    (sent.done, 4)
}

/// One replica may not have heard that the protection has ended.
#[test]
fn a_version_counts_as_protected_only_if_every_quorum_says_so() {
    use Does::{Fail, Hold, Promise};
    for (by_all, does, answers, outcome) in [
        (true, [Hold, Hold, Promise], 2, Outcome::Held),
        (true, [Hold, Promise, Hold], 3, Outcome::Held),
        (true, [Hold, Fail, Hold], 3, Outcome::Held),
        (true, [Fail, Hold, Hold], 1, Outcome::Unavailable),
        (true, [Hold, Promise, Promise], 3, Outcome::Unavailable),
        (true, [Hold, Promise, Fail], 3, Outcome::Unavailable),
        (true, [Promise, Promise, Hold], 3, Outcome::Unavailable),
        (true, [Promise, Promise, Fail], 3, Outcome::Unavailable),
        (false, [Hold, Hold, Promise], 2, Outcome::Held),
        (false, [Hold, Fail, Hold], 3, Outcome::Held),
        (false, [Hold, Fail, Promise], 3, Outcome::Unavailable),
    ] {
        assert_eq!(taking(by_all, does), (Some(outcome), answers));
    }
}
