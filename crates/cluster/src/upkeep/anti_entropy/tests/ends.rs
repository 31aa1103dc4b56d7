//! The ends of passes: when the next one comes, and how others learn of rows that were left.

use super::damaged::{damage, pass};
use super::driver::run_passes;
use super::*;
use crate::error::Error;
use crate::upkeep::anti_entropy::schedule::Ended;
use crate::upkeep::repair::Lagging;

const LONG: Duration = Duration::from_secs(120);
/// More rows than two calls pull.
const ROWS: u64 = 600;

/// Returns the rows that a node has to fetch, as all nodes can ask it.
async fn told(node: &Cluster) -> Vec<Lagging> {
    let all = node.upkeep().maintenance_of_all(None).await;
    let own = all.into_iter().find(|(id, _)| *id == node.me().node);
    own.unwrap().1.unwrap().lagging
}

fn has_trouble(other: &Lagging) -> bool {
    other.trouble.is_some()
}

/// Otherwise a client that waits for the comparison would take its end for a success.
#[tokio::test(start_paused = true)]
async fn comparison_that_failed_is_told() {
    let world = three(14).await;
    let c = &world.nodes[2];
    world.isolate(2);
    run_passes(c);
    tokio::time::sleep(LONG).await;
    let told = told(c).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(has_trouble), "{told:?}");
}

/// The pass has been through all partitions that differ, and none of them counts as left.
#[tokio::test(start_paused = true)]
async fn rows_that_a_pass_left_are_told() {
    let world = three(15).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    let write = async |text: &'static str| {
        let row = key("rotten");
        a.write(&row, Some(value(text)), durable()).await.unwrap();
        tokio::time::sleep(LONG).await;
    };
    write("old").await;
    world.isolate(2);
    write("new").await;
    damage(&world, 2, "rotten");
    world.network.end_all_cuts();
    run_passes(c);
    tokio::time::sleep(LONG).await;
    let told = told(c).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(has_trouble), "{told:?}");
}

/// Beside clients, calls fail now and then. A node with many rows to fetch would rest for minutes
/// between passes that each bring some.
#[tokio::test(start_paused = true)]
async fn pass_that_brought_rows_and_broke_off_is_followed_soon() {
    let world = three(16).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    let at = stamp(a.now_ms() - 1000);
    let rows = (0..ROWS).map(|n| (key(format!("row {n}")), at));
    plant(a, rows.collect()).await;
    let came = || c.upkeep().anti_entropy_status().rows;
    let cut = async {
        for _ in 0..10_000 {
            if came() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.isolate(2);
    };
    let first = pass(c, a);
    let (ended, ()) = tokio::join!(first.run([PartitionId(0)].into()), cut);
    assert!(ended.is_err() && came() > 0 && came() < ROWS, "{ended:?}");
    assert_eq!(first.note_end(ended), Ended::Partly);

    let second = pass(c, a);
    let ended = second.run([PartitionId(0)].into()).await;
    assert_eq!(second.note_end(ended), Ended::Failed, "nothing came");
}

/// A row that is listed and is not newer after all does not come. With an error in each pass, passes
/// would follow each other every 15 s.
#[tokio::test(start_paused = true)]
async fn row_that_was_not_newer_did_not_come() {
    let world = three(17).await;
    let [a, c] = [&world.nodes[0], &world.nodes[2]];
    let at = stamp(a.now_ms() - 1000);
    let row = || (key("row"), at);
    let broke_off = || Err(Error::Unavailable("on purpose".into()));
    for node in [a, c] {
        plant(node, vec![row()]).await;
    }
    let with_it = pass(c, a);
    assert!(with_it.pull(vec![row()]).await.unwrap());
    assert_eq!(with_it.note_end(broke_off()), Ended::Failed);

    let newer = stamp(a.now_ms());
    plant(a, vec![(key("row"), newer)]).await;
    let without_it = pass(c, a);
    assert!(without_it.pull(vec![(key("row"), newer)]).await.unwrap());
    assert_eq!(without_it.note_end(broke_off()), Ended::Partly);
}
