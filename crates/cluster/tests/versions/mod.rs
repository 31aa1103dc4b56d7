//! Versions of objects over several nodes, and the round trips that they take.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

use std::time::Duration;

use archipel_base::Stamp;
use archipel_cluster::{
    Cluster, Decision, Hooks, VersionDecision, VersionSeen, Versioning, World, WriteOptions,
    split_kept,
};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, RowReader, Value, VersionKind, VersionName};
use bytes::Bytes;
use tokio::time::Instant;

use crate::support::{key, value};

mod contention;
mod moving;

const LATENCY: Duration = Duration::from_millis(50);

fn kept_prefix(row: &RowKey) -> Option<Bytes> {
    let object = row.key.strip_prefix(b"o/")?;
    Some([b"v/", object, &[0]].concat().into())
}

fn kept_in(row: &RowKey) -> Option<(RowKey, VersionName)> {
    let (prefix, name) = split_kept(&row.key)?;
    let object = prefix.strip_prefix(b"v/")?.strip_suffix(&[0])?;
    let key = [b"o/", object].concat().into();
    Some((RowKey { key, ..row.clone() }, name))
}

const VERSIONED: Hooks = Hooks {
    kept_prefix,
    kept_in,
    ..Hooks::NONE
};

async fn world(seed: u64) -> World {
    World::new(3, 3, LATENCY, seed, VERSIONED).await.unwrap()
}

fn new() -> WriteOptions<'static> {
    WriteOptions {
        versioning: Versioning::New,
        ..durable()
    }
}

fn durable() -> WriteOptions<'static> {
    WriteOptions::durable(Durability::Fsync)
}

async fn put(node: &Cluster, text: &str) -> Stamp {
    let row = key("o/k");
    let written = node.write(&row, Some(value(text)), new());
    written.await.unwrap()
}

async fn put_null(node: &Cluster, text: &str) {
    let null = WriteOptions {
        versioning: Versioning::Null,
        ..durable()
    };
    let row = key("o/k");
    let written = node.write(&row, Some(value(text)), null);
    written.await.unwrap();
}

/// Returns the metadata of a version.
async fn look(node: &Cluster, name: VersionName) -> Option<String> {
    let found = node.version_of(&key("o/k"), name).await.unwrap();
    found.map(|one| text(&one.value.unwrap()))
}

/// Returns the names of the kept versions that live.
async fn kept(node: &Cluster) -> Vec<VersionName> {
    let mut kept = node.kept_versions(&key("o/k"), |_| true);
    let mut names = Vec::new();
    while let Some((name, _)) = kept.next().await.unwrap() {
        names.push(name);
    }
    names
}

async fn current(node: &Cluster) -> Option<String> {
    let found = node.read(&key("o/k")).await.unwrap();
    let found = found.filter(|value| value.kind() != VersionKind::Void);
    found.as_ref().map(text)
}

fn text(value: &Value) -> String {
    String::from_utf8(value.metadata.to_vec()).unwrap()
}

async fn kill(node: &Cluster, name: VersionName) {
    let kill = |_: &VersionSeen<'_>| VersionDecision::<()>::Kill;
    let row = key("o/k");
    let done = node.decide_version(&row, name, durable(), kill);
    done.await.unwrap().unwrap();
}

/// Deletes a version that is expected not to be current.
async fn kill_noncurrent(node: &Cluster, name: VersionName) {
    let kill = |_: &VersionSeen<'_>| VersionDecision::<()>::Kill;
    let row = key("o/k");
    let how = WriteOptions {
        unlisted: true,
        ..durable()
    };
    let done = node.decide_version(&row, name, how, kill);
    done.await.unwrap().unwrap();
}

async fn change(node: &Cluster, name: VersionName, to: &'static str) -> bool {
    let change = |seen: &VersionSeen<'_>| match seen.named {
        Some(_) => VersionDecision::Change(Bytes::from_static(to.as_bytes())),
        None => VersionDecision::Abort(()),
    };
    let row = key("o/k");
    let done = node.decide_version(&row, name, durable(), change);
    done.await.unwrap().is_ok()
}

