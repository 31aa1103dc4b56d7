use archipel_base::Stamp;

use super::*;

fn id(n: u8) -> VersionId {
    VersionId::At(Stamp::from_bytes([n; 16]))
}

const NULL: VersionId = VersionId::Null;

/// Operations one after another; those without an answer stay open.
fn history(all: &[(Call, Option<Reply>)]) -> Vec<Event> {
    let event = |(at, (call, reply)): (usize, &(Call, Option<Reply>))| {
        let called = 2 * at as u64;
        Event {
            call: *call,
            called,
            reply: reply.map(|reply| (called + 1, reply)),
        }
    };
    all.iter().enumerate().map(event).collect()
}

fn is_possible(all: &[(Call, Option<Reply>)]) -> bool {
    explain(&history(all), &[], false) == Answer::Possible
}

fn put(value: u32, made: VersionId) -> (Call, Option<Reply>) {
    let expected = None;
    (Call::Put { value, expected }, Some(Reply::Made(made)))
}

fn sees(saw: Option<(VersionId, u32)>) -> (Call, Option<Reply>) {
    (Call::Get, Some(Reply::Saw(saw)))
}

fn finds(id: VersionId, saw: Option<(Stored, bool)>) -> (Call, Option<Reply>) {
    (Call::GetVersion(id), Some(Reply::SawVersion(saw)))
}

const ENABLE: (Call, Option<Reply>) = (Call::Enable, Some(Reply::Done));

#[test]
fn versions_stay_until_they_are_deleted() {
    let two = [put(1, NULL), ENABLE, put(2, id(2))];
    assert!(is_possible(
        &[&two[..], &[finds(NULL, Some((Some(1), false)))]].concat()
    ));
    assert!(!is_possible(&[&two[..], &[finds(NULL, None)]].concat()));
    assert!(!is_possible(&[&two[..], &[sees(Some((NULL, 1)))]].concat()));
    let deletes = (Call::DeleteVersion(id(2)), Some(Reply::Done));
    let deleted = [&two[..], &[deletes]].concat();
    assert!(is_possible(
        &[&deleted[..], &[sees(Some((NULL, 1)))]].concat()
    ));
    assert!(!is_possible(
        &[&deleted[..], &[finds(id(2), Some((Some(2), false)))]].concat()
    ));
    assert!(!is_possible(&[&deleted[..], &[sees(None)]].concat()));
}

#[test]
fn writes_follow_the_settings_once_those_are_acknowledged() {
    assert!(!is_possible(&[put(1, id(1))]));
    assert!(!is_possible(&[ENABLE, put(1, NULL)]));
    assert!(is_possible(&[
        (Call::Enable, None),
        put(1, NULL),
        put(2, id(2))
    ]));
    assert!(!is_possible(&[
        (Call::Enable, None),
        put(2, id(2)),
        put(1, NULL)
    ]));
    let suspend = (Call::Suspend, Some(Reply::Done));
    assert!(is_possible(&[
        ENABLE,
        suspend,
        put(1, NULL),
        put(2, NULL),
        finds(NULL, Some((Some(2), false)))
    ]));
    assert!(!is_possible(&[
        ENABLE,
        suspend,
        put(1, NULL),
        put(2, NULL),
        finds(NULL, Some((Some(1), false)))
    ]));
}

/// A reader may complete a write of the null version that began before versioning was enabled for
/// good.
#[test]
fn a_lost_write_by_older_settings_may_show_late() {
    let (lost, enabling) = ((put(1, NULL).0, None), (Call::Enable, None));
    let shows = [put(2, id(2)), sees(Some((id(2), 2))), sees(Some((NULL, 1)))];
    assert!(is_possible(&[&[lost, ENABLE], &shows[..]].concat()));
    assert!(is_possible(
        &[&[enabling], &shows[..1], &[lost], &shows[1..]].concat()
    ));
    assert!(!is_possible(&[&[ENABLE, lost], &shows[..]].concat()));
    let suspended = (Call::Suspend, Some(Reply::Done));
    assert!(is_possible(
        &[&[ENABLE, suspended, lost, ENABLE], &shows[..]].concat()
    ));
    assert!(!is_possible(
        &[&[suspended, ENABLE, lost], &shows[..]].concat()
    ));
}

