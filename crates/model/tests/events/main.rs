//! Events of acknowledged writes: delivered at least once and in order, wherever nodes crash.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod completions;
mod cuts;
mod listen;
mod nodes;
mod slow;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use archipel_base::random::{Random, SeededRandom};
use archipel_model::{
    Cause, Condition, Error, EventTarget, Governance, Notification, ObjectHead, Predicate,
    Versioning,
};
use nodes::{LATENCY, if_none, meta, nodes, nodes_with, pair, put, rule, target};
use parking_lot::Mutex;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn each_change_is_told_once_and_in_order() {
    for versioning in [Versioning::Never, Versioning::Enabled] {
        let nodes = nodes(versioning, target(1000, false)).await;
        let first = nodes.put(0, "key", "1").await.unwrap();
        nodes.put(1, "key", "2").await.unwrap();
        let cause = Cause {
            principal: OnceLock::from("ann".to_owned()),
            ..Cause::default()
        };
        let ann = nodes.models[2].with_cause(cause);
        let deleted = ann.delete_object(&nodes.bucket, "key", Condition::Always);
        deleted.await.unwrap();
        nodes.settle().await;
        let removed = match versioning {
            Versioning::Never => "s3:ObjectRemoved:Delete",
            _ => "s3:ObjectRemoved:DeleteMarkerCreated",
        };
        let created = "s3:ObjectCreated:Put";
        let told = [pair(created, "1"), pair(created, "2"), pair(removed, "")];
        assert_eq!(nodes.got(), told);
        let got = nodes.receiver.got.lock().clone();
        assert_eq!(got.len(), 3, "nothing was told twice");
        assert!(got.is_sorted_by(|a, b| a.sequencer < b.sequencer));
        assert_eq!(got[2].principal.as_deref(), Some("ann"));
        let id = first.id.at().map(|_| first.id.to_string());
        assert_eq!(got[0].version, id);
        // Nothing waits any more, on any node.
        for model in &nodes.models {
            assert_eq!(model.event_status()[0].backlog, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_condition_tells_nothing() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    nodes.put(0, "key", "1").await.unwrap();
    let writer = nodes.models[1].begin_object(&nodes.bucket, "key").unwrap();
    let refused = writer.finish(meta("2"), if_none()).await;
    assert_eq!(refused, Err(Error::PreconditionFailed));
    nodes.settle().await;
    assert_eq!(nodes.got(), [pair("s3:ObjectCreated:Put", "1")]);
}

#[tokio::test(start_paused = true)]
async fn decisions_about_a_deleted_version_tell_nothing() {
    let nodes = nodes(Versioning::Enabled, target(1000, false)).await;
    let first = nodes.put(0, "key", "1").await.unwrap().id;
    nodes.put(1, "key", "2").await.unwrap();
    let (model, bucket) = (&nodes.models[2], &nodes.bucket);
    let delete =
        || model.delete_version(bucket, "key", first, Governance::Respect, Condition::Always);
    delete().await.unwrap();
    let tags = vec![("a".to_owned(), "1".to_owned())];
    let tagged = model.set_object_tags(bucket, "key", Some(first), tags, &|_| Ok(()));
    assert_eq!(tagged.await, Err(Error::NoSuchVersion));
    delete().await.unwrap();
    let exists: Predicate = Arc::new(|current: Option<&ObjectHead>| match current {
        Some(_) => Ok(()),
        None => Err(Error::PreconditionFailed),
    });
    let checked = Condition::Check(exists);
    let refused = model.delete_version(bucket, "key", first, Governance::Respect, checked);
    assert!(matches!(refused.await, Err(Error::PreconditionFailed)));
    nodes.settle().await;
    let got = nodes.receiver.got.lock().clone();
    let names: Vec<_> = got.iter().map(|event| event.name.as_str()).collect();
    let created = "s3:ObjectCreated:Put";
    assert_eq!(names, [created, created, "s3:ObjectRemoved:Delete"]);
}

/// The first replica misses writes, so it lacks their events when it hears of a later one. A reader
/// may have brought it the last of these writes, without its event.
#[tokio::test(start_paused = true)]
async fn events_that_the_first_replica_missed_come_before_later_ones() {
    for (cut, is_read) in (0..3).flat_map(|cut| [(cut, false), (cut, true)]) {
        let nodes = nodes(Versioning::Never, target(1000, false)).await;
        nodes.put(0, "key", "1").await.unwrap();
        // All partitions are looked at, and nothing waits.
        tokio::time::sleep(Duration::from_secs(15)).await;
        nodes.world.isolate(cut);
        let other = (cut + 1) % 3;
        nodes.put(other, "key", "2").await.unwrap();
        nodes.put(other, "key", "3").await.unwrap();
        nodes.world.network.end_all_cuts();
        if is_read {
            let head = nodes.models[cut].head_object(&nodes.bucket, "key").await;
            assert_eq!(head.unwrap().etag, "3");
        } else {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        nodes.put(other, "key", "4").await.unwrap();
        nodes.settle().await;
        let told: Vec<String> = nodes.got().into_iter().map(|(_, etag)| etag).collect();
        let want = ["1", "2", "3", "4"];
        assert_eq!(told, want, "without {cut}, read there: {is_read}");
    }
}

/// The event by which the first replica hears of the key again is for another target.
#[tokio::test(start_paused = true)]
async fn missed_events_come_before_later_ones_also_if_several_targets_hear_of_a_key() {
    for cut in 0..3 {
        let limits = ["hook", "removals"].map(|name| EventTarget {
            name: name.into(),
            ..target(1000, false)
        });
        let mut rules = limits.clone().map(|limits| rule(&limits.name, None));
        rules[0].events = vec!["s3:ObjectCreated:*".into()];
        rules[1].events = vec!["s3:ObjectRemoved:*".into()];
        let nodes = nodes_with(Versioning::Never, limits.to_vec(), rules.to_vec()).await;
        nodes.put(0, "key", "1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(15)).await;
        nodes.world.isolate(cut);
        let other = (cut + 1) % 3;
        nodes.put(other, "key", "2").await.unwrap();
        nodes.world.network.end_all_cuts();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let deleted = nodes.models[other].delete_object(&nodes.bucket, "key", Condition::Always);
        deleted.await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        nodes.put(other, "key", "4").await.unwrap();
        nodes.settle().await;
        // Two nodes may take themselves for the first one for a moment.
        let mut told = nodes.receivers[0].tags_of("key");
        told.dedup();
        assert_eq!(told, ["1", "2", "4"], "without {cut}");
        assert!(!nodes.receivers[1].got.lock().is_empty());
    }
}

/// The first replica of most partitions is on a live node that delivers nothing.
#[tokio::test(start_paused = true)]
async fn old_events_are_delivered_by_any_replica() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    nodes.workers[0].abort();
    nodes.workers[1].abort();
    for n in 0..20 {
        nodes.put(n % 3, &format!("key-{n}"), "1").await.unwrap();
    }
    nodes.settle().await;
    let keys = || -> std::collections::BTreeSet<String> {
        let got = nodes.receiver.got.lock();
        got.iter().map(|event| event.key.clone()).collect()
    };
    assert!(keys().len() < 20);
    nodes.pass(Duration::from_secs(330));
    tokio::time::sleep(Duration::from_secs(130)).await;
    assert_eq!(keys().len(), 20);
}

/// Sixteen deliveries that fail at once do not bring the longest pause.
#[tokio::test(start_paused = true)]
async fn failures_at_the_same_time_are_one_failure() {
    let nodes = nodes(Versioning::Never, target(10_000, false)).await;
    *nodes.receiver.is_down.lock() = true;
    for n in 0..20 {
        nodes.put(n % 3, &format!("key-{n}"), "1").await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    *nodes.receiver.is_down.lock() = false;
    // The pauses were a few seconds.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(nodes.receiver.got.lock().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn bucket_without_notifications_has_no_events() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let silent = nodes.models[0].create_bucket("silent", None).await.unwrap();
    put(&nodes.models[0], &silent, "key", "1").await.unwrap();
    let removed = nodes.models[1].set_notification(&nodes.bucket, None);
    removed.await.unwrap();
    // This node knows the old rules still; the write fence does not.
    nodes.put(2, "key", "1").await.unwrap();
    nodes.settle().await;
    assert_eq!(nodes.got(), []);
}

/// A coordinator or a replica crashes at every moment of two writes and of their delivery.
#[tokio::test(start_paused = true)]
async fn acknowledged_writes_are_told_in_order_wherever_a_node_crashes() {
    for versioning in [Versioning::Never, Versioning::Enabled] {
        for victim in 0..3 {
            for moment in [0, 1, 3, 5, 8] {
                let nodes = nodes(versioning, target(1000, false)).await;
                let (model, bucket) = (nodes.models[0].clone(), nodes.bucket.clone());
                let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
                let acked = acknowledged.clone();
                let writes = tokio::spawn(async move {
                    for n in 1..=4 {
                        if put(&model, &bucket, "key", &n.to_string()).await.is_ok() {
                            acked.lock().push(n.to_string());
                        }
                    }
                });
                tokio::time::sleep(LATENCY / 2 * moment).await;
                nodes.world.kill(victim);
                nodes.workers[victim].abort();
                if victim == 0 {
                    writes.abort();
                } else {
                    writes.await.unwrap();
                }
                // A node that is left writes on.
                let other = (victim + 1) % 3;
                nodes.put(other, "key", "last").await.unwrap();
                nodes.settle().await;
                let told: Vec<String> = nodes.got().into_iter().map(|(_, etag)| etag).collect();
                let mut wanted = acknowledged.lock().clone();
                wanted.push("last".into());
                let in_order: Vec<_> = told.iter().filter(|one| wanted.contains(one)).collect();
                assert_eq!(
                    in_order,
                    wanted.iter().collect::<Vec<_>>(),
                    "{versioning:?}, node {victim} at {moment}: {told:?}"
                );
            }
        }
    }
}

/// Writers of one key contend, so that attempts are refused and sent again, and writers complete
/// the writes of others.
#[tokio::test(start_paused = true)]
async fn contending_writes_are_told_once_and_in_the_order_of_their_stamps() {
    for seed in 0..6 {
        let random = SeededRandom::new(seed);
        let nodes = nodes(Versioning::Never, target(1000, false)).await;
        let mut tasks = Vec::new();
        for n in 0..12usize {
            let (model, bucket) = (nodes.models[n % 3].clone(), nodes.bucket.clone());
            let delay = Duration::from_millis(random.next_u64() % 200);
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                let put = put(&model, &bucket, "key", &n.to_string()).await;
                put.is_ok().then(|| (n.to_string(), Instant::now()))
            }));
        }
        let mut acknowledged = BTreeMap::new();
        for task in tasks {
            acknowledged.extend(task.await.unwrap());
        }
        nodes.settle().await;
        let got = nodes.receiver.got.lock().clone();
        let times = nodes.receiver.times.lock().clone();
        let told: Vec<_> = got.iter().filter_map(|event| event.etag.clone()).collect();
        let all = format!("seed {seed}: {acknowledged:?} {told:?}");
        let mut by_stamp = got.clone();
        by_stamp.sort_by_key(|event| event.sequencer.clone());
        let mut once: Vec<_> = by_stamp
            .into_iter()
            .filter_map(|event| event.etag)
            .collect();
        // A write that another completed may take effect again, with nothing between the two.
        once.dedup();
        for tag in acknowledged.keys() {
            let times = once.iter().filter(|told| *told == tag).count();
            assert_eq!(times, 1, "{tag} in {all}");
        }
        // Another may have completed a write without its event. Then its coordinator brings the event
        // before it acknowledges the write, and later ones may have been told by then.
        for (n, event) in got.iter().enumerate() {
            let since = acknowledged.get(&told[n]);
            let later = got[..n].iter().zip(&times);
            let mut later = later.filter(|(before, _)| before.sequencer > event.sequencer);
            let is_missed = later.any(|(_, time)| since.is_some_and(|since| since < time));
            assert!(!is_missed, "{} is told too late: {all}", told[n]);
        }
        let current = nodes.models[0].head_object(&nodes.bucket, "key").await;
        assert_eq!(once.pop(), Some(current.unwrap().etag), "{all}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_a_target_that_is_down() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    *nodes.receiver.is_down.lock() = true;
    for n in 0..20 {
        nodes.put(n % 3, &format!("key-{n}"), "1").await.unwrap();
    }
    nodes.settle().await;
    assert_eq!(nodes.receiver.got.lock().len(), 0);
    let waiting: u64 = nodes
        .models
        .iter()
        .map(|m| m.event_status()[0].backlog)
        .sum();
    assert_eq!(waiting, 20);
    let failing = nodes
        .models
        .iter()
        .any(|m| m.event_status()[0].error.is_some());
    assert!(failing);
    *nodes.receiver.is_down.lock() = false;
    // The target is left alone for up to a minute.
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(nodes.receiver.got.lock().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn full_backlog_drops_events_or_refuses_writes() {
    for refuses in [false, true] {
        // One event for each partition.
        let nodes = nodes(Versioning::Never, target(16, refuses)).await;
        *nodes.receiver.is_down.lock() = true;
        nodes.put(0, "key", "1").await.unwrap();
        let second = nodes.put(0, "key", "2").await;
        match refuses {
            true => assert!(matches!(second, Err(Error::Busy(_))), "{second:?}"),
            false => assert!(second.is_ok()),
        }
        *nodes.receiver.is_down.lock() = false;
        nodes.settle().await;
        assert_eq!(nodes.got(), [pair("s3:ObjectCreated:Put", "1")]);
        let dropped: u64 = nodes
            .models
            .iter()
            .map(|m| m.event_status()[0].dropped)
            .sum();
        assert_eq!(dropped, if refuses { 0 } else { 3 }, "each replica counts");
        nodes.put(0, "key", "3").await.unwrap();
        nodes.settle().await;
        assert_eq!(nodes.got().last(), Some(&pair("s3:ObjectCreated:Put", "3")));
    }
}

/// Rules may name any number of targets that nobody declared.
#[tokio::test(start_paused = true)]
async fn undeclared_targets_are_shown_up_to_a_number() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let model = &nodes.models[0];
    for n in 0..5 {
        let name = format!("other-{n}");
        let bucket = model.create_bucket(&name, None).await.unwrap();
        let names: Vec<String> = (0..100).map(|rule| format!("t{n}-{rule}-")).collect();
        let rules = names.iter().map(|name| rule(name, Some(name.clone())));
        let rules = rules.collect();
        let set = model.set_notification(&bucket, Some(Notification { rules }));
        let bucket = set.await.unwrap();
        let puts = names.into_iter().map(|name| {
            let (model, bucket) = (model.clone(), bucket.clone());
            tokio::spawn(async move { put(&model, &bucket, &name, "1").await })
        });
        for put in puts.collect::<Vec<_>>() {
            put.await.unwrap().unwrap();
        }
    }
    nodes.put(1, "key", "2").await.unwrap();
    nodes.settle().await;
    let shown = nodes.models.iter().map(|model| model.event_status().len());
    let shown: Vec<usize> = shown.collect();
    assert!(
        shown.iter().all(|shown| (50..=101).contains(shown)),
        "{shown:?}"
    );
    assert_eq!(nodes.got(), [pair("s3:ObjectCreated:Put", "2")]);
}
