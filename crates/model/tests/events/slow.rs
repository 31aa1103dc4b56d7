//! Targets that need long for each event, never answer, or refuse some events: they hold up nothing but these.

use std::time::Duration;

use futures_util::future::join_all;

use crate::nodes::{LATENCY, Nodes, nodes_of, some_nodes_of};

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1_000_000);

impl Nodes {
    /// Writes a key some times, each time with the next number as its tag.
    async fn put_often(&self, node: usize, key: &str, times: usize) {
        for n in 0..times {
            self.put(node, key, &n.to_string()).await.unwrap();
        }
    }

    /// Does so with several keys at once.
    async fn put_all(&self, node: usize, keys: &[String], times: usize) {
        join_all(keys.iter().map(|key| self.put_often(node, key, times))).await;
    }

    fn slow_down(&self, receiver: usize, delay: Duration) {
        *self.receivers[receiver].delay.lock() = delay;
    }
}

fn numbers(up_to: usize) -> Vec<String> {
    (0..up_to).map(|n| n.to_string()).collect()
}

/// Returns keys that begin with a word: several for most partitions of the bucket.
fn keys(word: &str) -> Vec<String> {
    (0..30).map(|n| format!("{word}-{n}")).collect()
}

#[tokio::test(start_paused = true)]
async fn slow_target_holds_up_no_other_one() {
    for delay in [Duration::from_secs(2), NEVER] {
        let nodes = nodes_of(&["quick", "slow"]).await;
        nodes.slow_down(1, delay);
        nodes.put_all(0, &keys("slow"), 20).await;
        nodes.put_all(1, &keys("quick"), 3).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        for key in keys("quick") {
            assert_eq!(nodes.receivers[0].tags_of(&key), numbers(3), "{delay:?}");
        }
        if delay == NEVER {
            continue;
        }
        tokio::time::sleep(Duration::from_secs(90)).await;
        for key in keys("slow") {
            assert_eq!(nodes.receivers[1].tags_of(&key), numbers(20));
        }
    }
}

/// All partitions have keys with many events.
#[tokio::test(start_paused = true)]
async fn key_without_an_end_holds_up_no_other_key() {
    let nodes = nodes_of(&["hook"]).await;
    nodes.slow_down(0, Duration::from_secs(1));
    let endless = keys("hook-endless");
    nodes.put_all(0, &endless, 60).await;
    nodes.put_all(1, &keys("hook"), 2).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    for key in keys("hook") {
        assert_eq!(nodes.receiver.tags_of(&key), numbers(2), "{key}");
    }
    let is_done = |key: &String| nodes.receiver.tags_of(key).len() == 60;
    assert!(!endless.iter().any(is_done));
    tokio::time::sleep(Duration::from_secs(120)).await;
    for key in &endless {
        assert_eq!(nodes.receiver.tags_of(key), numbers(60), "{key}");
    }
}

/// The receiver refuses more keys than are tried at once, in each partition. They come before the others. A node
/// alone delivers the events of more partitions than it works on at once.
#[tokio::test(start_paused = true)]
async fn refused_events_hold_up_those_of_other_keys_for_minutes_only() {
    for count in [1, 3] {
        let nodes = some_nodes_of(count, &["hook"]).await;
        nodes.slow_down(0, LATENCY);
        *nodes.receiver.refused.lock() = Some("hook/a/");
        let keys = |word: &str, up_to: usize| -> Vec<String> {
            let names = (0..up_to).map(|n| format!("hook/{word}/{n}"));
            names.collect()
        };
        nodes.put_all(0, &keys("a", 400), 1).await;
        tokio::time::sleep(Duration::from_secs(50)).await;
        let failed = |nodes: &Nodes| -> u64 {
            let models = nodes.models.iter();
            models.map(|model| model.event_status()[0].failed).sum()
        };
        assert_ne!(failed(&nodes), 0);
        nodes.put_all(0, &keys("b", 30), 1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        for key in keys("b", 30) {
            assert_eq!(nodes.receiver.tags_of(&key), numbers(1), "{key}");
        }
        // Each node tries at most 8 x 16 objects after each pause of a minute.
        let before = failed(&nodes);
        tokio::time::sleep(Duration::from_secs(600)).await;
        let tried = failed(&nodes) - before;
        assert!(tried <= 11 * 128 * u64::from(count), "{tried} of {count}");
        *nodes.receiver.refused.lock() = None;
        tokio::time::sleep(Duration::from_secs(600)).await;
        for key in keys("a", 400) {
            assert_eq!(nodes.receiver.tags_of(&key), numbers(1), "{key}");
        }
    }
}

/// The nodes that are left still have much to deliver themselves.
#[tokio::test(start_paused = true)]
async fn events_of_a_dead_node_are_taken_over_while_others_wait() {
    for victim in 0..3 {
        let nodes = nodes_of(&["hook", "quick"]).await;
        nodes.slow_down(0, Duration::from_secs(1));
        nodes.put_all(0, &keys("hook-endless"), 60).await;
        nodes.workers[victim].abort();
        nodes.world.kill(victim);
        let other = (victim + 1) % 3;
        for word in ["hook", "quick"] {
            nodes.put_all(other, &keys(word), 2).await;
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        for (receiver, word) in ["hook", "quick"].into_iter().enumerate() {
            for key in keys(word) {
                let mut tags = nodes.receivers[receiver].tags_of(&key);
                // The others may both have taken themselves for the first one for a moment.
                tags.sort();
                tags.dedup();
                assert_eq!(tags, numbers(2), "{key} without {victim}");
            }
        }
    }
}
