//! Nodes that have not heard that versions were enabled, and write the null version.

use archipel_model::{BucketLock, LockChange, ModelOptions, ObjectMeta, ObjectWriter};

use super::*;

/// The clock of the last node is ahead by so much. Stamps tolerate it.
const AHEAD: Duration = Duration::from_secs(50);

async fn finish(writer: ObjectWriter, tag: &str) -> Result<ObjectHead, Error> {
    let meta = ObjectMeta {
        etag: tag.to_owned(),
        ..ObjectMeta::default()
    };
    writer.finish(meta, Condition::Always).await
}

/// Returns the null version as the last node reads it from its own replica and the first node's.
async fn null_at_the_last(system: &mut System) -> String {
    system.cut(Some(1));
    let model = system.models[2].clone();
    let bucket = system.bucket_of(&model).await;
    // A read of the object completes what the replica has.
    let _ = model.head_object(&bucket, "a").await;
    let head = model.head_version(&bucket, "a", VersionId::Null).await;
    system.cut(None);
    head.unwrap().etag
}

/// The node's replica took the write, no other did, and a reader completed it later.
#[tokio::test(start_paused = true)]
async fn a_write_that_begins_after_versions_were_enabled_replaces_nothing() {
    let mut system = System::new(3).await;
    system.put("a", "old", Condition::Always).await.unwrap();
    system.cut(Some(2));
    let enabled = system.models[0].set_versioning(&system.bucket, Versioning::Enabled);
    enabled.await.unwrap();

    let late = system.models[2].clone();
    let written = match late.find_bucket("bucket").await {
        Ok(found) => {
            let writer = late.begin_object(&found.unwrap(), "a").unwrap();
            finish(writer, "late").await.map(|_| ())
        }
        Err(error) => Err(error),
    };
    assert!(written.is_err(), "{written:?}");
    assert_eq!(null_at_the_last(&mut system).await, "old");
}

/// The node that is cut off goes by a longer lease than the one that answers.
#[tokio::test(start_paused = true)]
async fn new_settings_wait_for_as_long_as_other_nodes_go_by_old_ones() {
    let lease = |node: usize| Duration::from_secs([30, 30, 600][node]);
    let options = |node| ModelOptions {
        control_lease: lease(node),
        ..ModelOptions::default()
    };
    let mut system = System::with(3, options).await;
    system.put("a", "old", Condition::Always).await.unwrap();
    system.cut(Some(2));
    let first = &system.models[0];
    let enabled = first.set_versioning(&system.bucket, Versioning::Enabled);
    enabled.await.unwrap();
    let late = system.models[2].find_bucket("bucket").await;
    assert!(matches!(late, Err(Error::Unconfirmed(_))), "{late:?}");
}

/// The write began before versions were enabled, so it may replace the null version. But it must not
/// do so after a client was told that the null version is protected.
#[tokio::test(start_paused = true)]
async fn a_write_from_before_replaces_no_protected_null_version() {
    let mut system = System::new(3).await;
    system.put("a", "old", Condition::Always).await.unwrap();
    let world = system.world.as_ref().unwrap();
    world.set_clock_ahead(2, AHEAD);
    let late = system.models[2].begin_object(&system.bucket, "a").unwrap();
    system.cut(Some(2));
    let first = system.models[0].clone();
    let enabled = first.set_versioning(&system.bucket, Versioning::Enabled);
    enabled.await.unwrap();
    first.refresh_all().await.unwrap();
    let locked = first.set_bucket_lock(&system.bucket, BucketLock::default());
    let bucket = locked.await.unwrap();
    first.refresh_all().await.unwrap();
    let written = finish(late, "late").await;
    assert!(written.is_err(), "{written:?}");

    let hold = || {
        let change = LockChange::LegalHold(true);
        first.change_lock(&bucket, "a", Some(VersionId::Null), change)
    };
    let held = hold().await;
    let protected = match held {
        Ok(_) => first.head_version(&bucket, "a", VersionId::Null).await,
        // Not all replicas answer, so none may be told.
        Err(Error::Unavailable(_)) => {
            system.cut(None);
            hold().await.unwrap();
            first.head_version(&bucket, "a", VersionId::Null).await
        }
        Err(error) => panic!("{error}"),
    };
    let protected = protected.unwrap();
    assert_eq!(protected.lock.legal_hold, Some(true));
    assert_eq!(null_at_the_last(&mut system).await, protected.etag);
    for model in &system.models {
        let head = model.head_version(&bucket, "a", VersionId::Null).await;
        assert_eq!(head.unwrap(), protected);
    }
}

