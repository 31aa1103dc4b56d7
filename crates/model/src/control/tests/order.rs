//! Reads that overlap, and the order in which the cache takes them.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::ManualClock;
use archipel_base::{Id, codec};
use bytes::Bytes;

use super::super::Control;
use super::super::cache::Cached;
use crate::bucket::{AccessKey, Secret};
use crate::{Error, rowkeys};

const ID: &str = "AKREAD";

fn control() -> Control {
    Control::new(
        Duration::from_secs(30),
        Arc::new(ManualClock::default()),
        Arc::new(()),
    )
}

fn row(id: &str) -> Bytes {
    rowkeys::access_key(id).key
}

/// Returns the metadata of the row of an access key with this name.
fn head(id: &str, name: &str) -> Bytes {
    let key = AccessKey {
        name: name.into(),
        incarnation: Id([1; 16]),
        ..AccessKey::new(id.into(), Secret::new("secret-one".into()))
    };
    codec::encode(&key).into()
}

/// All rows, as a complete read finds them: ids and names of access keys.
fn found(rows: &[(&str, &str)]) -> Result<Cached, Error> {
    let mut found = Cached::default();
    for (id, name) in rows {
        found.put(&row(id), Some(&head(id, name)), &())?;
    }
    Ok(found)
}

fn fill(control: &Control, rows: &[(&str, &str)]) {
    control.begin_read(None).confirm(found(rows)).unwrap();
}

/// The name of the access key that is cached.
fn cached(control: &Control, id: &str) -> Option<String> {
    let name = |cached: &Cached| cached.keys.get(id).map(|key| key.name.clone());
    control.look(None, name).unwrap()
}

#[test]
fn a_read_that_began_earlier_never_replaces_one_that_began_later() {
    let control = control();
    fill(&control, &[]);
    for (earlier, later) in [
        (Some("old"), Some("new")),
        (Some("old"), None),
        (None, Some("new")),
    ] {
        let key = row(ID);
        let first = control.begin_read(Some(&key));
        let second = control.begin_read(Some(&key));
        let of_another = control.begin_read(Some(&row("AKOTHER")));
        let head_of = |name: Option<&str>| name.map(|name| head(ID, name));
        second.apply(&key, head_of(later).as_ref()).unwrap();
        first.apply(&key, head_of(earlier).as_ref()).unwrap();
        let other = head("AKOTHER", "other");
        of_another.apply(&row("AKOTHER"), Some(&other)).unwrap();
        assert_eq!(cached(&control, ID).as_deref(), later);
        assert_eq!(cached(&control, "AKOTHER").as_deref(), Some("other"));
        control.remove(&row("AKOTHER")).unwrap();
    }
}

#[test]
fn a_read_that_began_before_a_deletion_ended_does_not_bring_the_key_back() {
    let control = control();
    fill(&control, &[(ID, "old")]);
    let read = control.begin_read(Some(&row(ID)));
    let all = control.begin_read(None);
    control.remove(&row(ID)).unwrap();
    assert_eq!(cached(&control, ID), None);
    read.apply(&row(ID), Some(&head(ID, "old"))).unwrap();
    assert_eq!(cached(&control, ID), None);
    all.confirm(found(&[(ID, "old")])).unwrap();
    assert_eq!(cached(&control, ID), None);
    let again = control.begin_read(Some(&row(ID)));
    again.apply(&row(ID), Some(&head(ID, "new"))).unwrap();
    assert_eq!(cached(&control, ID).as_deref(), Some("new"));
}

/// Also where the complete read is the first one, so that the cache is still empty.
#[test]
fn a_complete_read_leaves_alone_rows_whose_read_began_later() {
    for filled in [false, true] {
        let control = control();
        let old = [("AKCHANGED", "old"), ("AKDELETED", "old"), ("AKSAME", "a")];
        if filled {
            fill(&control, &old);
        }
        let all = control.begin_read(None);
        for (id, name) in [
            ("AKCHANGED", Some("new")),
            ("AKDELETED", None),
            ("AKCREATED", Some("new")),
        ] {
            let read = control.begin_read(Some(&row(id)));
            let head = name.map(|name| head(id, name));
            read.apply(&row(id), head.as_ref()).unwrap();
            let unread = control.look(None, |_| ()).is_err();
            assert_eq!(unread, !filled, "single rows fill the cache");
        }
        all.confirm(found(&old)).unwrap();
        assert_eq!(cached(&control, "AKCHANGED").as_deref(), Some("new"));
        assert_eq!(cached(&control, "AKDELETED"), None);
        assert_eq!(cached(&control, "AKCREATED").as_deref(), Some("new"));
        assert_eq!(cached(&control, "AKSAME").as_deref(), Some("a"));
    }
}

#[test]
fn a_complete_read_overtakes_reads_that_began_earlier() {
    let control = control();
    let (applied, late) = (row("AKAPPLIED"), row("AKLATE"));
    let one = control.begin_read(Some(&applied));
    let two = control.begin_read(Some(&late));
    let all = control.begin_read(None);
    one.apply(&applied, Some(&head("AKAPPLIED", "old")))
        .unwrap();
    all.confirm(found(&[("AKLATE", "new")])).unwrap();
    two.apply(&late, Some(&head("AKLATE", "old"))).unwrap();
    assert_eq!(cached(&control, "AKAPPLIED"), None);
    assert_eq!(cached(&control, "AKLATE").as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn a_complete_read_that_began_earlier_sets_nothing_back() {
    let control = control();
    let unavailable = || Err(Error::Unavailable("too few nodes".into()));
    let (first, failing) = (control.begin_read(None), control.begin_read(None));
    tokio::time::advance(Duration::from_secs(20)).await;
    let second = control.begin_read(None);
    tokio::time::advance(Duration::from_secs(5)).await;
    second.confirm(found(&[(ID, "new")])).unwrap();
    first.confirm(found(&[(ID, "old")])).unwrap();
    assert!(failing.confirm(unavailable()).is_err());
    assert_eq!(cached(&control, ID).as_deref(), Some("new"));
    assert_eq!(control.age(), 5);
    assert!(control.is_fresh());

    let failing = control.begin_read(None);
    assert!(failing.confirm(unavailable()).is_err());
    assert!(!control.is_fresh());
    assert_eq!(control.age(), 5, "a failed read confirms nothing");
}

#[test]
fn reads_that_end_or_are_cancelled_leave_nothing_behind() {
    let control = control();
    fill(&control, &[]);
    let all = control.begin_read(None);
    for n in 0..100 {
        let key = row(&format!("AKNOBODY{n}"));
        let read = control.begin_read(Some(&key));
        drop(control.begin_read(Some(&key)));
        assert_eq!(control.reads(), 2);
        read.apply(&key, None).unwrap();
    }
    assert_eq!(control.reads(), 1);
    drop(all);
    assert_eq!(control.reads(), 0);
    fill(&control, &[]);
    assert_eq!(control.reads(), 0);
}
