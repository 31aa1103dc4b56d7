use super::*;

/// At these times, in the order of the calls.
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

/// A deletion of which nobody knows whether it took effect.
fn lost_deletion(called: u64) -> Event {
    event(Call::Write(None), called, None)
}

/// Fifty lost deletions, and what was read in between: as many choices as subsets, if they were told apart.
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
fn lost_deletions_explain_what_is_gone() {
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

/// One deletion does not explain two.
#[test]
fn each_explains_once() {
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

/// Both ways of a history with many ends soon.
#[test]
fn many_of_them_are_checked_soon() {
    assert!(is_linearizable(&many_lost(&[])));
    assert!(!is_linearizable(&many_lost(&[read(Some(3), 500)])));
}

#[test]
fn the_checker_of_histories_tells_right_from_wrong() {
    let write = event(Call::Write(Some(1)), 0, Some((5, Reply::Done)));
    let read = |at, saw| event(Call::Read, at, Some((at + 2, Reply::Saw(saw))));
    assert!(is_linearizable(&[write, read(6, Some(1))]));
    assert!(!is_linearizable(&[write, read(6, None)]));
    assert!(is_linearizable(&[write, read(1, None), read(2, Some(1))]));
    assert!(!is_linearizable(&[write, read(1, Some(1)), read(4, None)]));
    // A write that nobody was told of may happen late, but only once.
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
    // Of two swaps from the same value one fails.
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