async fn rounds<T>(run: impl Future<Output = T>) -> (T, f64) {
    let begun = Instant::now();
    let done = run.await;
    let rounds = begun.elapsed().as_secs_f64() / (2.0 * LATENCY.as_secs_f64());
    (done, (rounds * 1000.0).round() / 1000.0)
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn every_version_is_found_by_its_name_until_it_is_deleted() {
    let world = world(1).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    let (one, two, three) = (
        put(a, "one").await,
        put(b, "two").await,
        put(c, "three").await,
    );
    for node in [a, b, c] {
        assert_eq!(look(node, Some(one)).await.as_deref(), Some("one"));
        assert_eq!(look(node, Some(two)).await.as_deref(), Some("two"));
        assert_eq!(look(node, Some(three)).await.as_deref(), Some("three"));
        assert_eq!(current(node).await.as_deref(), Some("three"));
    }
    kill(a, Some(three)).await;
    assert_eq!(current(b).await.as_deref(), Some("two"));
    kill(b, Some(one)).await;
    assert_eq!(look(c, Some(one)).await, None);
    assert_eq!(look(c, Some(two)).await.as_deref(), Some("two"));
    kill(c, Some(two)).await;
    assert_eq!(current(a).await, None);
    for name in [one, two, three] {
        assert_eq!(look(a, Some(name)).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_null_version_is_kept_when_a_version_replaces_it_and_comes_back() {
    let world = world(2).await;
    let [a, b, _] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    let row = key("o/k");
    let plain = a.write(&row, Some(value("plain")), durable());
    plain.await.unwrap();
    let one = put(b, "one").await;
    assert_eq!(look(a, None).await.as_deref(), Some("plain"));
    assert!(change(b, None, "tagged").await);
    kill(a, Some(one)).await;
    assert_eq!(current(b).await.as_deref(), Some("tagged"));
    let two = put(a, "two").await;
    put_null(b, "again").await;
    assert_eq!(look(a, None).await.as_deref(), Some("again"));
    assert_eq!(look(a, Some(two)).await.as_deref(), Some("two"));
    kill(a, None).await;
    assert_eq!(current(b).await.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn versions_take_as_many_round_trips_as_documented() {
    let world = world(3).await;
    let node = &world.nodes[0];
    let (one, n) = rounds(put(node, "one")).await;
    assert_eq!(n, 1.0, "the first PUT");
    settle().await;
    let (two, n) = rounds(put(node, "two")).await;
    assert_eq!(n, 1.0, "the second PUT");
    settle().await;
    for name in [one, two] {
        let (found, n) = rounds(look(node, Some(name))).await;
        assert_eq!((found.is_some(), n), (true, 1.0), "GET of a version");
    }
    assert_eq!(rounds(current(node)).await.1, 1.0, "GET");
    let (changed, n) = rounds(change(node, Some(one), "tagged")).await;
    assert_eq!((changed, n), (true, 2.0), "tags of a version");
    settle().await;
    let absent = |current: archipel_cluster::Current<'_>| match current.value {
        Some(_) => Decision::Abort(()),
        None => Decision::Write(Some(value("three"))),
    };
    let row = key("o/k");
    let (kept, n) = rounds(node.update_versioned(&row, new(), absent)).await;
    assert_eq!(
        (kept.unwrap(), n),
        (Err(()), 1.0),
        "a conditional PUT that fails"
    );
    settle().await;
    let (_, n) = rounds(kill(node, Some(two))).await;
    assert_eq!(n, 2.0, "DELETE of the current version");
    settle().await;
    assert_eq!(current(node).await.as_deref(), Some("tagged"));
    let three = put(node, "three").await;
    settle().await;
    let (_, n) = rounds(kill(node, Some(one))).await;
    assert_eq!(n, 2.0, "DELETE of a noncurrent version");
    assert_eq!(look(node, Some(three)).await.as_deref(), Some("three"));
    put(node, "four").await;
    settle().await;
    let (_, n) = rounds(kill_noncurrent(node, Some(three))).await;
    assert_eq!(n, 2.0, "DELETE of one that is expected to be noncurrent");
    let five = put(node, "five").await;
    settle().await;
    let (_, n) = rounds(kill_noncurrent(node, Some(five))).await;
    assert_eq!(n, 3.0, "the same, but it is current");
    assert_eq!(current(node).await.as_deref(), Some("four"));
    settle().await;
    let (_, n) = rounds(put_null(node, "null")).await;
    assert_eq!(n, 2.0, "PUT of the null version");
}

#[tokio::test(start_paused = true)]
async fn a_version_survives_the_loss_of_a_node_that_held_it() {
    let world = world(4).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    world.isolate(2);
    let one = put(a, "one").await;
    settle().await;
    world.network.end_all_cuts();
    let two = put(c, "two").await;
    settle().await;
    // Only one of the two nodes that held the first version is left.
    world.isolate(0);
    assert_eq!(look(b, Some(one)).await.as_deref(), Some("one"));
    kill(c, Some(two)).await;
    assert_eq!(current(b).await.as_deref(), Some("one"));
}

/// One replica lags by forty deletions, and another one never got the version that is the newest
/// now. An older version used to become current.
#[tokio::test(start_paused = true)]
async fn the_newest_version_becomes_current_although_a_replica_lags_far_behind() {
    let world = world(5).await;
    let [a, b, _] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    put(a, "oldest").await;
    settle().await;
    world.isolate(1);
    put(a, "newest").await;
    settle().await;
    world.network.end_all_cuts();
    let mut others = Vec::new();
    for n in 0..40 {
        others.push(put(b, &format!("other {n}")).await);
    }
    settle().await;
    let last = others.pop().unwrap();
    world.isolate(0);
    for other in others {
        kill(b, Some(other)).await;
    }
    settle().await;
    world.network.end_all_cuts();
    world.isolate(2);
    kill(b, Some(last)).await;
    assert_eq!(current(b).await.as_deref(), Some("newest"));
}

/// Returns the stamp under which a kept version was last current, as a node's own row tells.
async fn last_current(node: &Cluster, name: Stamp) -> Option<Stamp> {
    let object = key("o/k");
    let end = name.to_bytes().map(|byte| !byte);
    let row = RowKey {
        key: [&kept_prefix(&object)?[..], &end].concat().into(),
        ..object
    };
    let read = move |rows: &RowReader<'_>| rows.metadata(&row);
    node.store().read(read).await.unwrap()?.version?.last
}

/// The place of a write without an answer is before a version that was current after it. The row of that version
/// tells so at each replica, even at one that missed when it was written again.
#[tokio::test(start_paused = true)]
async fn a_kept_version_tells_under_which_stamp_it_was_last_current() {
    let world = world(6).await;
    let [a, b, c] = [&world.nodes[0], &world.nodes[1], &world.nodes[2]];
    let one = put(a, "one").await;
    settle().await;
    world.isolate(2);
    let row = key("o/k");
    let lost = c.write(&row, Some(value("lost")), new());
    tokio::time::timeout(Duration::from_secs(1), lost)
        .await
        .unwrap_err();
    // The next writes are later, also if all happens within one millisecond.
    for node in [0, 1] {
        world.set_clock_ahead(node, Duration::from_secs(1));
    }
    assert!(change(a, Some(one), "tagged").await);
    let two = put(b, "two").await;
    let last = last_current(a, one).await.unwrap();
    // This replica displaced the version as it was at first.
    assert_eq!(last_current(c, one).await, Some(one));
    assert!(change(a, Some(one), "again").await);
    world.network.end_all_cuts();
    // A read brings the row to the replica that missed it.
    world.isolate(0);
    assert_eq!(current(c).await.as_deref(), Some("two"));
    world.network.end_all_cuts();
    settle().await;
    for node in [a, b, c] {
        assert_eq!(last_current(node, one).await, Some(last));
        assert_eq!(look(node, Some(one)).await.as_deref(), Some("again"));
    }
    let names = kept(c).await;
    let [Some(lost), second] = names[..] else {
        panic!("the lost write is kept: {names:?}");
    };
    assert_eq!(second, Some(one));
    assert!(
        one < lost && lost < last && last < two,
        "{one} {lost} {last} {two}"
    );
}
