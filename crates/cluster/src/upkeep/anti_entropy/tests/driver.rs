//! The driver of passes.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;

use super::*;

const LONG: Duration = Duration::from_secs(120);

/// Runs the passes of a node, and nothing else of its upkeep.
pub(super) fn run_passes(node: &Cluster) -> JoinHandle<()> {
    let node = node.clone();
    let options = AntiEntropyOptions::default();
    tokio::spawn(async move { node.upkeep().pass_forever(options).await })
}

/// Returns three nodes, of which the last one lacks a row.
async fn three_of_which_one_lacks_a_row(hooks: Hooks) -> World {
    let latency = Duration::from_millis(20);
    let world = World::new(3, 3, latency, 1, hooks).await.unwrap();
    world.isolate(2);
    let key = key("k");
    let written = world.nodes[0].write(&key, Some(value("v")), durable());
    written.await.unwrap();
    tokio::time::sleep(LONG).await;
    world.network.end_all_cuts();
    world
}

/// It would apply nothing, and its passes would end as if nothing was missing.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_not_confirmed_runs_no_passes() {
    let world = three_of_which_one_lacks_a_row(Hooks::NONE).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    c.epochs.history.disprove();
    run_passes(c);
    tokio::time::sleep(LONG).await;
    assert_eq!(c.upkeep().anti_entropy_status().passes, 0);
    c.epochs.history.prove_for_ever();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(digest(a).await, digest(c).await);
}

/// True while passes panic.
static PANICS: AtomicBool = AtomicBool::new(false);

#[tokio::test(start_paused = true)]
async fn a_pass_that_panics_is_due_again() {
    let hooks = Hooks {
        topics: |_| {
            assert!(!PANICS.load(Ordering::SeqCst), "on purpose");
            None
        },
        ..Hooks::NONE
    };
    let world = three_of_which_one_lacks_a_row(hooks).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    PANICS.store(true, Ordering::SeqCst);
    run_passes(c);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_ne!(digest(a).await, digest(c).await);
    PANICS.store(false, Ordering::SeqCst);
    tokio::time::sleep(10 * LONG).await;
    assert_eq!(digest(a).await, digest(c).await);
}

/// The passes of a driver end with it, without a word.
#[tokio::test(start_paused = true)]
async fn a_driver_that_begins_again_runs_the_passes_that_ended_with_the_last_one() {
    let world = three(1).await;
    let c = &world.nodes[2];
    world.isolate(2);
    let first = run_passes(c);
    let peers = || c.upkeep().anti_entropy_status().peers;
    let is_under_way = || peers().iter().any(|peer| peer.running);
    for _ in 0..100 {
        if is_under_way() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(is_under_way(), "nobody noted its end");
    world.network.end_all_cuts();
    run_passes(c);
    tokio::time::sleep(LONG).await;
    let whole = |peer: &super::super::PeerStatus| peer.whole_ms > 0;
    assert!(peers().iter().all(whole), "{:?}", peers());
}
