mod history;
mod removals;
mod versions;
mod walks;

use archipel_base::clock::ManualClock;
use archipel_cluster::World;

use super::*;
use crate::lifecycle::{DAY_MS, Expiration, Lifecycle, LifecycleFilter, LifecycleRule};
use crate::object::Condition;
use crate::tests::timed::{NOON, timed};
use crate::{ObjectMeta, PartMeta, Tags, UploadMeta};

async fn model() -> (Model, Arc<ManualClock>) {
    let (model, wall) = timed().await;
    model.create_bucket("bucket", None).await.unwrap();
    (model, wall)
}

fn bucket(model: &Model) -> Arc<Bucket> {
    model.bucket("bucket").unwrap().unwrap()
}

async fn put(model: &Model, key: &str, size: usize, tags: &[(&str, &str)]) {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    loop {
        let mut writer = model.begin_object(&bucket(model), key).unwrap();
        writer.write(vec![7; size].into()).await.unwrap();
        let meta = ObjectMeta {
            etag: "e".into(),
            tags: tags.iter().map(owned).collect(),
            ..ObjectMeta::default()
        };
        match writer.finish(meta, Condition::Always).await {
            Ok(_) => return,
            // Under contention a node may not know whether a write took effect.
            Err(Error::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn keys(model: &Model) -> Vec<String> {
    let query = crate::ListQuery {
        limit: 10_000,
        ..crate::ListQuery::default()
    };
    let listed = model.list_objects(&bucket(model), &query).await.unwrap();
    let names = listed.entries.iter().map(|entry| entry.name().to_owned());
    names.collect()
}

fn rule(prefix: &str, expiration: Expiration) -> LifecycleRule {
    LifecycleRule {
        enabled: true,
        filter: LifecycleFilter {
            prefix: Some(prefix.into()),
            ..LifecycleFilter::default()
        },
        expiration: Some(expiration),
        ..LifecycleRule::default()
    }
}

async fn set(model: &Model, rules: Vec<LifecycleRule>) {
    let lifecycle = Lifecycle {
        rules,
        ..Lifecycle::default()
    };
    let bucket = bucket(model);
    let set = model.set_lifecycle(&bucket, Some(lifecycle));
    set.await.unwrap();
}

async fn expire(model: &Model, progress: &mut Progress) -> ExpiryCounts {
    let before = model.expiry_status().counts;
    model.expire_what_is_due(progress).await.unwrap();
    let after = model.expiry_status().counts;
    assert_eq!(after.failed, before.failed);
    ExpiryCounts {
        examined: after.examined - before.examined,
        objects: after.objects - before.objects,
        versions: after.versions - before.versions,
        markers: after.markers - before.markers,
        bytes: after.bytes - before.bytes,
        uploads: after.uploads - before.uploads,
        skipped: after.skipped - before.skipped,
        failed: 0,
    }
}

#[tokio::test]
async fn objects_vanish_at_the_midnight_after_their_days() {
    let (model, wall) = model().await;
    let progress = &mut Progress::default();
    for n in 0..40 {
        put(&model, &format!("old/{n}"), 100, &[]).await;
        put(&model, &format!("new/{n}"), 100, &[]).await;
    }
    assert_eq!(expire(&model, progress).await, ExpiryCounts::default());
    assert_eq!(model.expiry_status().next_ms, None, "no rules");
    let rules = vec![
        rule("old/", Expiration::Days(2)),
        rule("new/", Expiration::Days(9)),
    ];
    set(&model, rules).await;
    // The third midnight from NOON is the one after two days.
    for _ in 0..2 {
        assert_eq!(expire(&model, progress).await.objects, 0);
        wall.advance(DAY_MS);
    }
    wall.advance(DAY_MS / 2 - 1);
    assert_eq!(expire(&model, progress).await.objects, 0);
    assert_eq!(keys(&model).await.len(), 80);
    let midnight = NOON + 5 * DAY_MS / 2;
    assert_eq!(model.expiry_status().next_ms, Some(midnight));
    wall.advance(1);
    let done = expire(&model, progress).await;
    assert_eq!((done.objects, done.bytes, done.skipped), (40, 4000, 0));
    assert!(keys(&model).await.iter().all(|key| key.starts_with("new/")));
    assert_eq!(keys(&model).await.len(), 40);
    let status = model.expiry_status();
    let on = bucket(&model);
    let parts = rowkeys::bucket_partitions(model.cluster(), &on.id).len() as u64;
    assert_eq!((status.parts, status.parts_done), (parts, parts));
    assert!(!status.running && status.ended_ms == midnight);
    // A day has one walk.
    assert_eq!(expire(&model, progress).await, ExpiryCounts::default());
}

#[tokio::test]
async fn content_of_expired_objects_is_dropped_and_references_agree() {
    let (model, _) = model().await;
    put(&model, "large", 65 << 20, &[]).await;
    put(&model, "kept", 3 << 20, &[]).await;
    set(&model, vec![rule("l", Expiration::Date(NOON))]).await;
    let done = expire(&model, &mut Progress::default()).await;
    assert_eq!((done.objects, done.bytes), (1, 65 << 20));
    assert_eq!(model.run_all_gc_tasks().await.unwrap().dropped, 1);
    let report = model.cluster().store().verify().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    let usage = model.bucket_usage(&bucket(&model)).await.unwrap();
    assert_eq!((usage.objects, usage.bytes), (1, 3 << 20));
}

#[tokio::test]
async fn incomplete_uploads_are_aborted() {
    let (model, wall) = model().await;
    let progress = &mut Progress::default();
    let on = bucket(&model);
    let begin = async |key: &str| {
        let begun = model.create_upload(&on, key, None, UploadMeta::default());
        let upload = begun.await.unwrap();
        let writer = model.begin_part(&on, &upload, 1).unwrap();
        writer.finish(PartMeta::default()).await.unwrap();
        upload
    };
    let aborts = LifecycleRule {
        expiration: None,
        abort_days: Some(1),
        ..rule("a", Expiration::Days(1))
    };
    set(&model, vec![aborts]).await;
    put(&model, "a", 1, &[]).await;
    let (old, other) = (begin("a").await, begin("b").await);
    wall.advance(DAY_MS);
    let young = begin("a").await;
    assert_eq!(expire(&model, progress).await.uploads, 0);
    wall.advance(DAY_MS / 2);
    let done = expire(&model, progress).await;
    assert_eq!((done.uploads, done.objects), (1, 0));
    let gone = model.upload(&on, "a", &old.id).await;
    assert_eq!(gone.err(), Some(Error::NoSuchUpload));
    for upload in [other, young] {
        model.upload(&on, &upload.key, &upload.id).await.unwrap();
    }
    // The writer of the part holds a mark for a moment longer.
    let mut dropped = 0;
    while dropped == 0 {
        dropped = model.run_all_gc_tasks().await.unwrap().dropped;
        tokio::task::yield_now().await;
    }
}

async fn removal(model: &Model, on: &Bucket, seen: &ObjectHead) -> Result<(), Error> {
    let removed = model.remove_object(on, "k", seen);
    removed.await.map(|_| ())
}

#[tokio::test]
async fn only_the_version_that_was_seen_is_removed_and_only_while_rules_say_so() {
    let (model, _) = model().await;
    let filter = LifecycleFilter {
        tags: vec![("a".into(), "1".into())],
        ..LifecycleFilter::default()
    };
    let tagged = LifecycleRule {
        filter,
        ..rule("", Expiration::Date(NOON))
    };
    set(&model, vec![tagged.clone()]).await;
    put(&model, "k", 10, &[("a", "1")]).await;
    let on = bucket(&model);
    let seen = model.head_object(&on, "k").await.unwrap();
    let refused = Err(Error::PreconditionFailed);

    put(&model, "k", 10, &[("a", "1")]).await;
    assert_eq!(removal(&model, &on, &seen).await, refused);
    let seen = model.head_object(&on, "k").await.unwrap();
    let untagged = model.set_object_tags(&on, "k", None, Tags::new(), &|_| Ok(()));
    untagged.await.unwrap();
    assert_eq!(removal(&model, &on, &seen).await, refused);
    let retagged = model.set_object_tags(&on, "k", None, seen.tags.clone(), &|_| Ok(()));
    retagged.await.unwrap();
    set(&model, vec![rule("other", Expiration::Date(NOON))]).await;
    assert_eq!(removal(&model, &on, &seen).await, refused);
    model.set_lifecycle(&on, None).await.unwrap();
    assert_eq!(removal(&model, &on, &seen).await, refused);
    set(&model, vec![tagged]).await;
    assert_eq!(removal(&model, &on, &seen).await, Ok(()));
    assert_eq!(removal(&model, &on, &seen).await, refused);
    assert!(keys(&model).await.is_empty());
}

#[tokio::test]
async fn changed_rules_are_applied_at_once() {
    let (model, _) = model().await;
    let progress = &mut Progress::default();
    put(&model, "a", 1, &[]).await;
    put(&model, "b", 1, &[]).await;
    set(&model, vec![rule("a", Expiration::Date(NOON))]).await;
    assert_eq!(expire(&model, progress).await.objects, 1);
    assert_eq!(expire(&model, progress).await.examined, 0);
    set(&model, vec![rule("b", Expiration::Date(NOON))]).await;
    assert_eq!(expire(&model, progress).await.objects, 1);
    model.set_lifecycle(&bucket(&model), None).await.unwrap();
    assert_eq!(expire(&model, progress).await.examined, 0);
    assert_eq!(model.expiry_status().next_ms, None);
}

#[tokio::test]
async fn a_walk_goes_on_where_a_restart_interrupted_it() {
    let (model, _) = model().await;
    for n in 0..200 {
        put(&model, &format!("k{n:03}"), 1, &[]).await;
    }
    set(&model, vec![rule("none", Expiration::Date(NOON))]).await;
    let rules = model.present_rules(NOON / DAY_MS, 0).unwrap();
    let due = model.due_units(&rules, &Progress::default());
    assert!(due.len() > 8, "{due:?}");

    // The node stopped in the middle of the fifth part.
    let mut stopped = Progress::default();
    stopped.begin(&model, &rules).await.unwrap();
    let prefix = rowkeys::objects(&due[4].bucket);
    let page = model.page(due[4].partition, prefix, None).await.unwrap();
    let at = page.0[page.0.len() / 2].0.clone();
    let place = Place { unit: due[4], at };
    stopped.note(&model, place).await.unwrap();

    let mut expected = 0;
    for (n, unit) in due.iter().enumerate() {
        let prefix = rowkeys::objects(&unit.bucket);
        let rows = model.page(unit.partition, prefix, None).await.unwrap().0;
        expected += match n {
            0..4 => 0,
            4 => rows.len() - 1 - rows.len() / 2,
            _ => rows.len(),
        };
    }
    let done = expire(&model, &mut Progress::default()).await;
    assert_eq!(done.examined, expected as u64);
    // After the end, a restart finds nothing to do. Other rules make it begin at the beginning.
    let done = expire(&model, &mut Progress::default()).await;
    assert_eq!(done.examined, 0);
    set(&model, vec![rule("k", Expiration::Date(NOON))]).await;
    let done = expire(&model, &mut Progress::default()).await;
    assert_eq!((done.examined, done.objects), (200, 200));
}

/// Each part is walked by its first live replica and by no other node.
#[tokio::test(start_paused = true)]
async fn replicas_divide_the_work_and_take_over_from_the_dead() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    models[0].create_bucket("bucket", None).await.unwrap();
    set(&models[0], vec![rule("a", Expiration::Date(NOON))]).await;
    let fill = async || {
        for n in 0..60 {
            put(&models[0], &format!("a{n}"), 1, &[]).await;
            put(&models[0], &format!("b{n}"), 1, &[]).await;
        }
    };
    fill().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut removed = Vec::new();
    let mut examined = 0;
    for model in &models {
        let done = expire(model, &mut Progress::default()).await;
        assert_eq!(done.skipped, 0);
        removed.push(done.objects);
        examined += done.examined;
    }
    assert_eq!(removed.iter().sum::<u64>(), 60);
    assert!(removed.iter().all(|count| *count > 0), "{removed:?}");
    assert_eq!(examined, 120);
    assert_eq!(keys(&models[0]).await.len(), 60);

    fill().await;
    // Other rules begin another walk.
    set(&models[0], vec![rule("a", Expiration::Date(NOON))]).await;
    world.kill(2);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut done = 0;
    for model in &models[..2] {
        done += expire(model, &mut Progress::default()).await.objects;
    }
    assert_eq!(done, 60);
    assert_eq!(keys(&models[0]).await.len(), 60);
}

/// Two nodes that walk the same rows at once remove each object once, and nothing that is written
/// meanwhile under other tags.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_while_a_walk_runs_stays() {
    let (model, _) = model().await;
    let filter = LifecycleFilter {
        tags: vec![("old".into(), String::new())],
        ..LifecycleFilter::default()
    };
    let tagged = LifecycleRule {
        filter,
        ..rule("", Expiration::Date(NOON))
    };
    set(&model, vec![tagged]).await;
    for round in 0..5 {
        for n in 0..100 {
            put(&model, &format!("k{n}"), 10, &[("old", "")]).await;
        }
        let walk =
            |model: Model| async move { model.expire_what_is_due(&mut Progress::default()).await };
        // Each progress is new and finds the last one's place, so the rules must differ.
        let bucket = bucket(&model);
        let mut lifecycle = bucket.lifecycle.clone().unwrap();
        lifecycle.rules[0].id = format!("round{round}");
        let changed = model.set_lifecycle(&bucket, Some(lifecycle));
        changed.await.unwrap();
        let walks = [(); 2].map(|()| tokio::spawn(walk(model.clone())));
        for n in (0..100).step_by(2) {
            put(&model, &format!("k{n}"), 10, &[]).await;
        }
        for walk in walks {
            walk.await.unwrap().unwrap();
        }
        let left = keys(&model).await;
        let kept = |n: u32| left.contains(&format!("k{n}"));
        assert!((0..100).step_by(2).all(kept), "round {round}: {left:?}");
    }
    let status = model.expiry_status();
    assert_eq!(status.counts.failed, 0, "{status:?}");
}