/// The fences of two replicas refuse the write, and the node's own replica takes it. If the node then wrote
/// a version with a name, the replica would keep the first attempt as the null version, too.
#[tokio::test(start_paused = true)]
async fn a_write_that_fences_refuse_is_not_also_the_null_version() {
    let mut system = System::new(3).await;
    system.put("a", "old", Condition::Always).await.unwrap();
    let late = system.models[2].begin_object(&system.bucket, "a").unwrap();
    system.cut(Some(2));
    let first = system.models[0].clone();
    let enabled = first.set_versioning(&system.bucket, Versioning::Enabled);
    enabled.await.unwrap();
    first.refresh_all().await.unwrap();
    // The new version gets a later stamp than the write.
    let world = system.world.as_ref().unwrap();
    for node in [0, 1] {
        world.set_clock_ahead(node, AHEAD);
    }
    system.put("a", "new", Condition::Always).await.unwrap();
    system.cut(None);
    while system.models[2].refresh_all().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let written = finish(late, "late").await;
    assert!(matches!(written, Err(Error::Unavailable(_))), "{written:?}");
}

/// Writes these versions of an object, the oldest first, and lets a node that has not heard of versions delete it. A
/// reader completes that. Returns the ids of the versions.
async fn deleted_from_before(system: &mut System, tags: &[&str]) -> Vec<VersionId> {
    let world = system.world.as_ref().unwrap();
    world.set_clock_ahead(2, AHEAD);
    let (late, before) = (system.models[2].clone(), system.bucket.clone());
    system.cut(Some(2));
    let first = system.models[0].clone();
    let enabled = first.set_versioning(&system.bucket, Versioning::Enabled);
    enabled.await.unwrap();
    first.refresh_all().await.unwrap();
    let mut ids = Vec::new();
    for tag in tags {
        let put = system.put("a", tag, Condition::Always).await;
        ids.push(put.unwrap().id);
    }
    let deleted = late.delete_object(&before, "a", Condition::Always).await;
    assert!(deleted.is_err(), "{deleted:?}");

    // A reader completes what the replica has.
    system.cut(Some(1));
    while late.refresh_all().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let bucket = system.bucket_of(&late).await;
    let read = late.head_object(&bucket, "a").await;
    assert_eq!(read, Err(Error::NoSuchKey));
    system.cut(None);
    ids
}

/// Checks that all nodes list a delete marker as the latest version and `older` behind it, and that the object is not
/// found. Returns the marker.
async fn lists_a_marker(system: &System, older: VersionId) -> VersionId {
    let mut listings = Vec::new();
    for model in &system.models {
        let bucket = system.bucket_of(model).await;
        let listed = all_versions(model, &bucket, 1000).await;
        let [(_, marker, true), (_, below, false)] = listed.as_slice() else {
            panic!("{listed:?}");
        };
        assert!(marker.is_marker, "{listed:?}");
        assert_eq!(below.id, older);
        let read = model.head_object(&bucket, "a").await;
        assert!(
            matches!(&read, Err(Error::Deleted(it)) if it.id == marker.id),
            "{read:?}"
        );
        listings.push(listed);
    }
    listings.dedup();
    assert_eq!(listings.len(), 1);
    listings[0][0].1.id
}

/// The row of the object is deleted, and no delete marker says so. A listing used to name the older version as
/// the latest one, while the object was not found.
#[tokio::test(start_paused = true)]
async fn a_deletion_from_before_becomes_a_delete_marker() {
    let mut system = System::new(3).await;
    let ids = deleted_from_before(&mut system, &["new"]).await;
    let marker = lists_a_marker(&system, ids[0]).await;
    // As after any deletion, the version is current again without the marker.
    let first = system.models[0].clone();
    let bucket = system.bucket_of(&first).await;
    let removed =
        first.delete_version(&bucket, "a", marker, Governance::Respect, Condition::Always);
    removed.await.unwrap();
    assert_eq!(first.head_object(&bucket, "a").await.unwrap().id, ids[0]);
}
