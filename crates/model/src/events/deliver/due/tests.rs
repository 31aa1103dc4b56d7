use archipel_base::Writer;

use super::*;

const PARTITION: PartitionId = PartitionId(3);

fn object(name: &'static str) -> RowKey {
    RowKey {
        partition: PARTITION,
        key: Bytes::from_static(name.as_bytes()),
    }
}

fn at(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Writer(1))
}

fn news(name: &'static str, millis: u64) -> Brought {
    Some([(object(name).key, at(millis))].into())
}

fn done(walk: Option<Walk>, objects: Objects, has_begun: bool) -> Done {
    Done {
        has_begun,
        was_old: false,
        ended: None,
        since: Instant::now(),
        again: None,
        left: Due::now(walk, objects),
    }
}

#[test]
fn news_is_looked_at_from_its_stamp_on_only_where_nothing_waits() {
    let mut known = Known::default();
    let due = known.due(PARTITION, news("a", 5));
    assert!(due.walk.is_some() && due.objects == Objects::from([(object("a"), None)]));
    assert!(
        known
            .note(PARTITION, done(None, Objects::new(), true))
            .is_none()
    );
    let due = known.due(PARTITION, news("a", 5));
    assert!(due.walk.is_none() && due.objects == Objects::from([(object("a"), Some(at(5)))]));
    // An object was cut: the partition is not clear, also after the object is done.
    let cut = Pass::cut(&object("b")).cut;
    let left = known.note(PARTITION, done(None, cut.clone(), false));
    assert_eq!(left.map(|due| due.objects), Some(cut));
    for _ in 0..2 {
        let due = known.due(PARTITION, news("a", 5));
        assert!(due.walk.is_none() && due.objects == Objects::from([(object("a"), None)]));
        assert!(known.waits(PARTITION, Instant::now()));
        assert!(
            known
                .note(PARTITION, done(None, Objects::new(), false))
                .is_none()
        );
    }
    // A walk that began after that finds nothing.
    known.note(PARTITION, done(None, Objects::new(), true));
    assert!(known.due(PARTITION, None).walk.is_some());
    assert!(known.due(PARTITION, news("a", 5)).objects[&object("a")].is_some());
}

#[test]
fn result_of_the_first_part_of_a_walk_counts_at_its_end() {
    let mut known = Known::default();
    let again = Instant::now() + AGAIN;
    let first = Done {
        again: Some(again),
        ..done(Some(Walk::over_all()), Objects::new(), true)
    };
    assert!(known.note(PARTITION, first).is_some());
    known.note(PARTITION, done(None, Objects::new(), false));
    assert_eq!(known.next(), Some(again));
}

#[test]
fn walk_begins_where_the_last_one_was_stopped() {
    let mut known = Known::default();
    let since = Instant::now() - SCAN_PERIOD;
    let end = |known: &mut Known, first: Option<&'static str>, had_turn| {
        let mut walk = Walk::over_all();
        walk.had_turn = had_turn;
        // The lowest object counts.
        for name in first.into_iter().chain(first.map(|_| "oz")) {
            walk.note(&Pass::passing_over(&object(name), since));
        }
        let ended = Done {
            ended: Some(walk),
            since,
            ..done(None, Objects::new(), true)
        };
        known.note(PARTITION, ended);
        known.walk(PARTITION, Walk::over_all())
    };
    let place = |due: &Due| {
        let walk = due.walk.as_ref().unwrap();
        (walk.after.clone(), walk.is_part)
    };
    let before = |name| (rowkeys::events_prefix(&object(name)), true);
    // The partition had no turn, so it comes before others that had one.
    let due = end(&mut known, Some("om"), false);
    assert_eq!((place(&due), due.since), (before("om"), since));
    let due = end(&mut known, Some("op"), true);
    assert_eq!(place(&due), before("op"));
    assert!(due.since > since);
    assert_eq!(place(&known.due(PARTITION, None)), before("op"));
    // A walk that comes to the last object is followed by one from the first object on.
    let due = end(&mut known, None, true);
    assert_eq!(place(&due), (None, false));
}

#[test]
fn what_comes_later_does_not_begin_a_walk_again() {
    let mut work = Work::new();
    let walk = Walk {
        after: Some(object("m").key),
        ..Walk::over_all()
    };
    let since = Instant::now();
    let begun = Due {
        since,
        ..Due::now(Some(walk), [(object("a"), Some(at(5)))].into())
    };
    add(&mut work, PARTITION, begun);
    let objects: Objects = [(object("a"), Some(at(3))), (object("b"), None)].into();
    let later = || Due::now(Some(Walk::over_all()), objects.clone());
    add(&mut work, PARTITION, later());
    let due = &work[&PARTITION];
    assert_eq!((due.since, &due.objects), (since, &objects));
    assert_eq!(due.walk.as_ref().unwrap().after, Some(object("m").key));
    // This replica became the first live one, or is it no longer.
    add(
        &mut work,
        PARTITION,
        Due::now(Some(Walk::over_old(9)), Objects::new()),
    );
    assert!(work[&PARTITION].walk.as_ref().unwrap().is_old());
    add(&mut work, PARTITION, later());
    assert!(work[&PARTITION].walk.as_ref().unwrap().after.is_none());
}
