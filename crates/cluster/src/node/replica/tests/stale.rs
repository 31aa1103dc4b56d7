//! Reads under an address that ends between the check of the address and the look at the rows.

use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{self, ReadTxn, WriteTxn};
use archipel_storage::store::StoreOptions;
use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::*;
use crate::merge::wire;
use crate::node::wire::{ListCall, ListReply, PageCall, PageReply};

/// A function that runs just before the next view is opened.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// An engine in memory. Something else may happen just before a view is opened.
#[derive(Default)]
struct Interrupted {
    engine: MemoryEngine,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Engine for Interrupted {
    fn read(&self) -> engine::Result<Box<dyn ReadTxn + '_>> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.engine.read()
    }

    fn write(&self) -> engine::Result<Box<dyn WriteTxn + '_>> {
        self.engine.write()
    }

    fn sync(&self) -> engine::Result<()> {
        self.engine.sync()
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &std::path::Path) -> engine::Result<()> {
        self.engine.copy_to(source, folder)
    }

    fn size_bytes(&self) -> engine::Result<u64> {
        self.engine.size_bytes()
    }
}

/// Creates a node that holds a row. Before its next view of the rows it learns a layout in which
/// its store is another incarnation, so that it wipes the store.
async fn about_to_be_wiped() -> Cluster {
    let engine = Arc::new(Interrupted::default());
    let options = StoreOptions {
        engine: engine.clone(),
        ..seeded_options(1, Threads::Inline).unwrap()
    };
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    let how = WriteOptions::durable(Durability::Fsync);
    let row = key("a");
    let written = node.write(&row, Some(text(b"value")), how);
    written.await.unwrap();
    let mut next = (*node.epochs.current().unwrap()).clone();
    next.config.epoch += 1;
    next.config.live[0][0].incarnation += 1;
    let wiped = node.clone();
    *engine.meanwhile.lock() = Some(Box::new(move || {
        // A store without threads of its own never waits. A wipe asks it more often than tokio lets
        // a task go on at a time.
        let learning = unconstrained(wiped.epochs.learn(wiped.store(), next));
        learning.now_or_never().unwrap().unwrap();
    }));
    node
}

#[tokio::test]
async fn a_read_that_a_wipe_overtakes_does_not_answer_that_the_row_is_absent() {
    let node = about_to_be_wiped().await;
    let read = Request::Read { with_value: true };
    let answer = ask(&node, call(&node, "a", read)).await;
    assert_eq!(answer.unwrap(), Answer::Superseded { epoch: 2 });
}

#[tokio::test]
async fn a_page_that_a_wipe_overtakes_is_not_sent() {
    let node = about_to_be_wiped().await;
    let query = ListQuery::new(PartitionId(0), Bytes::new());
    let page = PageCall {
        address: node.group(PartitionId(0)).unwrap().address(0).unwrap(),
        query: wire::encode_query(&query).into(),
        known: None,
        fence: None,
    };
    let reply = node.serve_list(NodeId::default(), ListCall(vec![page]));
    let reply = reply.await.unwrap();
    assert!(matches!(reply, ListReply::Superseded(2)), "{reply:?}");
}

/// A fence is open while its metadata is "open".
const FENCES: Hooks = Hooks {
    holds: |_, metadata, _| *metadata == *b"open",
    ..Hooks::NONE
};

/// Creates a node with an open fence. After its next view of the rows a write passes the fence, and
/// the fence closes.
async fn about_to_close() -> Cluster {
    let engine = Arc::new(Interrupted::default());
    let options = StoreOptions {
        engine: engine.clone(),
        ..seeded_options(1, Threads::Inline).unwrap()
    };
    let node = Cluster::alone(options, FENCES).await.unwrap();
    let how = WriteOptions::durable(Durability::Fsync);
    let (object, fence) = (key("a"), key("fence"));
    let opened = node.write(&fence, Some(text(b"open")), how);
    let stamp = opened.await.unwrap();
    let (closing, later) = (node.clone(), engine.clone());
    let close = move || {
        let set = move |txn: &mut RowTxn<'_>| {
            let row = |metadata: &'static [u8]| Row {
                promised: stamp,
                stamp,
                write: Id([7; 16]),
                value: Some(text(metadata)),
            };
            txn.set(&object, &row(b"value"))?;
            txn.set(&fence, &row(b"closed"))
        };
        let closed = closing.store().transact(Durability::Fsync, set);
        unconstrained(closed).now_or_never().unwrap().unwrap();
    };
    let then: Meanwhile = Box::new(close);
    *engine.meanwhile.lock() = Some(Box::new(move || *later.meanwhile.lock() = Some(then)));
    node
}

/// The rows as they were before the write, and the fence as it was after it, would say that there
/// is nothing and that nothing will come.
#[tokio::test(start_paused = true)]
async fn a_look_behind_a_fence_sees_the_fence_and_the_rows_in_one_view() {
    let (object, fence) = (key("a"), key("fence"));
    let node = about_to_close().await;
    let look = node.has_rows_fenced(PartitionId(0), &object.key, &fence);
    assert!(look.await.unwrap(), "by this node itself");

    let node = about_to_close().await;
    let query = ListQuery::new(PartitionId(0), object.key);
    let page = || PageCall {
        address: node.group(PartitionId(0)).unwrap().address(0).unwrap(),
        query: wire::encode_query(&query).into(),
        known: None,
        fence: Some(fence.key.clone()),
    };
    let ask = async || {
        node.serve_list(NodeId::default(), ListCall(vec![page()]))
            .await
    };
    let too_early = ask().await;
    assert!(too_early.is_err(), "for another node: {too_early:?}");
    let ListReply::Pages(pages) = ask().await.unwrap() else {
        panic!("the layout has not changed");
    };
    let [PageReply::Page(page)] = &pages[..] else {
        panic!("one page: {pages:?}");
    };
    assert_eq!(wire::decode_page(page).unwrap().listing.entries.len(), 1);
}
