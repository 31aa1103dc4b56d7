use super::*;

/// Returns an event at these times.
fn event(call: Call, called: u64, reply: Option<(u64, Reply)>) -> Event {
    Event {
        client: 0,
        call,
        called,
        reply,
    }
}

fn write(value: u32, called: u64) -> Event {
    event(
        Call::Write(Some(value)),
        called,
        Some((called + 1, Reply::Done)),
    )
}

fn read(saw: Option<u32>, called: u64) -> Event {
    event(Call::Read, called, Some((called + 1, Reply::Saw(saw))))
}

/// Returns a deletion with an unknown result.
fn lost_deletion(called: u64) -> Event {
    event(Call::Write(None), called, None)
}

/// Returns a history of fifty lost deletions with reads in between. If the checker told the
/// deletions apart, it would try every subset.
fn many_lost(ends: &[Event]) -> Vec<Event> {
    let mut history: Vec<Event> = (0..50).map(lost_deletion).collect();
    for n in 0..10 {
        let at = 100 + 10 * u64::from(n);
        history.extend([write(n, at), read(Some(n), at + 2), read(None, at + 4)]);
    }
    history.extend_from_slice(ends);
    history
}

#[test]
fn lost_deletions_explain_missing_values() {
    assert!(is_linearizable(&[
        write(1, 0),
        lost_deletion(2),
        read(None, 4)
    ]));
    assert!(is_linearizable(&[
        write(1, 0),
        lost_deletion(2),
        read(Some(1), 4)
    ]));
    assert!(!is_linearizable(&[
        write(1, 0),
        read(None, 2),
        lost_deletion(4)
    ]));
    let both = [
        write(1, 0),
        lost_deletion(2),
        read(None, 4),
        read(Some(1), 6),
    ];
    assert!(!is_linearizable(&both));
}

/// One deletion does not explain two disappearances.
#[test]
fn a_lost_deletion_explains_one_disappearance() {
    let twice = [read(None, 14), write(2, 16), read(None, 18)];
    let one = [&[write(1, 0), lost_deletion(2)], &twice[..]].concat();
    assert!(!is_linearizable(&one));
    let two = [
        &[write(1, 0), lost_deletion(2), lost_deletion(3)],
        &twice[..],
    ]
    .concat();
    assert!(is_linearizable(&two));
}

/// A deletion of what is absent may have come after a write that is open.
#[test]
fn a_deletion_on_an_absent_value_is_not_placed_too_soon() {
    let deletion = event(Call::Write(None), 0, Some((10, Reply::Done)));
    let open = event(Call::Write(Some(1)), 0, None);
    let reads = [read(Some(1), 2), read(None, 4), read(None, 6)];
    assert!(is_linearizable(&[&[deletion, open], &reads[..]].concat()));
}

/// The check of a history with many lost deletions ends soon, for a right and for a wrong history.
#[test]
fn histories_with_many_lost_deletions_are_checked_soon() {
    assert!(is_linearizable(&many_lost(&[])));
    assert!(!is_linearizable(&many_lost(&[read(Some(3), 500)])));
}

#[test]
fn the_checker_accepts_linearizable_histories_and_refuses_others() {
    let write = event(Call::Write(Some(1)), 0, Some((5, Reply::Done)));
    let read = |at, saw| event(Call::Read, at, Some((at + 2, Reply::Saw(saw))));
    assert!(is_linearizable(&[write, read(6, Some(1))]));
    assert!(!is_linearizable(&[write, read(6, None)]));
    assert!(is_linearizable(&[write, read(1, None), read(2, Some(1))]));
    assert!(!is_linearizable(&[write, read(1, Some(1)), read(4, None)]));
    // A write without an answer may take effect late, but only once.
    let open = event(Call::Write(Some(2)), 0, None);
    assert!(is_linearizable(&[
        write,
        open,
        read(6, Some(1)),
        read(9, Some(2))
    ]));
    let swings = [
        write,
        open,
        read(6, Some(2)),
        read(9, Some(1)),
        read(12, Some(2)),
    ];
    assert!(!is_linearizable(&swings));
    // One of two swaps from the same value fails.
    let swap = |new, at| {
        event(
            Call::Swap(Some(1), Some(new)),
            at,
            Some((at + 1, Reply::Done)),
        )
    };
    assert!(!is_linearizable(&[write, swap(3, 6), swap(4, 8)]));
    assert!(is_linearizable(&[write, swap(3, 6), read(8, Some(3))]));
}
