//! The state machines one by one. `tools/sim` checks many of them together.

use archipel_base::{Id, Stamp, Writer};

use super::coordinator::{Decision, Operation, Outcome, Output, Repeat, Start};
use super::message::{Answer, Request, Version};
use super::quorum::{Quorums, ReplicaSet};
use super::replica::{self, Bounds, Cell, Recent};
use super::rules::Rules;

mod epochs;
mod floors;
mod forgotten;
mod lost;
mod refused;
mod transcripts;
mod versions;
mod windows;

/// Replicas that answer at once. Each can be down.
struct Replicas {
    cells: Vec<Cell<u32>>,
    recent: Vec<Recent>,
    down: ReplicaSet,
    /// A value that no replica can store any more: its content is lost.
    lost: Option<u32>,
    guard_holds: bool,
    now: u64,
}

impl Replicas {
    fn new(n: usize) -> Replicas {
        let cells = vec![Cell::default(); n];
        let bounds = Bounds::without_floors(0, 0);
        let recent = cells.iter();
        let recent = recent.map(|c| Recent::forgotten(Rules::CORRECT, c, &bounds));
        Replicas {
            recent: recent.collect(),
            cells,
            down: ReplicaSet::EMPTY,
            lost: None,
            guard_holds: true,
            now: 1000,
        }
    }

    fn start(&self) -> Start {
        Start {
            rules: Rules::CORRECT,
            quorums: Quorums::majority_of(self.cells.len()),
        }
    }

    fn answer(&mut self, to: usize, request: Request<u32>) -> Answer<u32> {
        let bounds = Bounds::without_floors(self.now, 60_000);
        let (cell, recent) = (&self.cells[to], &mut self.recent[to]);
        let step = replica::step(
            Rules::CORRECT,
            &bounds,
            cell,
            recent,
            request,
            self.guard_holds,
        );
        if let Some(cell) = step.cell {
            self.cells[to] = cell;
        }
        step.answer
    }

    /// Returns true if the request writes the lost value to a replica that does not hold it.
    fn cannot_store(&self, to: usize, request: &Request<u32>) -> bool {
        let Request::Write { version, .. } = request else {
            return false;
        };
        self.lost.is_some() && version.value == self.lost && self.cells[to].value != self.lost
    }

    fn restart(&mut self, replica: usize) {
        let bounds = Bounds::without_floors(self.now, 60_000);
        self.recent[replica] = Recent::forgotten(Rules::CORRECT, &self.cells[replica], &bounds);
    }

    /// Carries out everything that an operation asks for, and counts the rounds.
    fn run(
        &mut self,
        (mut operation, mut outputs): (Operation<u32>, Vec<Output<u32>>),
        clock: &mut Clock,
        decide: impl Fn(Option<u32>) -> Decision<u32>,
    ) -> (Outcome<u32>, u32) {
        let mut rounds = 0;
        loop {
            assert!(!outputs.is_empty(), "the operation is stuck");
            let mut more = Vec::new();
            for output in outputs {
                match output {
                    Output::Send { to, round, request } => {
                        rounds = rounds.max(round);
                        if self.down.contains(to) || self.cannot_store(to, &request) {
                            more.extend(operation.on_failure(to, round, &mut clock.next()));
                        } else {
                            let answer = self.answer(to, request);
                            more.extend(operation.on_answer(to, round, answer, &mut clock.next()));
                        }
                    }
                    Output::Decide(version) => {
                        more.extend(operation.decided(decide(version.value)));
                    }
                    Output::Pause { .. } => more.extend(operation.resume(&mut clock.next())),
                    Output::Bury { .. } => unreachable!("no replica keeps anything"),
                    Output::Refresh { .. } => unreachable!("there is one layout"),
                    Output::Done(outcome) => return (outcome, rounds),
                }
            }
            outputs = more;
        }
    }

    fn read(&mut self, clock: &mut Clock) -> (Option<u32>, u32) {
        let (outcome, rounds) = self.run(Operation::read(self.start()), clock, |_| Decision::Keep);
        match outcome {
            Outcome::Value(version) => (version.value, rounds),
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, clock: &mut Clock, value: Option<u32>) -> (Outcome<u32>, u32) {
        let id = clock.id();
        let operation = Operation::write(self.start(), id, value, false, &mut clock.next());
        self.run(operation, clock, |_| Decision::Keep)
    }

    fn create(&mut self, clock: &mut Clock, value: u32) -> (Outcome<u32>, u32) {
        let id = clock.id();
        let operation = Operation::update(self.start(), id, true, &mut clock.next());
        self.run(operation, clock, |held| match held {
            None => Decision::Write(Some(value)),
            Some(_) => Decision::Keep,
        })
    }
}

struct Clock {
    writer: u64,
    last: u64,
    ids: u8,
}

impl Clock {
    fn new(writer: u64, millis: u64) -> Clock {
        Clock {
            writer,
            last: millis << 16,
            ids: 0,
        }
    }

