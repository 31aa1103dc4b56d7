use std::time::Duration;

use archipel_base::{Id, Stamp};
use archipel_storage::engine::Durability;
use archipel_storage::{Row, RowTxn, Value};

use super::serve::read_page;
use super::*;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::memory::World;
use crate::merge::wire;
use crate::node::history::Contradiction;
use crate::node::options::Hooks;
use crate::node::wire::{ListCall, ListReply, PageCall, PageReply};

fn key(n: u32) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from(format!("row {n:03}")),
    }
}

fn all() -> ListQuery {
    ListQuery::new(PartitionId(0), Bytes::from_static(b"row "))
}

/// Creates three nodes that all hold the same fifty rows.
async fn three() -> World {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    for n in 0..50 {
        let (row, how) = (key(n), WriteOptions::durable(Durability::Fsync));
        let written = world.nodes[0].write(&row, Some(Value::default()), how);
        written.await.unwrap();
    }
    // The third replica's acceptances are on their way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world
}

/// Puts a version into one replica alone, as if the others had lost what they accepted.
async fn plant(node: &Cluster, key: RowKey, stamp: Stamp, value: Option<Value>) {
    let set = move |txn: &mut RowTxn<'_>| {
        let row = Row {
            promised: stamp,
            stamp,
            value: value.clone(),
            ..Row::default()
        };
        txn.set(&key, &row)
    };
    node.store().transact(Durability::Fsync, set).await.unwrap();
}

/// Returns what another replica answers to a node that has this page.
async fn answer(world: &World, page: Option<&Page>) -> PageReply {
    let [here, there] = [&world.nodes[0], &world.nodes[1]];
    let group = here.group(PartitionId(0)).unwrap();
    let index = group
        .members
        .iter()
        .position(|m| m.node == there.me())
        .unwrap();
    let query = ListQuery {
        tombstones: true,
        ..all()
    };
    let request = PageCall {
        address: group.address(index).unwrap(),
        query: wire::encode_query(&query).into(),
        known: page.map(wire::digest),
        fence: None,
    };
    let call = ListCall(vec![request]);
    match there.serve_list(world.ids[0], call).await {
        Ok(ListReply::Pages(mut pages)) if pages.len() == 1 => pages.remove(0),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn replica_with_the_same_page_says_so_and_sends_none() {
    let world = three().await;
    let query = ListQuery {
        tombstones: true,
        ..all()
    };
    let here = world.nodes[0].store();
    let page = here.read(move |rows| read_page(rows, &query)).await;
    let page = page.unwrap();
    assert_eq!(page.listing.entries.len(), 50);
    assert_eq!(answer(&world, Some(&page)).await, PageReply::Same);
    let asked_without = answer(&world, None).await;
    assert!(matches!(asked_without, PageReply::Page(_)));
    let newer = world.nodes[1].next_stamp(Stamp::ZERO);
    plant(&world.nodes[1], key(7), newer, None).await;
    assert!(matches!(
        answer(&world, Some(&page)).await,
        PageReply::Page(_)
    ));
}

/// A row that only other replicas have is listed. A row whose deletion only they know is not.
#[tokio::test(start_paused = true)]
async fn listing_has_rows_that_the_local_replica_lacks() {
    let world = three().await;
    let newer = world.nodes[1].next_stamp(Stamp::ZERO);
    for node in &world.nodes[1..] {
        plant(node, key(7), newer, None).await;
        plant(node, key(99), newer, Some(Value::default())).await;
    }
    let listed = world.nodes[0].list(all()).await.unwrap();
    let listed: Vec<_> = listed
        .entries
        .into_iter()
        .filter_map(|entry| scanned(PartitionId(0), entry, &[]))
        .map(|row| row.key)
        .collect();
    let wanted: Vec<_> = (0..50).chain([99]).filter(|n| *n != 7).map(key).collect();
    assert_eq!(listed, wanted);
}

/// Pages that do not fit one answer together are asked for again. Each partition's rows come with
/// its own query.
#[tokio::test(start_paused = true)]
async fn several_partitions_are_listed_at_once_however_much_they_hold() {
    let world = three().await;
    let newer = world.nodes[1].next_stamp(Stamp::ZERO);
    let large = Value {
        metadata: Bytes::from(vec![b'h'; 3000]),
        ..Value::default()
    };
    let partitions = [3, 1, 2];
    let key = |partition: u16, n: u32| RowKey {
        partition: PartitionId(partition),
        key: Bytes::from(format!("row {partition} {n:03}")),
    };
    for row in partitions.iter().flat_map(|p| (0..60).map(|n| key(*p, n))) {
        for node in &world.nodes[1..] {
            plant(node, row.clone(), newer, Some(large.clone())).await;
        }
    }
    let query = |partition| ListQuery {
        partition: PartitionId(partition),
        ..all()
    };
    let listed = world.nodes[0].list_all(&partitions.map(query)).await;
    for (partition, page) in partitions.into_iter().zip(listed.unwrap()) {
        let keys = page.entries.into_iter().map(|entry| match entry {
            ListEntry::Row { key, .. } => key,
            prefix => panic!("{prefix:?}"),
        });
        assert!(
            keys.eq((0..60).map(|n| key(partition, n).key)),
            "{partition}"
        );
    }
}

/// One replica accepted a deletion, and another one a value. A node that lists and acts on what it
/// sees may be the only one that sees it.
#[tokio::test(start_paused = true)]
async fn a_whole_scan_shows_what_a_quorum_holds() {
    let world = three().await;
    let [here, other, _] = &world.nodes[..] else {
        panic!()
    };
    let stamp = |node: &Cluster| Stamp::new(node.now_ms() + 1, 0, archipel_base::Writer(9));
    plant(here, key(7), stamp(here), None).await;
    plant(here, key(60), stamp(here), Some(Value::default())).await;
    let listed = here.list(all()).await.unwrap().entries.len();
    assert_eq!(listed, 50, "a page shows what one replica has");
    let (partition, prefix) = (PartitionId(0), Bytes::from_static(b"row "));
    let seen = here.scan_whole(partition, &prefix).await.unwrap();
    world.isolate(0);
    let found = other.scan_whole(partition, &prefix).await.unwrap();
    let keys = |rows: &[Scanned]| rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&seen), keys(&found));
    assert!(seen.iter().all(|row| row.is_settled));
}

/// A store was rolled back, and a listing began before another node told so. The page of that store
/// and the page of a replica that lags are no quorum.
#[tokio::test(start_paused = true)]
async fn a_listing_takes_no_page_of_the_store_that_this_one_was() {
    let world = three().await;
    let [here, lagging, away] = &world.nodes[..] else {
        panic!()
    };
    // This node acknowledged the row, and was rolled back.
    let newer = away.next_stamp(Stamp::ZERO);
    plant(away, key(99), newer, Some(Value::default())).await;
    world.isolate(2);
    here.epochs.history.disprove();
    let listing = here.clone();
    let listing = tokio::spawn(async move { listing.list(all()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!listing.is_finished());
    let (names, why) = ((Id([7; 16]), Id([8; 16])), Contradiction::Older);
    let told_by = lagging.me().node;
    let renamed = here
        .epochs
        .history
        .rename(here.store(), names, (told_by, why));
    renamed.await.unwrap();
    let listed = listing.await.unwrap();
    let rows = listed.map(|page| page.entries.len());
    assert!(matches!(rows, Err(Error::Unavailable(_))), "{rows:?}");
}
