//! The queue, the pace of scrubs, and requests for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::clock::{DAY, DAY_MS};
use archipel_base::{BlockHash, PartitionId, codec};
use archipel_storage::blocks::{DiskLocation, Scrubbed};
use archipel_storage::engine::memory::Fault;
use archipel_storage::pool::{Pace, Pool, Work};
use archipel_storage::{Error, Threads};
use futures_util::FutureExt;

use super::pace::Progress;
use super::queue::{Noted, Queue, Trouble};
use crate::cluster::Cluster;
use crate::memory::seeded_options;
use crate::node::options::Hooks;
use crate::upkeep::tests::three;

fn hash(number: u32) -> BlockHash {
    BlockHash::of(&number.to_be_bytes())
}

fn trouble(number: u32) -> Trouble {
    Trouble {
        hash: hash(number),
        why: "no replica has it".into(),
        rows: Vec::new(),
    }
}

#[test]
fn block_waits_longer_after_each_failure() {
    let mut queue = Queue::default();
    assert_eq!(queue.note(hash(1), None), Noted::New);
    assert_eq!(queue.note(hash(1), Some(PartitionId(7))), Noted::Known);
    assert_eq!(queue.due(0), [(hash(1), Some(PartitionId(7)))]);
    // Replicas of another row may have what those of the hint lack.
    let expected = [(hash(1), None)];
    let mut now = 1_000_000;
    for wait in [30_000, 60_000, 120_000] {
        queue.fail(trouble(1), now);
        assert_eq!(queue.due(now + wait - 1), []);
        now += wait;
        assert_eq!(queue.due(now), expected);
    }
    for _ in 0..40 {
        queue.fail(trouble(1), now);
    }
    assert_eq!(queue.due(now + 3_599_999), []);
    assert_eq!(queue.due(now + 3_600_000), expected);
    assert_eq!(queue.troubles(10), (vec![trouble(1)], 1));
    queue.hurry();
    assert_eq!(queue.due(now), expected);
    queue.settle(&hash(1));
    assert_eq!((queue.len(), queue.troubles(10).1), (0, 0));
}

/// That says nothing about the block.
#[test]
fn block_whose_rows_cannot_be_looked_up_waits_for_its_first_attempt() {
    let mut queue = Queue::default();
    let not_now = || Trouble {
        why: "its rows cannot be looked up".into(),
        ..trouble(1)
    };
    queue.note(hash(1), Some(PartitionId(7)));
    for now in [0, 30_000, 60_000] {
        assert_eq!(queue.due(now), [(hash(1), Some(PartitionId(7)))]);
        queue.delay(not_now(), now);
        assert_eq!(queue.due(now + 29_999), []);
        assert!(queue.moves());
    }
    assert_eq!(queue.troubles(10), (vec![not_now()], 1));
    queue.fail(trouble(1), 90_000);
    assert!(!queue.moves());
    queue.delay(not_now(), 120_000);
    assert!(!queue.moves(), "it was tried");
    assert_eq!(queue.troubles(10), (vec![trouble(1)], 1));
}

/// Otherwise a scrub would wait for room for ever.
#[test]
fn look_ups_that_fail_again_and_again_are_a_failed_repair() {
    let mut queue = Queue::with_limit(1);
    queue.note(hash(1), None);
    let delays = (1..100).find(|n| {
        queue.delay(trouble(1), n * 30_000);
        !queue.moves()
    });
    assert_eq!(delays, Some(21));
    assert_eq!(queue.troubles(10), (vec![trouble(1)], 1));
    assert_eq!(queue.due(22 * 30_000), [(hash(1), None)]);
}

#[test]
fn clock_that_was_set_back_delays_no_repair() {
    let mut queue = Queue::default();
    queue.note(hash(1), None);
    queue.fail(trouble(1), 1_000_000_000);
    assert_eq!(queue.due(5).len(), 1);
}

#[test]
fn queue_is_bounded_and_says_so() {
    let mut queue = Queue::with_limit(3);
    assert!(!queue.moves());
    for number in 0..5 {
        let room = if number < 3 {
            Noted::New
        } else {
            Noted::NoRoom
        };
        assert_eq!(queue.note(hash(number), None), room);
    }
    assert_eq!(queue.note(hash(0), None), Noted::Known);
    assert_eq!((queue.len(), queue.due(0).len()), (3, 3));
    (0..3).for_each(|number| {
        assert!(queue.moves());
        queue.fail(trouble(number), 0);
    });
    assert!(!queue.moves());
}

fn step(next: Option<u64>, damaged: u32) -> Scrubbed {
    Scrubbed {
        next: next.map(|offset| DiskLocation {
            disk: 1,
            segment: 2,
            offset,
        }),
        blocks: 10,
        bytes: 1000,
        damaged: (0..damaged).map(hash).collect(),
    }
}

#[test]
fn scrub_continues_where_it_was_and_ends_after_the_last_block() {
    let mut progress = Progress::default();
    progress.begin(5, None);
    assert_eq!(progress.after(), None);
    progress.add(&step(Some(88), 2), 6);
    let mut progress: Progress = codec::decode(&codec::encode(&progress)).unwrap();
    assert_eq!(progress.after().map(|place| place.offset), Some(88));
    assert!(progress.running);
    progress.add(&step(None, 1), 7);
    assert!(!progress.running);
    assert_eq!(
        (progress.blocks, progress.bytes, progress.damaged),
        (20, 2000, 3)
    );
    assert_eq!((progress.began_ms, progress.ended_ms), (5, 7));
}

