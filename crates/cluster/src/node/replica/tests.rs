use archipel_base::random::SeededRandom;
use archipel_base::{NodeId, PartitionId};
use archipel_storage::ListQuery;
use archipel_storage::disk::MemoryDisk;
use archipel_storage::engine::{Engine, Tree};
use archipel_storage::rows::codec::row_key;
use archipel_storage::store::Threads;
use bytes::Bytes;

use super::*;
use crate::cluster::Cluster;
use crate::data::rows::WriteOptions;
use crate::memory::memory_options;
use crate::node::options::Hooks;

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
    let mut remembered = Remembered::default();
    remembered.put(key("a"), recent());
    remembered.put(key("b"), recent());
    assert!(remembered.take(&key("a"), 0).is_some());
    assert!(remembered.take(&key("b"), 1).is_none());
    remembered.put(key("b"), recent());
    assert!(remembered.take(&key("b"), 1).is_some());
}

#[test]
fn remembered_writes_are_bounded() {
    let mut remembered = Remembered::default();
    for n in 0..3 * REMEMBERED_ROWS {
        let name = n.to_string().into_bytes();
        let key = RowKey {
            key: name.into(),
            ..key("")
        };
        remembered.put(key, recent());
    }
    assert!(remembered.young.len() + remembered.old.len() <= REMEMBERED_ROWS);
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
    let random = Arc::new(SeededRandom::new(1));
    let disk = Arc::new(MemoryDisk::new());
    let options = memory_options(disk, random.clone(), Threads::Own).unwrap();
    let engine = options.engine.clone();
    let store = Store::open(options).unwrap();
    let node = Cluster::with_store(store, NodeId::default(), random, Hooks::NONE, None);
    let node = node.await.unwrap();
    node.found("here", 1 << 40).await.unwrap();
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

/// A hook that lets "ends" end the row "ended".
const ENDS: Hooks = Hooks {
    ends: |_, value| (value.metadata[..] == *b"ends").then(|| key("ended")),
    ..Hooks::NONE
};

async fn alone(hooks: Hooks) -> (Cluster, Arc<dyn Engine>) {
    let random = Arc::new(SeededRandom::new(1));
    let disk = Arc::new(MemoryDisk::new());
    let options = memory_options(disk, random.clone(), Threads::Own).unwrap();
    let engine = options.engine.clone();
    let store = Store::open(options).unwrap();
    let node = Cluster::with_store(store, NodeId::default(), random, hooks, None);
    let node = node.await.unwrap();
    node.found("here", 1 << 40).await.unwrap();
    (node, engine)
}

#[tokio::test]
async fn an_offer_that_is_not_held_is_not_remembered_as_accepted() {
    use archipel_base::Writer;
    let (node, _engine) = alone(ENDS).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    let metadata = |text: &'static [u8]| Value {
        metadata: Bytes::from_static(text),
        ..Value::default()
    };
    let stamp = Stamp::new(node.now_ms() - 1000, 0, Writer(9));
    node.write(&key("ended"), Some(metadata(b"live")), how())
        .await
        .unwrap();
    let version = Version {
        stamp,
        write: Id([7; 16]),
        value: Some(metadata(b"ends")),
    };
    let address = node.group(PartitionId(0)).unwrap().address(0).unwrap();
    let offer = Offer {
        version: version.clone(),
        settled: true,
        rules: Rules::CORRECT,
    };
    let taken = node
        .replica
        .apply(address, key("ending"), offer)
        .await
        .unwrap();
    assert!(taken == Applied::Promised);
    let ballot = Stamp::new(node.now_ms() + 1000, 0, Writer(9));
    let call = RowCall {
        address,
        key: key("ending").key,
        guards: Vec::new(),
        buffered: false,
        with_payload: true,
        background: false,
        request: Request::Prepare {
            ballot,
            asking: Some(version.write),
            guarded: false,
        },
    };
    match node.replica.answer(call).await.unwrap() {
        Answer::Promised { accepted, .. } => assert_eq!(accepted, Vec::<Stamp>::new()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_mover_lists_damaged_rows_too() {
    let (node, engine) = alone(Hooks::NONE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    for name in ["a", "b", "c"] {
        node.write(&key(name), Some(Value::default()), how())
            .await
            .unwrap();
    }
    damage(&*engine, &key("b"));
    let group = node.group(PartitionId(0)).unwrap();
    let keys = node.layouts().keys_at(&group, 0).await;
    assert!(
        keys.is_err() || keys.unwrap().contains(&key("b").key),
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

#[tokio::test]
async fn an_ended_row_stays_ended_whatever_was_promised_before() {
    use archipel_base::Writer;
    let (node, _engine) = alone(ENDS).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    let metadata = |text: &'static [u8]| Value {
        metadata: Bytes::from_static(text),
        ..Value::default()
    };
    node.write(&key("ended"), Some(metadata(b"live")), how())
        .await
        .unwrap();
    // Another coordinator rewrites the live row under a new stamp (settle): it has its promise.
    let ballot = Stamp::new(node.now_ms() + 4000, 0, Writer(9));
    let address = node.group(PartitionId(0)).unwrap().address(0).unwrap();
    let call = |request| RowCall {
        address,
        key: key("ended").key,
        guards: Vec::new(),
        buffered: false,
        with_payload: true,
        background: false,
        request,
    };
    let prepare = Request::Prepare {
        ballot,
        asking: None,
        guarded: false,
    };
    let promised = node.replica.answer(call(prepare)).await.unwrap();
    let Answer::Promised { version, .. } = promised else {
        panic!("{promised:?}")
    };
    let guarded = WriteOptions {
        guards: vec![key("ended")],
        ..how()
    };
    let ends =
        |_: Option<&Value>| crate::data::decision::Decision::<()>::Write(Some(metadata(b"ends")));
    node.update(&key("ending"), guarded, ends)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(node.read(&key("ended")).await.unwrap(), None);
    let version = Version {
        stamp: ballot,
        ..version
    };
    let late = node
        .replica
        .answer(call(Request::Write {
            version,
            guarded: false,
        }))
        .await
        .unwrap();
    assert_eq!(node.read(&key("ended")).await.unwrap(), None, "{late:?}");
}
