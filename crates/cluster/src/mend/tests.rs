//! The queue, and the pace of scrubbing.

use archipel_base::{BlockHash, PartitionId, codec};
use archipel_storage::blocks::{Place, Scrubbed};

use super::pace::Progress;
use super::queue::{MAX_CASES, Queue, Trouble};

fn hash(number: u32) -> BlockHash {
    BlockHash::of(&number.to_be_bytes())
}

fn trouble(number: u32) -> Trouble {
    Trouble {
        hash: hash(number),
        why: "nobody has it".into(),
        rows: Vec::new(),
    }
}

#[test]
fn a_failure_makes_a_block_wait_longer_each_time() {
    let mut queue = Queue::default();
    assert!(queue.note(hash(1), None));
    assert!(!queue.note(hash(1), Some(PartitionId(7))));
    let expected = [(hash(1), Some(PartitionId(7)))];
    assert_eq!(queue.due(0, 10), expected);
    let mut now = 1_000_000;
    for wait in [30_000, 60_000, 120_000] {
        queue.fail(trouble(1), now);
        assert_eq!(queue.due(now + wait - 1, 10), []);
        now += wait;
        assert_eq!(queue.due(now, 10), expected);
    }
    for _ in 0..40 {
        queue.fail(trouble(1), now);
    }
    assert_eq!(queue.due(now + 3_599_999, 10), []);
    assert_eq!(queue.due(now + 3_600_000, 10), expected);
    assert_eq!(queue.troubles(10), (vec![trouble(1)], 1));
    queue.hurry();
    assert_eq!(queue.due(now, 10), expected);
    queue.settle(&hash(1));
    assert_eq!((queue.len(), queue.troubles(10).1), (0, 0));
}

#[test]
fn a_clock_that_was_set_back_holds_nothing_up() {
    let mut queue = Queue::default();
    queue.note(hash(1), None);
    queue.fail(trouble(1), 1_000_000_000);
    assert_eq!(queue.due(5, 10).len(), 1);
}

#[test]
fn the_queue_is_bounded() {
    let mut queue = Queue::default();
    for number in 0..=MAX_CASES as u32 {
        assert_eq!(
            queue.note(hash(number), None),
            (number as usize) < MAX_CASES
        );
    }
    assert_eq!(queue.len(), MAX_CASES);
    assert_eq!(queue.due(0, 3).len(), 3);
}

fn step(next: Option<u64>, damaged: u32) -> Scrubbed {
    Scrubbed {
        next: next.map(|offset| Place {
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
fn a_pass_goes_on_where_it_was_and_ends_behind_the_last_block() {
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

#[test]
fn a_pass_begins_once_a_cycle_and_aims_to_end_within_it() {
    const DAY_MS: u64 = 86_400_000;
    let cycle = 30 * DAY_MS;
    let mut progress = Progress::default();
    progress.begin(DAY_MS, None);
    progress.add(&step(None, 0), 2 * DAY_MS);
    assert!(!progress.is_due(DAY_MS + cycle - 1, cycle));
    assert!(progress.is_due(DAY_MS + cycle, cycle));
    assert!(!progress.is_due(DAY_MS + 10 * cycle, 0), "never by itself");
    let stored = 1_u64 << 44;
    let seconds = stored / progress.rate(stored, cycle);
    assert!((20..=25).contains(&(seconds / 86_400)), "{seconds} s");
    assert_eq!(progress.rate(0, cycle), 256 << 10);
    progress.begin(0, Some(7));
    assert_eq!(progress.rate(stored, cycle), 7);
    progress.stop(3 * DAY_MS);
    assert!(!progress.running && !progress.is_due(3 * DAY_MS + cycle - 1, cycle));
}
