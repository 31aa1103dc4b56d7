//! Replicas that remember what they accepted, and hold it no longer.

use super::*;

/// Found by the simulator (seed 100021 of whole nodes): a store left a layout and came back empty.
/// It said that it held rows that it had once accepted. The rebalancer believed it, and the layout
/// version that held them was dropped.
#[test]
fn a_forgotten_row_is_accepted_again() {
    let version = |millis, value| Version {
        stamp: Stamp::new(millis, 0, Writer(1)),
        write: Id([millis as u8; 16]),
        value: Some(value),
    };
    let write = |version: &Version<u32>| Request::Write {
        version: version.clone(),
        guarded: false,
    };
    let (old, new) = (version(1, 10), version(2, 20));
    let mut replicas = Replicas::new(1);
    for version in [&old, &new, &old] {
        assert_eq!(replicas.answer(0, write(version)), Answer::Accepted);
    }
    assert_eq!(replicas.cells[0].version(), new);
    // The replica still remembers what it accepted.
    replicas.cells[0] = Cell::default();
    assert_eq!(replicas.answer(0, write(&old)), Answer::Accepted);
    assert_eq!(replicas.cells[0].version(), old);
}

/// A store that left the layout, and joined again empty, hears of an agreed floor. It still
/// remembers what it accepted before. It holds no value below the floor; a tombstone below it is
/// gone everywhere.
#[test]
fn a_forgotten_row_below_a_floor_is_not_held() {
    let floor = Stamp::new(5, 0, Writer(1));
    let free = Bounds::without_floors(1000, 60_000);
    let joined = Bounds {
        closed: floor,
        gone: floor,
        ..free
    };
    for (value, is_held) in [(Some(10), false), (None, true)] {
        let request = Request::Write {
            version: Version {
                stamp: Stamp::new(1, 0, Writer(1)),
                write: Id([1; 16]),
                value,
            },
            guarded: false,
        };
        let empty = Cell::<u32>::default();
        let mut recent = Recent::forgotten(Rules::CORRECT, &empty, &free);
        let mut answer = |bounds, request| {
            replica::step(Rules::CORRECT, bounds, &empty, &mut recent, request, true).answer
        };
        assert_eq!(answer(&free, request.clone()), Answer::Accepted);
        let again = answer(&joined, request);
        assert_eq!(again == Answer::Accepted, is_held, "{value:?}: {again:?}");
    }
}
