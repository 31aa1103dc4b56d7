//! Reads under an address that ends between the check of the address and the look at the rows.

use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{self, ReadTxn, WriteTxn};
use archipel_storage::store::StoreOptions;
use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::*;
use crate::merge::wire;
use crate::node::wire::{ListCall, ListReply, PageCall};

/// What happens before the next view is opened.
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
        // A store without threads of its own never waits. A wipe asks it more often than tokio lets a
        // task go on at a time.
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
