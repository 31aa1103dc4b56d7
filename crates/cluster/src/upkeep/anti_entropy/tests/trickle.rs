//! Blocks that come slowly, because clients use up the link.

use super::*;
use crate::data::tests::{fetches, limit};
use crate::node::throttle::Kind;

const LONG: Duration = Duration::from_secs(600);

/// Found by reading: units of background work waited for blocks, so that one slow link held up a
/// layout change while clients were served.
#[tokio::test(start_paused = true)]
async fn blocks_on_their_way_hold_up_no_other_background_work() {
    let world = three(12).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    world.isolate(2);
    let mut content = vec![0; 1 << 20];
    a.fill_random(&mut content);
    put(a, "big", content.into()).await;
    tokio::time::sleep(LONG).await;
    world.network.end_all_cuts();
    c.metadata(&key("absent")).await.unwrap();
    // Answers are slow beside units, so only one unit runs at a time.
    c.in_background(async {}).await;
    let node = c.clone();
    let serving = tokio::spawn(async move {
        loop {
            node.throttle.answered(Kind::Read, LONG);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    limit(&world, &[0, 1], 80_000);
    let (node, other) = (c.clone(), world.ids[0]);
    let pulling = tokio::spawn(async move {
        let options = AntiEntropyOptions::default();
        node.upkeep().pull_from(&other, options).await
    });
    let begins = async {
        while fetches(c) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, begins).await.unwrap();
    // Once they have begun to send.
    tokio::time::sleep(Duration::from_secs(1)).await;
    limit(&world, &[0, 1], 4_000);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(c.background_allowance() < 1.0);
    let unit = c.in_background(async {});
    let unit = tokio::time::timeout(Duration::from_secs(30), unit).await;
    unit.expect("it waits for the blocks");
    let held = || c.store().read(|rows| rows.metadata(&key("big")));
    assert!(held().await.unwrap().is_none(), "the blocks came meanwhile");
    let pulled = tokio::time::timeout(LONG, pulling).await;
    assert!(pulled.expect("it ends").unwrap().unwrap());
    assert!(held().await.unwrap().is_some());
    serving.abort();
}
