//! Requests that arrive while an epoch is being learnt, and epochs that cannot be learnt.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::{Id, NodeId, PartitionId, codec};
use archipel_storage::engine::Engine;
use archipel_storage::engine::memory::{Fault, MemoryEngine};
use archipel_storage::store::{StoreOptions, Threads};
use archipel_storage::{Error, ListQuery, RowKey};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::data::bundle::RowsCall;
use crate::layout::Epoch;
use crate::memory::{World, seeded_options};
use crate::node::epochs::Check;
use crate::node::history::Contradiction;
use crate::node::options::Hooks;
use crate::node::wire::{Address, Refusal, RowCall, RowReply, method};
use crate::register::{Request, Version};

/// Longer than anything takes that ends.
const LONG: Duration = Duration::from_secs(60);

/// A node must refuse the older epoch before the newer one is durable. With a slow disk this takes
/// a while.
#[tokio::test(start_paused = true)]
async fn listing_waits_while_an_epoch_is_being_learnt() {
    let world = World::new(3, 3, Duration::from_millis(5), 1, Hooks::NONE)
        .await
        .unwrap();
    let node = world.nodes[0].clone();
    let epochs = &node.epochs;
    let mut next = (*epochs.current().unwrap()).clone();
    next.config.epoch += 1;

    let learning = epochs.learning.lock().await;
    epochs.fence.fetch_max(next.number(), Ordering::SeqCst);
    let lists = node.clone();
    let query = ListQuery::new(PartitionId(0), Bytes::new());
    let listing = tokio::spawn(async move { lists.list(query).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!listing.is_finished());
    *epochs.current.write() = Some(Arc::new(next));
    drop(learning);
    assert_eq!(listing.await.unwrap().unwrap().entries.len(), 0);
}

/// Returns a call that asks a node to hold a version in an epoch.
fn write_in(epoch: &Epoch, node: &Cluster) -> RowCall {
    let address = Address {
        epoch: epoch.number(),
        incarnation: epoch.incarnation_of(&node.me()).unwrap(),
        partition: PartitionId(0),
    };
    let request = Request::Write {
        version: Version::absent(),
        guarded: false,
    };
    RowCall::plain(address, Bytes::from_static(b"key"), request)
}

/// A store that comes back is wiped while its node learns the epoch, which may take minutes. The
/// other nodes send it each write of that epoch, and clients ask it.
#[tokio::test(start_paused = true)]
async fn requests_do_not_pile_up_while_an_epoch_is_being_learnt() {
    for is_stored in [true, false] {
        let world = World::new(3, 3, Duration::from_millis(5), 1, Hooks::NONE)
            .await
            .unwrap();
        let [a, b, _] = &world.nodes[..] else {
            panic!()
        };
        let mut next = (*a.epochs.current().unwrap()).clone();
        next.config.epoch += 1;
        b.learn(next.clone()).await.unwrap();
        let _learning = a.epochs.learning.lock().await;
        if is_stored {
            a.epochs.fence.fetch_max(next.number(), Ordering::SeqCst);
        }

        let (service, from) = (a.service(), b.me().node);
        let call = Bytes::from(codec::encode(&write_in(&next, a)));
        let bundle = Bytes::from(codec::encode(&RowsCall(vec![write_in(&next, a)])));
        let tasks = Handle::current().metrics();
        for (name, call) in [(method::ROW, &call), (method::ROWS, &bundle)] {
            let before = tasks.num_alive_tasks();
            for _ in 0..100 {
                let asked = service.call(from, name, call.clone());
                let answered = timeout(Duration::from_millis(20), asked).await;
                assert!(answered.is_err(), "it waits");
            }
            let after = tasks.num_alive_tasks();
            assert!(after < before + 50, "{name}: {before} tasks, then {after}");
        }

        let answer = timeout(LONG, service.call(from, method::ROW, call)).await;
        let answer = answer.expect("the wait ends").unwrap();
        let RowReply(answer) = codec::decode(&answer).unwrap();
        assert!(matches!(answer, Err(Refusal::Busy(_))), "{answer:?}");
        if !is_stored {
            continue;
        }
        let row = RowKey {
            partition: PartitionId(0),
            key: Bytes::from_static(b"key"),
        };
        let read = timeout(LONG, a.metadata(&row)).await;
        let read = read.expect("a client is answered");
        assert!(
            matches!(read, Err(crate::Error::Unavailable(_))),
            "{read:?}"
        );
        let query = ListQuery::new(PartitionId(0), Bytes::new());
        let listed = timeout(LONG, a.list(query)).await;
        let listed = listed.expect("a client is answered");
        assert!(matches!(listed, Err(crate::Error::Unavailable(_))));
        let told = timeout(LONG, service.call(from, method::EPOCH, Bytes::new()));
        assert!(told.await.expect("a node is answered").is_err());
    }
}

/// Returns a node alone, its engine, and an epoch that follows its own.
async fn node_and_next() -> (Cluster, Arc<MemoryEngine>, Epoch) {
    let engine = Arc::new(MemoryEngine::new());
    let options = StoreOptions {
        engine: engine.clone(),
        ..seeded_options(1, Threads::Own).unwrap()
    };
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    let mut next = (*node.epochs.current().unwrap()).clone();
    next.config.epoch += 1;
    (node, engine, next)
}

async fn listed(node: &Cluster) -> usize {
    let query = ListQuery::new(PartitionId(0), Bytes::new());
    node.list(query).await.unwrap().entries.len()
}

/// A node that refused the older epoch for good would answer nothing until its next start.
#[tokio::test]
async fn an_epoch_that_could_not_be_stored_is_learnt_later() {
    let (node, engine, next) = node_and_next().await;
    engine.inject(Fault {
        after_commits: 0,
        error: Error::Full("the disk is full".into()),
    });
    node.learn(next.clone()).await.unwrap_err();
    assert_eq!((node.epochs.number(), node.epochs.in_force()), (1, 1));
    assert_eq!(listed(&node).await, 0);
    node.learn(next).await.unwrap();
    assert_eq!((node.epochs.number(), node.epochs.in_force()), (2, 2));
    assert_eq!(listed(&node).await, 0);
}

/// The request that made a node learn an epoch may end before the epoch is durable.
#[tokio::test]
async fn an_epoch_is_learnt_although_its_caller_goes_away() {
    let (node, engine, next) = node_and_next().await;
    let busy = engine.write().unwrap();
    let mut learning = Box::pin(node.learn(next));
    assert!(futures_util::poll!(&mut learning).is_pending());
    drop(learning);
    drop(busy);
    let learnt = async {
        while node.epochs.in_force() < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), learnt).await.unwrap();
    assert_eq!(listed(&node).await, 0);
}