#[test]
fn a_marker_hides_and_is_a_version() {
    let marked = [
        ENABLE,
        put(1, id(1)),
        (Call::Delete, Some(Reply::Made(id(2)))),
    ];
    assert!(is_possible(
        &[
            &marked[..],
            &[sees(None), finds(id(2), Some((None, false)))]
        ]
        .concat()
    ));
    assert!(!is_possible(
        &[&marked[..], &[sees(Some((id(1), 1)))]].concat()
    ));
    let lost = [
        ENABLE,
        put(1, id(1)),
        (Call::Delete, None),
        sees(None),
        finds(id(2), Some((None, false))),
    ];
    assert!(is_possible(&lost));
    assert!(
        !is_possible(&[&lost[..], &[finds(id(3), Some((None, false)))]].concat()),
        "two of one deletion"
    );
}

#[test]
fn a_held_version_stays() {
    let hold = |on| (Call::Hold(id(1), on), Some(Reply::Done));
    let delete = |reply| (Call::DeleteVersion(id(1)), Some(reply));
    let held = [ENABLE, put(1, id(1)), hold(true)];
    assert!(is_possible(
        &[&held[..], &[delete(Reply::Refused)]].concat()
    ));
    assert!(!is_possible(&[&held[..], &[delete(Reply::Done)]].concat()));
    assert!(is_possible(
        &[&held[..], &[hold(false), delete(Reply::Done)]].concat()
    ));
    assert!(!is_possible(
        &[&held[..], &[hold(false), delete(Reply::Refused)]].concat()
    ));
    assert!(is_possible(
        &[
            &held[..],
            &[(Call::Hold(id(1), false), None), delete(Reply::Done)]
        ]
        .concat()
    ));
}

#[test]
fn a_condition_looks_at_the_current_object() {
    let condition = |expected, reply| {
        (
            Call::Put {
                value: 9,
                expected: Some(expected),
            },
            Some(reply),
        )
    };
    let one = [ENABLE, put(1, id(1))];
    assert!(is_possible(
        &[&one[..], &[condition(Some(1), Reply::Made(id(2)))]].concat()
    ));
    assert!(!is_possible(
        &[&one[..], &[condition(None, Reply::Made(id(2)))]].concat()
    ));
    assert!(is_possible(
        &[&one[..], &[condition(None, Reply::Saw(Some((id(1), 1))))]].concat()
    ));
    assert!(!is_possible(
        &[
            &one[..],
            &[condition(Some(1), Reply::Saw(Some((id(1), 1))))]
        ]
        .concat()
    ));
}

#[test]
fn lifecycle_rules_remove_what_is_not_current_and_not_held() {
    let two = [ENABLE, put(1, id(1)), put(2, id(2))];
    let gone = |more: &[(Call, Option<Reply>)]| {
        explain(&history(&[&two[..], more].concat()), &[], true) == Answer::Possible
    };
    assert!(gone(&[finds(id(1), None)]));
    assert!(!gone(&[
        finds(id(1), None),
        finds(id(1), Some((Some(1), false)))
    ]));
    assert!(!gone(&[finds(id(2), None)]));
    assert!(!gone(&[
        (Call::Hold(id(1), true), Some(Reply::Done)),
        finds(id(1), None)
    ]));
}

#[test]
fn a_lost_write_may_have_replaced_the_null_version() {
    let lost = (
        Call::Put {
            value: 2,
            expected: None,
        },
        None,
    );
    let suspend = [
        ENABLE,
        (Call::Suspend, Some(Reply::Done)),
        put(1, NULL),
        lost,
    ];
    assert!(is_possible(
        &[&suspend[..], &[finds(NULL, Some((Some(1), false)))]].concat()
    ));
    assert!(!is_possible(&[&suspend[..], &[finds(NULL, None)]].concat()));
    assert!(is_possible(
        &[
            &suspend[..],
            &[put(3, id(3)), finds(NULL, Some((Some(2), false)))]
        ]
        .concat()
    ));
}

/// The null version was the only one, and was deleted. Then a deletion without an answer came back,
/// and a listing put a delete marker above it.
#[test]
fn a_write_that_comes_back_to_an_empty_key_gets_a_delete_marker() {
    let lost = (Call::Delete, None);
    let two_markers = [
        finds(id(4), Some((None, false))),
        finds(id(9), Some((None, false))),
        sees(None),
    ];
    let deleted = (Call::DeleteVersion(NULL), Some(Reply::Done));
    let nothing_left = [put(1, NULL), ENABLE, deleted, lost];
    assert!(is_possible(&[&nothing_left[..], &two_markers].concat()));
    let one_left = [put(1, NULL), ENABLE, lost];
    assert!(!is_possible(&[&one_left[..], &two_markers].concat()));
}

