//! Nodes that take long to answer.

use std::sync::atomic::{AtomicBool, Ordering};

use archipel_storage::Threads;
use archipel_storage::pool::{Pace, Pool, Work};
use parking_lot::Mutex;

use super::*;
use crate::cluster::Cluster;
use crate::memory::{World, seeded_options};
use crate::node::options::Hooks;

/// The threads of a store, which begin nothing more once they are told to hang.
#[derive(Default)]
struct Hanging {
    hangs: AtomicBool,
    waiting: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Pace for Hanging {
    fn later(&self, _: Work, job: Box<dyn FnOnce() + Send>) {
        match self.hangs.load(Ordering::SeqCst) {
            true => self.waiting.lock().push(job),
            false => job(),
        }
    }
}

/// Otherwise everything that shows the maintenance of all nodes would hang with the disks of this
/// one.
#[tokio::test(start_paused = true)]
async fn a_node_waits_no_longer_for_itself_than_for_others() {
    let hanging = Arc::new(Hanging::default());
    let mut options = seeded_options(1, Threads::Inline).unwrap();
    options.pool = Pool::paced(hanging.clone());
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    let told = node.upkeep().maintenance_of_all(None).await;
    assert!(told[0].1.is_ok(), "{told:?}");
    hanging.hangs.store(true, Ordering::SeqCst);
    // One question is under way, and the others wait for it.
    for _ in 0..3 {
        let asked = node.upkeep().maintenance_of_all(None);
        let told = tokio::time::timeout(2 * ANSWER, asked).await.unwrap();
        assert!(told[0].1.is_err(), "{told:?}");
    }
    assert_eq!(hanging.waiting.lock().len(), 1);
}

/// To look a block up takes longer than any other call, and tells nothing of the distance.
#[tokio::test(start_paused = true)]
async fn looking_a_block_up_may_take_longer_than_other_calls() {
    let near = Duration::from_millis(5);
    let world = World::new(2, 2, near, 1, Hooks::NONE).await.unwrap();
    let (upkeep, other) = (world.nodes[0].upkeep(), world.nodes[1].me().node);
    let peers = upkeep.peers().unwrap();
    let distance = peers.rpc.round_trip(&other);
    let latency = Duration::from_secs(7);
    assert!(2 * latency > peers.times.call);
    world.move_away(1, latency);
    let told = upkeep
        .look_up_block_everywhere(BlockHash::of(b"none"))
        .await;
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(_, report)| report.is_ok()), "{told:?}");
    assert_eq!(peers.rpc.round_trip(&other), distance);
}