    fn next(&mut self) -> impl FnMut(Stamp) -> Stamp + '_ {
        |seen| {
            self.last = self.last.max(seen.time) + 1;
            Stamp {
                time: self.last,
                writer: Writer(self.writer),
            }
        }
    }

    fn id(&mut self) -> Id {
        self.ids += 1;
        let mut id = [0; 16];
        id[0] = self.writer as u8;
        id[1] = self.ids;
        Id(id)
    }
}

#[test]
fn reads_and_writes_take_one_round_and_updates_two() {
    for n in [1, 2, 3, 5] {
        let (mut replicas, mut clock) = (Replicas::new(n), Clock::new(1, 1000));
        assert_eq!(replicas.read(&mut clock), (None, 1));
        let (outcome, rounds) = replicas.write(&mut clock, Some(7));
        assert!(matches!(outcome, Outcome::Written { .. }));
        assert_eq!(rounds, 1);
        assert_eq!(replicas.read(&mut clock), (Some(7), 1));
        let (outcome, _) = replicas.create(&mut clock, 8);
        assert!(matches!(outcome, Outcome::Kept(v) if v.value == Some(7)));
        assert_eq!(replicas.write(&mut clock, None).1, 1);
        let (outcome, rounds) = replicas.create(&mut clock, 8);
        assert!(matches!(outcome, Outcome::Written { .. }));
        assert_eq!(rounds, 2);
        assert_eq!(replicas.read(&mut clock), (Some(8), 1));
    }
}

#[test]
fn operations_survive_a_minority_down_and_not_a_majority() {
    for n in [3, 5] {
        let (mut replicas, mut clock) = (Replicas::new(n), Clock::new(1, 1000));
        replicas.down = ReplicaSet::first(n / 2);
        replicas.write(&mut clock, Some(1));
        assert_eq!(replicas.read(&mut clock).0, Some(1));
        replicas.down = ReplicaSet::first(n / 2 + 1);
        assert_eq!(replicas.write(&mut clock, Some(2)).0, Outcome::Unknown);
        assert_eq!(replicas.create(&mut clock, 2).0, Outcome::Unavailable);
    }
}

/// A writer whose clock is behind moves past the stamp that it is told, and its write takes effect
/// last.
#[test]
fn a_clock_that_is_behind_costs_two_extra_rounds() {
    for n in [1, 3] {
        let mut replicas = Replicas::new(n);
        replicas.write(&mut Clock::new(1, 5000), Some(1));
        let mut behind = Clock::new(2, 1000);
        let (outcome, rounds) = replicas.write(&mut behind, Some(2));
        assert!(matches!(outcome, Outcome::Written { .. }));
        assert_eq!(rounds, 3);
        assert_eq!(replicas.read(&mut behind).0, Some(2));
    }
}

/// After a restart nobody knows whether the replica had accepted the write before.
#[test]
fn a_forgotten_acceptance_leaves_the_outcome_unknown() {
    let mut replicas = Replicas::new(1);
    replicas.write(&mut Clock::new(1, 5000), Some(1));
    replicas.restart(0);
    let (outcome, _) = replicas.write(&mut Clock::new(2, 1000), Some(2));
    assert_eq!(outcome, Outcome::Unknown);
}

#[test]
fn stamps_far_ahead_are_refused() {
    let mut replicas = Replicas::new(3);
    let mut ahead = Clock::new(1, 1_000_000);
    assert_eq!(replicas.create(&mut ahead, 1).0, Outcome::Unavailable);
    assert!(replicas.cells.iter().all(|c| *c == Cell::default()));
}

/// Writes 1 to all, and then 2 to the first replica alone, under a stamp that others do not accept.
fn one_replica_from_the_future() -> Replicas {
    let mut replicas = Replicas::new(3);
    replicas.write(&mut Clock::new(1, 1000), Some(1));
    let mut ahead = Clock::new(2, 1_000_000);
    let stamp = ahead.next()(Stamp::ZERO);
    replicas.cells[0] = Cell {
        promised: stamp,
        stamp,
        write: ahead.id(),
        value: Some(2),
    };
    replicas
}

/// Others cannot store what one replica holds. They agree on an older version, so that is chosen,
/// and nothing newer is.
#[test]
fn a_read_does_without_a_replica_whose_version_nobody_else_can_store() {
    let mut replicas = one_replica_from_the_future();
    let mut clock = Clock::new(1, 2000);
    assert_eq!(replicas.read(&mut clock).0, Some(1));
    replicas.write(&mut clock, Some(3));
    assert_eq!(replicas.read(&mut clock).0, Some(3));
    // Time has caught up with the version of the first replica.
    replicas.now = 1_000_000;
    assert_eq!(replicas.read(&mut clock).0, Some(2));
    assert_eq!(replicas.cells[1].value, Some(2));
}

