use archipel_base::codec;
use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_storage::engine::{Durability, Engine, Tree};
use archipel_storage::rows::codec::row_key;
use archipel_storage::store::Threads;
use archipel_storage::{ListQuery, ListStart};
use bytes::Bytes;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::WriteOptions;
use crate::memory::seeded_options;
use crate::memory::versioned::VERSIONED;
use crate::node::options::Hooks;
use crate::register::{Intent, Version};

mod lost;
mod pointing;
mod stale;

fn recent() -> Recent {
    let bounds = Bounds::without_floors(0, 0);
    Recent::forgotten(Rules::CORRECT, &Cell::<Value>::default(), &bounds)
}

fn key(name: &'static str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name.as_bytes()),
    }
}

/// A failed commit may have contained any of the remembered writes. None of them counts any more,
/// whichever row is read first.
#[test]
fn writes_remembered_before_an_undone_commit_are_forgotten() {
    let mut remembered = Remembered::new(4096);
    remembered.put(key("a"), recent());
    remembered.put(key("b"), recent());
    assert!(remembered.take(&key("a"), 0).is_some());
    assert!(remembered.take(&key("b"), 1).is_none());
    remembered.put(key("b"), recent());
    assert!(remembered.take(&key("b"), 1).is_some());
}

#[test]
fn remembered_writes_are_bounded() {
    let mut remembered = Remembered::new(4096);
    for n in 0..3 * 4096 {
        let name = n.to_string().into_bytes();
        let key = RowKey {
            key: name.into(),
            ..key("")
        };
        remembered.put(key, recent());
    }
    assert!(remembered.young.len() + remembered.old.len() <= 4096);
}

