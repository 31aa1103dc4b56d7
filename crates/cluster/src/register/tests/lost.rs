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

/// The first replica promises first, and shows a value that the others cannot store. It is not chosen,
/// so the update acts on the one before.
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