/// One of the two that agree is away. The version of the third may be chosen.
#[test]
fn a_read_does_not_do_without_a_replica_that_the_quorum_needs() {
    let mut replicas = one_replica_from_the_future();
    let mut clock = Clock::new(1, 2000);
    replicas.down.insert(2);
    let read = Operation::read(replicas.start());
    let (outcome, _) = replicas.run(read, &mut clock, |_| Decision::Keep);
    assert_eq!(outcome, Outcome::Unavailable);
}

#[test]
fn an_update_ends_when_its_guard_does_not_hold() {
    let (mut replicas, mut clock) = (Replicas::new(3), Clock::new(1, 1000));
    replicas.guard_holds = false;
    assert_eq!(replicas.create(&mut clock, 1).0, Outcome::Guarded);
    assert_eq!(replicas.read(&mut clock).0, None);
}

/// The replica that was asked for the value answers last. This costs no second round, unless the
/// replica is silent for long.
#[test]
fn a_read_waits_for_a_value_that_is_under_way() {
    let (mut replicas, mut clock) = (Replicas::new(3), Clock::new(1, 1000));
    replicas.write(&mut clock, Some(7));
    let (mut operation, sends) = Operation::read(replicas.start());
    for (who, send) in sends.iter().enumerate().skip(1) {
        let Output::Send { round, request, .. } = send else {
            panic!("{send:?}");
        };
        let answer = replicas.answer(who, request.clone());
        let outputs = operation.on_answer(who, *round, answer, &mut clock.next());
        assert_eq!(outputs, []);
    }
    let mut hurried = operation.clone();
    assert_eq!(
        hurried.on_timeout(&mut clock.next()).len(),
        3,
        "all replicas are asked for the value"
    );
    let Output::Send { round, request, .. } = &sends[0] else {
        panic!("{sends:?}");
    };
    let answer = replicas.answer(0, request.clone());
    let ended = operation.on_answer(0, *round, answer, &mut clock.next());
    assert!(matches!(&ended[..], [Output::Done(Outcome::Value(v))] if v.value == Some(7)));
}

/// Writes 1 with a clock that is behind. One replica accepts it. Then 2 is written, so the others
/// refuse 1. Returns the end of the write of 1, and the value that is read afterwards.
fn overtaken_write(repeat: Repeat) -> (Vec<Output<u32>>, Option<u32>) {
    let mut replicas = Replicas::new(3);
    let (mut behind, mut ahead) = (Clock::new(1, 1000), Clock::new(2, 5000));
    let id = behind.id();
    let (operation, sends) =
        Operation::write(replicas.start(), id, Some(1), false, &mut behind.next());
    let mut operation = operation.repeating(repeat);
    let mut ask =
        |replicas: &mut Replicas, operation: &mut Operation<u32>, sends: &[Output<u32>], who| {
            let Some(Output::Send { round, request, .. }) = sends.get::<usize>(who) else {
                panic!("no request to {who} in {sends:?}");
            };
            let answer = replicas.answer(who, request.clone());
            operation.on_answer(who, *round, answer, &mut behind.next())
        };
    assert_eq!(ask(&mut replicas, &mut operation, &sends, 0), []);
    replicas.write(&mut ahead, Some(2));
    assert_eq!(ask(&mut replicas, &mut operation, &sends, 1), []);
    let prepares = ask(&mut replicas, &mut operation, &sends, 2);
    // Two promises leave open what the third replica did, so the operation waits for it.
    assert_eq!(ask(&mut replicas, &mut operation, &prepares, 0), []);
    assert_eq!(ask(&mut replicas, &mut operation, &prepares, 1), []);
    let mut ended = ask(&mut replicas, &mut operation, &prepares, 2);
    if !operation.is_over() {
        let writes = ended;
        assert_eq!(ask(&mut replicas, &mut operation, &writes, 0), []);
        ended = ask(&mut replicas, &mut operation, &writes, 1);
    }
    (ended, replicas.read(&mut ahead).0)
}

#[test]
fn a_refused_write_waits_for_all_replicas_that_may_know_its_fate() {
    let (ended, read) = overtaken_write(Repeat::Always);
    assert!(matches!(ended[..], [Output::Done(Outcome::Written { .. })]));
    assert_eq!(read, Some(1));
}

/// The replica that accepted the write and then the newer one has the content dropped that the
/// value refers to. It lies in other rows, so the value must not be written again.
#[test]
fn a_write_of_content_in_other_rows_is_not_repeated_once_it_was_overtaken() {
    let (ended, read) = overtaken_write(Repeat::UnlessOvertaken);
    assert_eq!(ended, [Output::Done(Outcome::Overtaken)]);
    assert_eq!(read, Some(2));
}
