//! Rules at work in buckets with versions.

use archipel_cluster::VersionDecision;

use super::*;
use crate::expiry::remove::Tried;
use crate::lifecycle::NoncurrentExpiration;
use crate::lock::{BucketLock, ObjectLock, Retention, RetentionMode};
use crate::version::Versioning;
use crate::versions::head_of;
use crate::{LockChange, ModelOptions};

pub(super) async fn versioned() -> (Model, Arc<ManualClock>) {
    let (model, wall) = model().await;
    set_versioning(&model, Versioning::Enabled).await;
    (model, wall)
}

async fn set_versioning(model: &Model, versioning: Versioning) {
    let bucket = bucket(model);
    let set = model.set_versioning(&bucket, versioning);
    set.await.unwrap();
}

/// Writes an object of this size and returns its id.
pub(super) async fn written(model: &Model, key: &str, size: usize) -> VersionId {
    put(model, key, size, &[]).await;
    model.head_object(&bucket(model), key).await.unwrap().id
}

async fn deleted(model: &Model, key: &str) -> VersionId {
    let on = bucket(model);
    let gone = model.delete_object(&on, key, Condition::Always);
    gone.await.unwrap().id.unwrap()
}

/// Returns true if a version is there, even if it is a delete marker.
pub(super) async fn lives(model: &Model, key: &str, id: VersionId) -> bool {
    match model.head_version(&bucket(model), key, id).await {
        Ok(_) | Err(Error::IsMarker(_)) => true,
        Err(Error::NoSuchVersion) => false,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn noncurrent(prefix: &str, days: u32, keep: Option<u32>) -> LifecycleRule {
    LifecycleRule {
        expiration: None,
        noncurrent: Some(NoncurrentExpiration { days, keep }),
        ..rule(prefix, Expiration::Days(1))
    }
}

#[tokio::test]
async fn an_object_gets_a_delete_marker_and_stays_below_it() {
    let (model, wall) = versioned().await;
    let progress = &mut Progress::default();
    set(&model, vec![rule("", Expiration::Days(1))]).await;
    let id = written(&model, "k", 100).await;
    wall.advance(3 * DAY_MS / 2);
    let done = expire(&model, progress).await;
    assert_eq!((done.objects, done.bytes), (1, 0));
    let gone = model.head_object(&bucket(&model), "k").await;
    assert!(matches!(gone, Err(Error::Deleted(_))), "{gone:?}");
    assert!(lives(&model, "k", id).await);
    // The marker is older than a day, but it covers a version.
    wall.advance(5 * DAY_MS);
    let done = expire(&model, progress).await;
    assert_eq!((done.objects, done.markers, done.versions), (0, 0, 0));
    assert!(lives(&model, "k", id).await);
}

#[tokio::test]
async fn a_null_version_is_replaced_where_versions_are_suspended() {
    let (model, wall) = model().await;
    set(&model, vec![rule("", Expiration::Days(1))]).await;
    set_versioning(&model, Versioning::Enabled).await;
    let kept = written(&model, "named", 10).await;
    set_versioning(&model, Versioning::Suspended).await;
    assert_eq!(written(&model, "null", 100).await, VersionId::Null);
    wall.advance(3 * DAY_MS / 2);
    let done = expire(&model, &mut Progress::default()).await;
    assert_eq!((done.objects, done.bytes), (2, 100));
    for key in ["named", "null"] {
        let gone = model.head_object(&bucket(&model), key).await;
        let Err(Error::Deleted(marker)) = gone else {
            panic!("{gone:?}");
        };
        assert_eq!(marker.id, VersionId::Null);
    }
    assert!(lives(&model, "named", kept).await);
    // The null version is the marker itself.
    let on = bucket(&model);
    let null = model.head_version(&on, "null", VersionId::Null);
    assert!(matches!(null.await, Err(Error::IsMarker(_))));
}

#[tokio::test]
async fn a_version_goes_at_the_midnight_after_its_days_as_noncurrent() {
    let (model, wall) = versioned().await;
    let progress = &mut Progress::default();
    set(&model, vec![noncurrent("", 2, None)]).await;
    let first = written(&model, "k", 100).await;
    wall.advance(9 * DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 0, "it is current");
    let second = written(&model, "k", 200).await;
    wall.advance(DAY_MS);
    let marker = deleted(&model, "k").await;
    wall.advance(DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 0);
    wall.advance(DAY_MS / 2);
    let done = expire(&model, progress).await;
    assert_eq!((done.versions, done.bytes), (1, 100));
    assert!(!lives(&model, "k", first).await);
    assert!(lives(&model, "k", second).await);
    wall.advance(DAY_MS);
    let done = expire(&model, progress).await;
    assert_eq!((done.versions, done.bytes), (1, 200));
    assert!(!lives(&model, "k", second).await);
    // The marker is current, and no rule is for markers.
    assert!(lives(&model, "k", marker).await);
}

#[tokio::test]
async fn a_noncurrent_marker_and_the_null_version_go_likewise() {
    let (model, wall) = model().await;
    put(&model, "k", 100, &[]).await;
    set_versioning(&model, Versioning::Enabled).await;
    wall.advance(1);
    let marker = deleted(&model, "k").await;
    wall.advance(DAY_MS);
    let last = written(&model, "k", 1).await;
    set(&model, vec![noncurrent("", 1, None)]).await;
    wall.advance(DAY_MS / 2);
    let progress = &mut Progress::default();
    let done = expire(&model, progress).await;
    assert_eq!((done.versions, done.bytes), (1, 100), "the null version");
    assert!(!lives(&model, "k", VersionId::Null).await);
    assert!(lives(&model, "k", marker).await);
    wall.advance(DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 1);
    assert!(!lives(&model, "k", marker).await);
    assert!(lives(&model, "k", last).await);
}

#[tokio::test]
async fn a_marker_goes_when_it_is_the_only_version() {
    let (model, wall) = versioned().await;
    let progress = &mut Progress::default();
    let mut markers = Vec::new();
    for key in ["days/k", "now/k", "off/k", "covers/k"] {
        let id = written(&model, key, 1).await;
        wall.advance(1);
        markers.push((key, deleted(&model, key).await));
        if key != "covers/k" {
            let on = bucket(&model);
            let gone = model.delete_version(&on, key, id, false, Condition::Always);
            gone.await.unwrap();
        }
    }
    let rules = vec![
        rule("days/", Expiration::Days(2)),
        rule("now/", Expiration::DeleteMarkers(true)),
        rule("off/", Expiration::DeleteMarkers(false)),
        rule("covers/", Expiration::DeleteMarkers(true)),
    ];
    set(&model, rules).await;
    let left = async || {
        let mut left = Vec::new();
        for (key, marker) in &markers {
            if lives(&model, key, *marker).await {
                left.push(*key);
            }
        }
        left
    };
    assert_eq!(expire(&model, progress).await.markers, 1);
    assert_eq!(left().await, ["days/k", "off/k", "covers/k"]);
    wall.advance(3 * DAY_MS);
    let done = expire(&model, progress).await;
    assert_eq!((done.markers, done.objects), (1, 0));
    assert_eq!(left().await, ["off/k", "covers/k"]);
}

#[tokio::test]
async fn a_protected_version_stays_until_its_protection_ends() {
    let (model, wall) = versioned().await;
    let progress = &mut Progress::default();
    let on = bucket(&model);
    let locked = model.set_bucket_lock(&on, BucketLock::default());
    locked.await.unwrap();
    set(&model, vec![noncurrent("", 1, None)]).await;
    let retention = Retention {
        mode: RetentionMode::Governance,
        until_ms: NOON + 10 * DAY_MS,
    };
    let ids = [
        written(&model, "retained", 1).await,
        written(&model, "held", 1).await,
    ];
    let on = bucket(&model);
    for (key, change) in [
        (
            "retained",
            LockChange::Retention {
                retention: Some(retention),
                bypass: false,
            },
        ),
        ("held", LockChange::LegalHold(true)),
    ] {
        model.change_lock(&on, key, None, change).await.unwrap();
        wall.advance(1);
        written(&model, key, 1).await;
    }
    wall.advance(5 * DAY_MS);
    let done = expire(&model, progress).await;
    assert_eq!((done.versions, done.skipped), (0, 0));
    wall.advance(6 * DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 1);
    assert!(!lives(&model, "retained", ids[0]).await);
    let lifted = model.change_lock(&on, "held", Some(ids[1]), LockChange::LegalHold(false));
    lifted.await.unwrap();
    wall.advance(DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 1);
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
    let seen = |successor: &ObjectHead| Seen::Noncurrent {
        key: "k".into(),
        head: old.clone(),
        since_ms: NOON,
        successor: (successor.id, successor.version),
        current: None,
        newer: 0,
    };

    // The marker covers a version that this walk did not see.
    let Err(Error::Deleted(told)) = model.head_object(&on, "k").await else {
        panic!("there is a marker");
    };
    let decide = |versions: &archipel_cluster::VersionSeen<'_>| {
        let head = head_of(versions.named.unwrap()).unwrap().unwrap();
        assert!(!versions.is_alone && versions.is_current && head.is_marker);
        VersionDecision::Abort(head)
    };
    let how = crate::versions::Deciding {
        taking: None,
        happening: None,
        by_all: false,
        background: true,
    };
    let decided = model.decide(&on, "k", told.id, how, &decide).await;
    let decided = decided.unwrap();
    let head = decided.unwrap_err();
    let key = String::from("k");
    let tried = model.remove(&on, Seen::Marker { key, head }, None).await;
    assert_eq!(tried, Tried::Kept);
    assert!(lives(&model, "k", marker).await);

    // The version that was noncurrent is the current one again.
    let gone = model.delete_version(&on, "k", marker, false, Condition::Always);
    gone.await.unwrap();
    assert_eq!(model.remove(&on, seen(&old), None).await, Tried::Kept);
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
    let successor = model.head_object(&on, "k").await.unwrap();
    let tried = model.remove(&on, seen(&successor), None).await;
    assert_eq!(tried, Tried::Kept);
    assert!(lives(&model, "k", id).await);
    let lock = ObjectLock {
        legal_hold: Some(true),
        ..ObjectLock::default()
    };
    assert_eq!(model.head_version(&on, "k", id).await.unwrap().lock, lock);
    assert_eq!(model.expiry_status().counts.skipped, skipped + 2);
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
    let successor = model.head_object(&on, "k").await.unwrap();
    wall.advance(3 * DAY_MS);
    let gone = model.delete_version(&on, "k", second, false, Condition::Always);
    gone.await.unwrap();
    written(&model, "k", 1).await;

    let seen = Seen::Noncurrent {
        key: "k".into(),
        head: old,
        since_ms: NOON,
        successor: (successor.id, successor.version),
        current: None,
        newer: 0,
    };
    assert_eq!(model.remove(&on, seen, None).await, Tried::Kept);
    assert!(lives(&model, "k", id).await);
    assert_eq!(model.expiry_status().counts.skipped, 1);
}

/// Each part is walked by its first live replica.
#[tokio::test(start_paused = true)]
async fn replicas_divide_the_versions() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        let options = ModelOptions {
            day: Duration::from_millis(1),
            ..ModelOptions::default()
        };
        let opened = Model::open_with(node.clone(), options);
        models.push(opened.await.unwrap());
    }
    models[0].create_bucket("bucket", None).await.unwrap();
    set_versioning(&models[0], Versioning::Enabled).await;
    for _ in 0..3 {
        for n in 0..40 {
            put(&models[0], &format!("k{n}"), 1, &[]).await;
        }
    }
    let always = Lifecycle {
        rules: vec![noncurrent("", 0, None)],
        ..Lifecycle::default()
    };
    models[0]
        .set_lifecycle(&bucket(&models[0]), Some(always))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut removed = Vec::new();
    for model in &models {
        let done = expire(model, &mut Progress::default()).await;
        removed.push(done.versions);
    }
    assert_eq!(removed.iter().sum::<u64>(), 80, "{removed:?}");
    assert!(removed.iter().all(|count| *count > 0), "{removed:?}");
    assert_eq!(keys(&models[0]).await.len(), 40);
}
