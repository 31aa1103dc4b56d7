//! Removals are decided on what is there at that moment, not on what the walk saw.

use archipel_base::Stamp;
use archipel_cluster::{VersionDecision, VersionSeen};

use super::versions::{deleted, last_of, lives, noncurrent, versioned, written};
use super::*;
use crate::LockChange;
use crate::expiry::remove::Tried;
use crate::lock::{BucketLock, Governance, ObjectLock};
use crate::versions::head_of;

/// Returns a version of the key `k` as a walk saw it, noncurrent for long.
fn seen(head: &ObjectHead, last: Stamp) -> Seen {
    Seen::Noncurrent(Noncurrent {
        key: "k".into(),
        head: head.clone(),
        last,
        since_ms: NOON,
        behind: None,
        newer: 0,
    })
}

/// A walk that saw too much decides about what is there now.
#[tokio::test]
async fn only_what_still_is_as_the_walk_saw_it_is_removed() {
    let (model, wall) = versioned().await;
    let rules = vec![
        noncurrent("", 1, None),
        rule("", Expiration::DeleteMarkers(true)),
    ];
    set(&model, rules).await;
    let on = bucket(&model);
    let id = written(&model, "k", 1).await;
    let old = model.head_object(&on, "k").await.unwrap();
    wall.advance(1);
    let marker = deleted(&model, "k").await;
    wall.advance(3 * DAY_MS);
    let skipped = model.expiry_status().counts.skipped;
    let seen = |last| seen(&old, last);
    let last = last_of(&model, "k", id).await.unwrap();

    // The marker covers a version that this walk did not see.
    let Err(Error::Deleted(told)) = model.head_object(&on, "k").await else {
        panic!("there is a marker");
    };
    let decide = |versions: &VersionSeen<'_>| {
        let head = head_of(versions.named.unwrap()).unwrap().unwrap();
        assert!(!versions.is_alone && versions.is_current && head.is_marker);
        VersionDecision::Abort(head)
    };
    let how = crate::versions::Deciding {
        taking: None,
        happening: None,
        by_all: false,
        background: true,
        unlisted: false,
    };
    let decided = model.decide(&on, "k", told.id, how, &decide).await;
    let decided = decided.unwrap();
    let head = decided.unwrap_err();
    let key = String::from("k");
    let tried = model.remove(&on, Seen::Marker { key, head }).await;
    assert_eq!(tried, Tried::Kept);
    assert!(lives(&model, "k", marker).await);

    // The version that was noncurrent is the current one again.
    let gone = model.delete_version(&on, "k", marker, Governance::Respect, Condition::Always);
    gone.await.unwrap();
    assert_eq!(last_of(&model, "k", id).await, None);
    assert_eq!(model.remove(&on, seen(last)).await, Tried::Kept);
    assert!(lives(&model, "k", id).await);
    assert_eq!(model.expiry_status().counts.skipped, skipped + 1);

    // It is protected by now.
    model
        .set_bucket_lock(&on, BucketLock::default())
        .await
        .unwrap();
    let on = bucket(&model);
    let held = LockChange::LegalHold(true);
    model.change_lock(&on, "k", Some(id), held).await.unwrap();
    written(&model, "k", 1).await;
    let last = last_of(&model, "k", id).await.unwrap();
    assert_eq!(model.remove(&on, seen(last)).await, Tried::Kept);
    assert!(lives(&model, "k", id).await);
    let lock = ObjectLock {
        legal_hold: Some(true),
        ..ObjectLock::default()
    };
    assert_eq!(model.head_version(&on, "k", id).await.unwrap().lock, lock);
    assert_eq!(model.expiry_status().counts.skipped, skipped + 2);
    let lifted = LockChange::LegalHold(false);
    model.change_lock(&on, "k", Some(id), lifted).await.unwrap();
    assert_eq!(model.remove(&on, seen(last)).await, Tried::Removed);
}

/// A replica that lags does not know that a version's successor was removed, and that it became
/// noncurrent only now.
#[tokio::test]
async fn a_version_stays_if_the_successor_that_the_walk_saw_was_removed() {
    let (model, wall) = versioned().await;
    set(&model, vec![noncurrent("", 1, None)]).await;
    let on = bucket(&model);
    let id = written(&model, "k", 1).await;
    let old = model.head_object(&on, "k").await.unwrap();
    wall.advance(1);
    let second = written(&model, "k", 1).await;
    wall.advance(3 * DAY_MS);
    let last = last_of(&model, "k", id).await.unwrap();
    let gone = model.delete_version(&on, "k", second, Governance::Respect, Condition::Always);
    gone.await.unwrap();
    written(&model, "k", 1).await;

    assert_eq!(model.remove(&on, seen(&old, last)).await, Tried::Kept);
    assert!(lives(&model, "k", id).await);
    assert_eq!(model.expiry_status().counts.skipped, 1);
}

/// A client deleted the successor after the walk saw it. The version has not been current since.
#[tokio::test]
async fn a_version_goes_although_its_successor_was_deleted() {
    let (model, wall) = versioned().await;
    set(&model, vec![noncurrent("", 1, None)]).await;
    let on = bucket(&model);
    let id = written(&model, "k", 1).await;
    let old = model.head_object(&on, "k").await.unwrap();
    let successor = written(&model, "k", 1).await;
    written(&model, "k", 1).await;
    let last = last_of(&model, "k", id).await.unwrap();
    wall.advance(3 * DAY_MS);
    let gone = model.delete_version(&on, "k", successor, Governance::Respect, Condition::Always);
    gone.await.unwrap();
    assert_eq!(model.remove(&on, seen(&old, last)).await, Tried::Removed);
    assert!(!lives(&model, "k", id).await);
}
