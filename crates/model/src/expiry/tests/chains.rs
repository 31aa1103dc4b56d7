//! Versions of one key that expire together.

use super::versions::{lives, noncurrent, versioned, written};
use super::*;
use crate::expiry::remove::Tried;

/// The successor of each version is removed in the same walk, and some of them with an earlier page.
#[tokio::test]
async fn all_versions_of_a_key_are_removed_at_once() {
    let (model, wall) = versioned().await;
    for key in ["few", "many"] {
        let count = if key == "few" { 20 } else { 2100 };
        for _ in 0..count {
            put(&model, key, 1, &[]).await;
        }
    }
    wall.advance(3 * DAY_MS);
    set(&model, vec![noncurrent("", 1, None)]).await;
    let done = expire(&model, &mut Progress::default()).await;
    assert_eq!((done.versions, done.skipped), (19 + 2099, 0));
}

/// The walk removed the successor with the page before. Then the version was current for a moment.
#[tokio::test]
async fn a_version_stays_if_it_was_current_after_the_walk_removed_its_successor() {
    for was_current in [false, true] {
        let (model, wall) = versioned().await;
        set(&model, vec![noncurrent("", 1, None)]).await;
        let on = bucket(&model);
        let head = async || model.head_object(&on, "k").await.unwrap();
        let name = |head: &ObjectHead| (head.id, head.version);
        let id = written(&model, "k", 1).await;
        let old = head().await;
        written(&model, "k", 1).await;
        let successor = head().await;
        let last = written(&model, "k", 1).await;
        let current = head().await;
        wall.advance(3 * DAY_MS);
        let gone = model.delete_version(&on, "k", successor.id, false, Condition::Always);
        gone.await.unwrap();
        if was_current {
            let gone = model.delete_version(&on, "k", last, false, Condition::Always);
            gone.await.unwrap();
            assert_eq!(head().await.id, id);
            written(&model, "k", 1).await;
        }
        let seen = Seen::Noncurrent {
            key: "k".into(),
            head: old,
            since_ms: NOON,
            successor: name(&successor),
            current: Some(name(&current)),
            newer: 0,
        };
        let tried = model.remove(&on, seen, Some(name(&successor))).await;
        let expected = if was_current {
            Tried::Kept
        } else {
            Tried::Removed
        };
        assert_eq!(tried, expected);
        assert_eq!(lives(&model, "k", id).await, was_current);
    }
}
