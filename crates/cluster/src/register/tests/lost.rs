//! Values whose content is lost: no replica but those that hold them can store them.

use super::*;

/// Writes 1 to all, and then 2 to the first replica alone. The content of 2 is lost.
fn one_replica_with_a_lost_value(clock: &mut Clock) -> Replicas {
    let mut replicas = Replicas::new(3);
    replicas.write(clock, Some(1));
    replicas.down = [1, 2].into_iter().collect();
    assert_eq!(replicas.write(clock, Some(2)).0, Outcome::Unknown);
    replicas.down = ReplicaSet::EMPTY;
    replicas.lost = Some(2);
    replicas
}

/// The first replica promises first, and shows a value that the others cannot store. It is not
/// chosen, so the update acts on the one before.
#[test]
fn an_update_does_without_a_replica_whose_value_is_lost() {
    let mut clock = Clock::new(1, 500);
    let mut replicas = one_replica_with_a_lost_value(&mut clock);
    assert_eq!(replicas.read(&mut clock).0, Some(1));
    let update = Operation::update(replicas.start(), clock.id(), false, &mut clock.next());
    let (outcome, _) = replicas.run(update, &mut clock, |held| {
        assert_eq!(held, Some(1));
        Decision::Write(Some(3))
    });
    assert!(matches!(outcome, Outcome::Written { .. }), "{outcome:?}");
    assert!(replicas.cells.iter().all(|cell| cell.value == Some(3)));
}

/// One of the others is away. It may hold the lost value, too, so the update has to wait for it.
#[test]
fn an_update_does_not_do_without_a_replica_that_the_quorum_needs() {
    let mut clock = Clock::new(1, 500);
    let mut replicas = one_replica_with_a_lost_value(&mut clock);
    replicas.down.insert(2);
    let update = Operation::update(replicas.start(), clock.id(), false, &mut clock.next());
    let (outcome, _) = replicas.run(update, &mut clock, |_| panic!("nothing is known"));
    assert_eq!(outcome, Outcome::Unavailable);
    assert_eq!(replicas.cells[0].value, Some(2));
}

/// Runs an update to the point where it sends its own value, 3. The first replica was left out before.
fn up_to_its_write(
    replicas: &mut Replicas,
    clock: &mut Clock,
) -> (Operation<u32>, Vec<Output<u32>>) {
    let (mut operation, mut outputs) =
        Operation::update(replicas.start(), clock.id(), false, &mut clock.next());
    loop {
        let mut more = Vec::new();
        for output in outputs {
            match output {
                Output::Send { to, round, request } if replicas.cannot_store(to, &request) => {
                    more.extend(operation.on_failure(to, round, &mut clock.next()));
                }
                Output::Send { to, round, request } => {
                    let answer = replicas.answer(to, request);
                    more.extend(operation.on_answer(to, round, answer, &mut clock.next()));
                }
                Output::Decide(version) => {
                    assert_eq!(version.value, Some(1));
                    assert_eq!(operation.goes_without(), ReplicaSet::first(1));
                    let writes = operation.decided(Decision::Write(Some(3)));
                    return (operation, writes);
                }
                other => panic!("{other:?}"),
            }
        }
        outputs = more;
    }
}

/// It can store the new value, and another one cannot.
#[test]
fn a_replica_that_was_left_out_counts_for_the_write() {
    let mut clock = Clock::new(1, 500);
    let mut replicas = one_replica_with_a_lost_value(&mut clock);
    let (mut operation, writes) = up_to_its_write(&mut replicas, &mut clock);
    let mut ended = Vec::new();
    for write in &writes {
        let Output::Send { to, round, request } = write else {
            panic!("{write:?}");
        };
        ended.extend(match to {
            1 => operation.on_failure(1, *round, &mut clock.next()),
            _ => {
                let answer = replicas.answer(*to, request.clone());
                operation.on_answer(*to, *round, answer, &mut clock.next())
            }
        });
    }
    assert!(
        matches!(ended[..], [Output::Done(Outcome::Written { .. })]),
        "{ended:?}"
    );
}

/// One other replica has the value, and one failed. The request to the replica that was left out got lost.
#[test]
fn a_replica_that_was_left_out_is_asked_again_to_hold_the_write() {
    let mut clock = Clock::new(1, 500);
    let mut replicas = one_replica_with_a_lost_value(&mut clock);
    let (mut operation, writes) = up_to_its_write(&mut replicas, &mut clock);
    for write in writes {
        let more = match write {
            Output::Send { to: 1, round, .. } => operation.on_failure(1, round, &mut clock.next()),
            Output::Send {
                to: 2,
                round,
                request,
            } => {
                let answer = replicas.answer(2, request);
                operation.on_answer(2, round, answer, &mut clock.next())
            }
            _ => Vec::new(),
        };
        assert_eq!(more, []);
    }
    let again = operation.on_timeout(&mut clock.next());
    let asked = again.iter().map(|output| match output {
        Output::Send { to, .. } => *to,
        other => panic!("{other:?}"),
    });
    assert_eq!(asked.collect::<Vec<_>>(), [0, 1]);
}