fn damage(engine: &dyn Engine, key: &RowKey) {
    let key = row_key(key).unwrap();
    let mut txn = engine.write().unwrap();
    let mut row = txn.get(Tree::Rows, &key).unwrap().unwrap().to_vec();
    row[20] ^= 4;
    txn.put(Tree::Rows, &key, &row).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

/// No other replica has the row, and it cannot be read. It can still be overwritten and deleted,
/// and it damages no other row.
#[tokio::test]
async fn a_damaged_row_of_a_node_alone_can_be_overwritten_and_deleted() {
    let (node, engine) = alone(Hooks::NONE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    let value = Some(Value::default());
    for name in ["a", "b", "c"] {
        node.write(&key(name), value.clone(), how()).await.unwrap();
    }
    let listed = async || {
        let query = ListQuery::new(PartitionId(0), Bytes::new());
        node.list(query).await.unwrap().entries.len()
    };
    for (new, left) in [(value.clone(), 3), (None, 2)] {
        damage(&*engine, &key("b"));
        assert!(node.read(&key("b")).await.is_err());
        assert_eq!(listed().await, 2, "a and c");
        node.write(&key("b"), new.clone(), how()).await.unwrap();
        assert_eq!(node.read(&key("b")).await.unwrap(), new);
        assert_eq!(listed().await, left);
        assert!(node.store().verify().await.unwrap().is_clean());
    }
}

/// A write was acknowledged, and its row was lost later. The replica must not say that the write
/// was never made: who asks would drop the event of that write.
#[tokio::test]
async fn a_lost_row_says_nothing_of_writes_before_it() {
    let (node, engine) = alone(Hooks::NONE).await;
    let write = async || {
        let how = WriteOptions::durable(Durability::Fsync);
        let value = Some(Value::default());
        node.write(&key("a"), value, how).await.unwrap();
        node.read_stamped(&key("a")).await.unwrap()
    };
    let first = write().await;
    damage(&*engine, &key("a"));
    *node.replica.recent.lock() = Remembered::new(4096);
    write().await;
    let asked = prepare(node.next_stamp(Stamp::ZERO), Some(first.write), false);
    let Answer::Promised { known_from, .. } = ask(&node, call(&node, "a", asked)).await.unwrap()
    else {
        panic!("a new ballot is promised")
    };
    assert!(known_from > first.stamp);
}

/// Hooks of a row "aside", to which the value "names" of another row is named. The intent stands in
/// its metadata.
const ASIDE: Hooks = Hooks {
    points: |_, value| (value.metadata[..] == *b"names").then(|| (key("aside"), INTENT)),
    intent: |metadata| codec::decode::<Mark>(metadata).ok().map(|mark| mark.0),
    with_intent: |value, intent| {
        Some(Value {
            metadata: codec::encode(&Mark(intent)).into(),
            ..value.clone()
        })
    },
    ..Hooks::NONE
};

const INTENT: Intent = Intent {
    write: Id([7; 16]),
    after: Stamp::ZERO,
    epoch: 1,
    name: None,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Mark(Intent);

impl codec::Versioned for Mark {
    const VERSION: u8 = 200;
}

fn text(metadata: &'static [u8]) -> Value {
    Value {
        metadata: Bytes::from_static(metadata),
        ..Value::default()
    }
}

/// Returns the intent of the row "aside", or `None` if it is live without one.
async fn aside(node: &Cluster) -> Option<Intent> {
    let metadata = node.metadata(&key("aside")).await.unwrap();
    (ASIDE.intent)(&metadata.expect("a live row"))
}

async fn alone(hooks: Hooks) -> (Cluster, Arc<dyn Engine>) {
    let options = seeded_options(1, Threads::Own).unwrap();
    let engine = options.engine.clone();
    (Cluster::alone(options, hooks).await.unwrap(), engine)
}

fn call(node: &Cluster, row: &'static str, request: Request<Value>) -> RowCall {
    let address = node.group(PartitionId(0)).unwrap().address(0).unwrap();
    RowCall::plain(address, key(row).key, request)
}

async fn ask(node: &Cluster, call: RowCall) -> Result<Answer<Value>, storage::Error> {
    node.replica.answer(call, false).await
}

fn prepare(ballot: Stamp, asking: Option<Id>, guarded: bool) -> Request<Value> {
    Request::Prepare {
        ballot,
        asking,
        guarded,
    }
}

async fn offered(node: &Cluster, stamp: Stamp) -> Applied {
    let version = Version {
        stamp,
        write: INTENT.write,
        value: Some(text(b"names")),
    };
    let offer = Offer {
        version,
        settled: true,
        is_over: false,
        rules: Rules::CORRECT,
    };
    let address = node.group(PartitionId(0)).unwrap().address(0).unwrap();
    let applied = node.replica.apply(address, key("deciding"), offer);
    applied.await.unwrap()
}

#[tokio::test]
async fn rebalancer_lists_damaged_rows_too() {
    let (node, engine) = alone(Hooks::NONE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    for name in ["a", "b", "c"] {
        node.write(&key(name), Some(Value::default()), how())
            .await
            .unwrap();
    }
    damage(&*engine, &key("b"));
    let group = node.group(PartitionId(0)).unwrap();
    let start = ListStart::At(Bytes::new());
    let page = node.layouts().rows_at(&group, 0, start).await;
    assert!(
        page.is_err() || page.unwrap().0.contains(&(key("b").key, None)),
        "b is silently left out"
    );
}

#[tokio::test]
async fn an_emptiness_scan_does_not_pass_over_a_damaged_row() {
    let (node, engine) = alone(Hooks::NONE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    node.write(&key("b"), Some(Value::default()), how())
        .await
        .unwrap();
    damage(&*engine, &key("b"));
    let rows = node
        .scan(PartitionId(0), &Bytes::from_static(b"b"), None, 1)
        .await;
    assert!(
        rows.is_err() || !rows.unwrap().is_empty(),
        "reads as empty: DeleteBucket would succeed"
    );
}

/// Garbage collection settles a row before it drops what the row does not refer to. On a disk that
/// is nearly full it must be able to, or the disk stays full.
#[tokio::test]
async fn a_row_can_be_settled_on_a_disk_that_is_nearly_full() {
    use std::sync::atomic::{AtomicU64, Ordering};

    let mut options = seeded_options(1, Threads::Own).unwrap();
    let free = Arc::new(AtomicU64::new(1000));
    let left = free.clone();
    options.limits.metadata_reserve_bytes = 1000;
    options.metadata_space = Some(Arc::new(move || Ok(left.load(Ordering::SeqCst))));
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    let write = async || {
        let how = WriteOptions::durable(Durability::Fsync);
        node.write(&key("a"), Some(text(b"value")), how).await
    };
    write().await.unwrap();
    free.store(999, Ordering::SeqCst);
    write().await.unwrap_err();
    let settled = node.settle(&key("a")).await.unwrap();
    assert_eq!(settled, Some(text(b"value")));
}

/// A replica that lagged gets a copy of a null version that others have displaced. The next null
/// version replaces both that copy and the older one in the object's row.
#[tokio::test]
async fn a_plain_write_replaces_a_copied_null_version() {
    let (node, _engine) = alone(VERSIONED).await;
    let object = key("o/k");
    let kept = RowKey {
        key: [&b"v/k\0"[..], &[0; 16]].concat().into(),
        ..key("")
    };
    let how = || WriteOptions::durable(Durability::Fsync);
    node.write(&object, Some(text(b"first")), how())
        .await
        .unwrap();
    let stamp = node.next_stamp(Stamp::ZERO);
    let version = Version {
        stamp,
        write: INTENT.write,
        value: Some(crate::register::versions::as_kept(text(b"second"), stamp)),
    };
    let address = node.group(PartitionId(0)).unwrap().address(0).unwrap();
    let applied = node
        .replica
        .apply(address, kept.clone(), Offer::settled(version))
        .await;
    assert_eq!(applied.unwrap(), Applied::Yes);
    node.write(&object, Some(text(b"third")), how())
        .await
        .unwrap();
    let left = node.store().read(move |rows| rows.metadata(&kept)).await;
    assert_eq!(
        left.unwrap(),
        None,
        "an older null version stays beside the current one"
    );
}
