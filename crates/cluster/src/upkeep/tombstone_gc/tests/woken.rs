//! The task of floors, while others wake it.

use super::*;

/// The floors of other partitions move all the time. Each agreement wakes the task, which drops tombstones then.
#[tokio::test(start_paused = true)]
async fn agreements_do_not_put_off_the_look_after_floors() {
    let world = three(17).await;
    let now = world.nodes[0].now_ms();
    for node in &world.nodes {
        plant_row(node, tombstone(stamp(now - 3 * HOUR_MS))).await;
    }
    run(&world);
    for node in world.nodes.clone() {
        tokio::spawn(async move {
            loop {
                node.upkeep().collect_soon(PartitionId(1));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    tokio::time::sleep(LONG).await;
    for node in &world.nodes {
        assert_eq!(row_at(node).await, None);
    }
}