/// A minority has a write without an answer. Another write with the same condition does not see it,
/// and takes effect; or a decision about another version writes the current one again. Both keep
/// the lost write as a version.
#[test]
fn a_lost_write_may_be_kept_beside_the_current_version() {
    let if_one = |value| Call::Put {
        value,
        expected: Some(Some(1)),
    };
    let lost = [ENABLE, put(1, id(1)), (if_one(2), None)];
    let kept = finds(id(2), Some((Some(2), false)));
    let shows = |more: &[(Call, Option<Reply>)]| is_possible(&[&lost[..], more].concat());
    let other = (if_one(3), Some(Reply::Made(id(3))));
    assert!(shows(&[other, sees(Some((id(3), 3))), kept]));
    assert!(shows(&[
        sees(Some((id(1), 1))),
        kept,
        sees(Some((id(1), 1)))
    ]));
    let deletes = (Call::DeleteVersion(id(3)), Some(Reply::Done));
    assert!(shows(&[other, kept, deletes, sees(Some((id(2), 2)))]));
    assert!(!shows(&[other, kept, deletes, sees(Some((id(1), 1)))]));
    let marker = finds(id(2), Some((None, false)));
    let deletion = [ENABLE, put(1, id(1)), (Call::Delete, None), marker];
    assert!(is_possible(
        &[&deletion[..], &[sees(Some((id(1), 1)))]].concat()
    ));
    let acknowledged = [
        ENABLE,
        put(1, id(1)),
        (if_one(2), Some(Reply::Made(id(2)))),
        other,
    ];
    assert!(!is_possible(&acknowledged));
    let never_met = [ENABLE, put(4, id(1)), (if_one(2), None), kept];
    assert!(!is_possible(&never_met), "its condition was never met");
}

/// A minority has a put without an answer. Another put does not see it and takes effect. The majority learns of the lost put
/// from anti-entropy, when its condition no longer holds.
#[test]
fn a_lost_write_may_show_when_its_condition_no_longer_holds() {
    let if_none = |value| Call::Put {
        value,
        expected: Some(None),
    };
    let lost = (if_none(2), None);
    let absent = (Call::Retain(id(2), 9), Some(Reply::Absent));
    let kept = finds(id(2), Some((Some(2), false)));
    let shows = |all: &[(Call, Option<Reply>)]| is_possible(&[&[ENABLE][..], all].concat());
    assert!(shows(&[lost, put(3, id(3)), absent, kept]));
    assert!(shows(&[lost, put(3, id(3)), kept]));
    assert!(!shows(&[put(3, id(3)), lost, absent, kept]));
    assert!(!shows(&[lost, put(3, id(3)), kept, finds(id(2), None)]));
    let deletes = |n| (Call::DeleteVersion(id(n)), Some(Reply::Done));
    let late = [lost, put(3, id(3)), put(4, id(4)), absent, kept, deletes(4)];
    assert!(shows(&[&late[..], &[sees(Some((id(3), 3)))]].concat()));
    assert!(!shows(&[&late[..], &[sees(Some((id(2), 2)))]].concat()));
}

/// The first write of a key is lost, and so is a write of the null version from before versions
/// were enabled.
#[test]
fn a_lost_null_version_may_be_kept_beside_the_current_version() {
    let create = |value| Call::Put {
        value,
        expected: Some(None),
    };
    let kept = finds(NULL, Some((Some(2), false)));
    let created = (create(3), Some(Reply::Made(id(3))));
    let current = sees(Some((id(3), 3)));
    let lost = (create(2), None);
    assert!(is_possible(&[lost, ENABLE, created, kept, current]));
    assert!(!is_possible(&[ENABLE, lost, created, kept, current]));
    let replaces = [
        put(1, NULL),
        (put(2, NULL).0, None),
        ENABLE,
        put(3, id(3)),
        finds(NULL, Some((Some(1), false))),
        kept,
        current,
    ];
    assert!(is_possible(&replaces));
    let back = finds(NULL, Some((Some(1), false)));
    assert!(!is_possible(&[&replaces[..], &[back]].concat()));
}

/// Nobody saw the id of a delete marker before a lifecycle rule removed it.
#[test]
fn lifecycle_rules_may_remove_a_delete_marker_that_nobody_saw() {
    let all = history(&[
        ENABLE,
        put(1, id(1)),
        (Call::Delete, None),
        sees(None),
        put(2, id(3)),
        sees(Some((id(3), 2))),
    ]);
    assert_eq!(explain(&all, &[], true), Answer::Possible);
    assert_eq!(explain(&all, &[], false), Answer::Impossible);
}
