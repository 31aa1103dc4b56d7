//! Rules at work in buckets with versions.

use archipel_base::Stamp;
use archipel_cluster::{VersionDecision, VersionSeen};

use super::*;
use crate::lifecycle::NoncurrentExpiration;
use crate::lock::{BucketLock, Governance, Retention, RetentionMode};
use crate::version::Versioning;
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

pub(super) async fn deleted(model: &Model, key: &str) -> VersionId {
    let on = bucket(model);
    let gone = model.delete_object(&on, key, Condition::Always);
    gone.await.unwrap().id.unwrap()
}

/// Returns the stamp under which a version was last current; `None` if it is current.
pub(super) async fn last_of(model: &Model, key: &str, id: VersionId) -> Option<Stamp> {
    let how = crate::versions::Deciding {
        taking: None,
        happening: None,
        by_all: false,
        background: true,
        unlisted: true,
    };
    let look = |versions: &VersionSeen<'_>| VersionDecision::Abort(versions.last);
    let decided = model.decide(&bucket(model), key, id, how, &look).await;
    decided.unwrap().unwrap_err()
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

/// New tags for a noncurrent version do not begin its days again, nor does a version that was
/// deleted count.
#[tokio::test]
async fn a_version_is_noncurrent_since_it_was_last_current() {
    let (model, wall) = versioned().await;
    let progress = &mut Progress::default();
    set(&model, vec![noncurrent("", 2, None)]).await;
    let first = written(&model, "k", 100).await;
    wall.advance(1);
    let lost = written(&model, "k", 1).await;
    wall.advance(9 * DAY_MS);
    let on = bucket(&model);
    let gone = model.delete_version(&on, "k", lost, Governance::Respect, Condition::Always);
    gone.await.unwrap();
    assert_eq!(model.head_object(&on, "k").await.unwrap().id, first);
    wall.advance(9 * DAY_MS);
    written(&model, "k", 200).await;
    wall.advance(DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 0);
    let tags = vec![("a".to_owned(), "b".to_owned())];
    let tagged = model.set_object_tags(&on, "k", Some(first), tags, &|_| Ok(()));
    tagged.await.unwrap();
    wall.advance(DAY_MS / 2);
    assert_eq!(expire(&model, progress).await.versions, 0);
    wall.advance(DAY_MS);
    assert_eq!(expire(&model, progress).await.versions, 1);
    assert!(!lives(&model, "k", first).await);
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
            let gone = model.delete_version(&on, key, id, Governance::Respect, Condition::Always);
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
            LockChange::Retention(Some(retention), Governance::Respect),
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

/// The successor of each version is removed in the same walk, and some of them with an earlier
/// page.
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
