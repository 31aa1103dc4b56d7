//! The feed: the latest changes that this node's replicas have accepted, by topic, for those who
//! watch rows. It is in memory only. A watcher that missed a part of it, because it was away for
//! too long or because the node has started again, is told so, and looks at its rows.

use std::collections::VecDeque;
use std::time::Duration;

use archipel_base::{Id, boxed};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::options::Topics;
use super::wire::{FeedReply, Position};

/// The number of changes that are kept.
const KEPT: usize = 65_536;
/// The most changes that one answer holds.
const TOLD: usize = 8192;

/// The changes of one run of a node.
pub(crate) struct Feed {
    run: Id,
    state: Mutex<State>,
    grown: Notify,
}

#[derive(Default)]
struct State {
    /// The number of changes that are not kept any more.
    dropped: u64,
    kept: VecDeque<Topics>,
}

impl State {
    fn end(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }
}

impl Feed {
    /// Creates the feed of a run with this random name.
    pub fn new(run: Id) -> Feed {
        Feed {
            run,
            state: Mutex::default(),
            grown: Notify::new(),
        }
    }

    /// Returns the random name of the node's run.
    pub fn run(&self) -> Id {
        self.run
    }

    /// Adds a change. It is durable already.
    pub fn tell(&self, topics: Topics) {
        {
            let mut state = self.state.lock();
            if state.kept.len() == KEPT {
                state.kept.pop_front();
                state.dropped += 1;
            }
            state.kept.push_back(topics);
        }
        self.grown.notify_waiters();
    }

    /// Returns the changes after a position, at once if there are some, and otherwise after the
    /// next one or when `hold` is over. Without a position, returns the present one.
    #[boxed]
    pub async fn after(&self, after: Option<Position>, hold: Duration, epoch: u64) -> FeedReply {
        let waiting = async {
            loop {
                // The listener is there before the look, so that no change comes between.
                let mut grown = std::pin::pin!(self.grown.notified());
                grown.as_mut().enable();
                match self.look(after) {
                    (Some(changes), _) if changes.is_empty() && after.is_some() => grown.await,
                    _ => return,
                }
            }
        };
        // When the time is over, the answer says that nothing has changed.
        let _ = tokio::time::timeout(hold, waiting).await;
        let (changes, number) = self.look(after);
        FeedReply {
            changes,
            next: Position {
                run: self.run,
                number,
            },
            epoch,
        }
    }

    /// Returns the changes after a position, if they are known, and the position after them.
    fn look(&self, after: Option<Position>) -> (Option<Vec<Topics>>, u64) {
        let state = self.state.lock();
        let Some(after) = after else {
            return (Some(Vec::new()), state.end());
        };
        let from = after.number.checked_sub(state.dropped);
        let known = from.filter(|_| after.run == self.run && after.number <= state.end());
        let Some(from) = known else {
            return (None, state.end());
        };
        // It fits, because it is at most the number of changes kept.
        let changes = state.kept.iter().skip(from as usize).take(TOLD);
        let changes: Vec<Topics> = changes.copied().collect();
        let next = after.number + changes.len() as u64;
        (Some(changes), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(5);
    const RUN: Id = Id([1; 16]);

    async fn read(feed: &Feed, number: u64) -> (Option<Vec<Topics>>, u64) {
        let reply = feed.after(Some(Position { run: RUN, number }), LONG, 1);
        let reply = reply.await;
        assert_eq!(reply.next.run, RUN);
        (reply.changes, reply.next.number)
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_told_once_and_in_order() {
        let feed = Feed::new(RUN);
        feed.tell([1, 2]);
        let now = feed.after(None, LONG, 7).await;
        assert_eq!(
            (now.changes, now.next.number, now.epoch),
            (Some(vec![]), 1, 7)
        );
        feed.tell([3, 4]);
        feed.tell([5, 6]);
        assert_eq!(read(&feed, 1).await, (Some(vec![[3, 4], [5, 6]]), 3));
        // Nothing changes for as long as the caller waits.
        let before = tokio::time::Instant::now();
        assert_eq!(read(&feed, 3).await, (Some(vec![]), 3));
        assert_eq!(before.elapsed(), LONG);
        let telling = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            feed.tell([7, 8]);
        };
        let (told, ()) = tokio::join!(read(&feed, 3), telling);
        assert_eq!(told, (Some(vec![[7, 8]]), 4));
    }

    #[tokio::test]
    async fn a_gap_is_named() {
        let feed = Feed::new(RUN);
        for n in 0..KEPT as u64 + 10 {
            feed.tell([n, n]);
        }
        let end = KEPT as u64 + 10;
        assert_eq!(read(&feed, 9).await, (None, end));
        let (told, next) = read(&feed, 10).await;
        assert_eq!(told.map(|all| (all[0], all.len())), Some(([10, 10], TOLD)));
        assert_eq!(next, 10 + TOLD as u64);
        assert_eq!(read(&feed, end + 1).await, (None, end), "from another run");
        let other = Position {
            run: Id([2; 16]),
            number: end,
        };
        assert_eq!(feed.after(Some(other), LONG, 1).await.changes, None);
    }
}