/// The write of an intent does not go out in an earlier epoch than the intent tells.
#[tokio::test]
async fn an_intent_tells_the_epoch_in_force() {
    let (node, _engine, next) = node_and_next().await;
    let learning = node.epochs.learning.lock().await;
    node.epochs.fence.fetch_max(next.number(), Ordering::SeqCst);
    assert_eq!(node.announce().await.unwrap().epoch, 1);
    drop(learning);
}

/// A rollback of the store is detected, and the store gets another name, while a request is checked. A store with a
/// new name may answer in all epochs, but not for the replica that it was.
#[tokio::test]
async fn a_request_is_not_answered_under_the_old_name_of_a_store() {
    let options = seeded_options(1, Threads::Inline).unwrap();
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    let epochs = node.epochs.clone();
    let epoch = epochs.current().unwrap();
    let address = Address {
        epoch: epoch.number(),
        incarnation: epoch.incarnation_of(&node.me()).unwrap(),
        partition: PartitionId(0),
    };
    assert_eq!(epochs.check(&address), Check::Pass);
    let (store, renamed) = (node.store().clone(), epochs.clone());
    *epochs.history.meanwhile.lock() = Some(Box::new(move || {
        let names = (Id([8; 16]), Id([9; 16]));
        let told = (NodeId([7; 32]), Contradiction::Older);
        let renaming = renamed.history.rename(&store, names, told);
        // A store without threads of its own never waits.
        unconstrained(renaming).now_or_never().unwrap().unwrap();
    }));
    assert_eq!(epochs.check(&address), Check::NotHere);
    assert_eq!(epochs.history.me().store, Id([8; 16]));
}