/// Otherwise it would stand at the beginning for as long as rows are checked.
#[test]
fn rows_count_while_a_scrub_runs() {
    let mut progress = Progress::default();
    progress.begin(5, None);
    assert_eq!(progress.share(3000, 10), (0, 3000));
    (progress.partitions, progress.row_bytes) = (5, 500);
    assert_eq!(progress.share(3000, 10), (500, 4000));
    (progress.partitions, progress.row_bytes) = (10, 1000);
    progress.add(&step(Some(88), 0), 6);
    assert_eq!(progress.share(3000, 10), (2000, 4000));
    progress.add(&step(None, 0), 7);
    assert_eq!(progress.share(3000, 10), (2000, 3000));
}

#[test]
fn scrub_begins_once_a_cycle_and_aims_to_end_within_it() {
    let cycle = 30 * DAY_MS;
    let mut progress = Progress::default();
    progress.begin(DAY_MS, None);
    progress.add(&step(None, 0), 2 * DAY_MS);
    assert!(!progress.is_due(DAY_MS + cycle - 1, cycle));
    assert!(progress.is_due(DAY_MS + cycle, cycle));
    assert!(!progress.is_due(DAY_MS + 10 * cycle, 0), "not scheduled");
    let stored = 1_u64 << 44;
    let seconds = stored / progress.rate(stored, cycle);
    assert!(
        (20..=25).contains(&(seconds / DAY.as_secs())),
        "{seconds} s"
    );
    assert_eq!(progress.rate(0, cycle), 256 << 10);
    progress.begin(0, Some(7));
    assert_eq!(progress.rate(stored, cycle), 7);
    progress.stop(3 * DAY_MS);
    assert!(progress.stopped, "it was not through");
    assert!(!progress.running && !progress.is_due(3 * DAY_MS + cycle - 1, cycle));
}

#[tokio::test(start_paused = true)]
async fn a_scrub_that_is_refused_does_not_begin() {
    let world = three(1).await;
    let upkeep = world.nodes[0].upkeep();
    let before = upkeep.scrub_status();
    let fails = || Fault {
        after_commits: 0,
        error: Error::Io("on purpose".into()),
    };
    world.engines[0].inject(fails());
    upkeep.scrub_start(None).await.unwrap_err();
    assert_eq!(upkeep.scrub_status(), before);
    upkeep.scrub_start(None).await.unwrap();
    let running = upkeep.scrub_status();
    assert!(running.running);
    world.engines[0].inject(fails());
    upkeep.scrub_stop().await.unwrap_err();
    assert_eq!(upkeep.scrub_status(), running);
}

/// The change and its undoing go on without the caller.
#[tokio::test(start_paused = true)]
async fn a_scrub_that_is_refused_does_not_begin_if_its_caller_goes_away() {
    let world = three(1).await;
    let upkeep = world.nodes[0].upkeep();
    let before = upkeep.scrub_status();
    world.engines[0].inject(Fault {
        after_commits: 0,
        error: Error::Io("on purpose".into()),
    });
    let _ = upkeep.scrub_start(None).now_or_never();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(upkeep.scrub_status(), before);
}

/// The threads of a store, which end once they are told to.
#[derive(Default)]
struct Ending(AtomicBool);

impl Pace for Ending {
    fn later(&self, _: Work, job: Box<dyn FnOnce() + Send>) {
        if !self.0.load(Ordering::SeqCst) {
            job();
        }
    }
}

/// Opens a node, and returns it with the threads of its store.
async fn node_and_threads() -> (Cluster, Arc<Ending>) {
    let ending = Arc::new(Ending::default());
    let mut options = seeded_options(1, Threads::Inline).unwrap();
    options.pool = Pool::paced(ending.clone());
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    (node, ending)
}

/// Otherwise those who wait for repairs would wait for as long as storage fails.
#[tokio::test]
async fn blocks_whose_rows_cannot_be_looked_up_are_stuck() {
    let (node, ending) = node_and_threads().await;
    let upkeep = node.upkeep();
    upkeep.repair.note(hash(1), None);
    ending.0.store(true, Ordering::SeqCst);
    upkeep.repair_round().await.unwrap_err();
    let status = upkeep.repair_status();
    assert_eq!((status.waiting, status.stuck, status.failed), (1, 1, 1));
    assert!(status.troubles[0].why.contains("looked up"), "{status:?}");
    ending.0.store(false, Ordering::SeqCst);
    upkeep.retry_repairs();
    let round = upkeep.repair_round().await.unwrap();
    assert_eq!((round.settled, upkeep.repair_status().waiting), (1, 0));
}

/// The blocks that wait make room once their rows can be looked up again. A scrub that went on before
/// would pass over all further damage.
#[tokio::test]
async fn scrub_waits_for_room_while_rows_cannot_be_looked_up() {
    let (node, ending) = node_and_threads().await;
    let upkeep = node.upkeep();
    upkeep.limit_repairs(1);
    upkeep.repair.note(hash(1), None);
    ending.0.store(true, Ordering::SeqCst);
    upkeep.repair_round().await.unwrap_err();
    assert!(!upkeep.repair.note_all(&[hash(2)], None));
    ending.0.store(false, Ordering::SeqCst);
    upkeep.retry_repairs();
    upkeep.repair_round().await.unwrap();
    assert!(upkeep.repair.note_all(&[hash(2)], None));
    assert_eq!(upkeep.repair_status().waiting, 1);
}
