//! The queue.

use super::queue::{MAX_CASES, Queue, Trouble};
use archipel_base::{BlockHash, PartitionId};

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
