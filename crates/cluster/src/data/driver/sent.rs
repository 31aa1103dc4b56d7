//! The requests of an operation that are under way, and what a wait for their answers brings.

use std::collections::BTreeSet;

use archipel_storage::Value;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::error::Error;
use crate::node::detach::DetachOnDrop;
use crate::register::{Answer, ReplicaSet, Request};

/// The answer or failure of a replica, by replica index, and the round of the request.
pub(super) type Reply = (usize, u32, Result<Answer<Value>, Error>);

/// A request that is deferred.
pub(super) struct Deferred {
    pub(super) until: Instant,
    pub(super) to: usize,
    pub(super) round: u32,
    pub(super) request: Request<Value>,
}

/// The requests that are under way.
pub(super) struct Sent {
    /// `None` stands for a panic.
    pub(super) replies: FuturesUnordered<DetachOnDrop<Option<Reply>>>,
    /// Requests that are sent only if the others are not answered in time, or if one of them fails.
    pub(super) deferred: Vec<Deferred>,
    /// The replicas that were asked, or are to be asked, in each round and have not answered.
    pub(super) open: BTreeSet<(usize, u32)>,
    /// The suspected replicas, when last looked at.
    pub(super) away: ReplicaSet,
    /// The last refusal or failure of a replica.
    pub(super) refused: Option<Error>,
    /// A replica that knows a newer layout.
    pub(super) newer_at: Option<usize>,
}

impl Sent {
    /// Lets the requests that are under way go on in tasks of their own. Here nobody would poll
    /// them while the operation waits for something else, and they may hold places in queues that
    /// this needs.
    pub(super) fn leave(&mut self) {
        self.deferred.clear();
        self.open.clear();
        self.replies.clear();
    }

    /// Returns the replicas of a round that have not answered.
    pub(super) fn open_in(&self, round: u32) -> ReplicaSet {
        let open = self.open.iter().filter(|(_, of)| *of == round);
        open.map(|(index, _)| *index).collect()
    }
}

/// The event that ended a wait.
pub(super) enum Came {
    Reply(Box<Reply>),
    /// It is time to send the deferred requests.
    Time,
    /// No reply came in the time allowed.
    Silence,
    /// No reply came, and none is to be expected.
    End,
    Panic,
}

impl Came {
    /// Returns the event at `at`, when no reply came: either a request is not deferred any longer,
    /// or the wait is over.
    pub(super) fn nothing(at: Instant, deferred: Option<Instant>) -> Came {
        if deferred == Some(at) {
            Came::Time
        } else {
            Came::Silence
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    /// A request waits for a place. The operation that sent it waits for something else, which
    /// needs the place after it.
    #[tokio::test]
    async fn requests_that_are_left_go_on_by_themselves() {
        let places = Arc::new(Semaphore::new(1));
        let taken = places.acquire().await;
        let waiting = places.clone();
        let mut request = DetachOnDrop::new(async move {
            drop(waiting.acquire().await);
            None
        });
        assert!(futures_util::poll!(&mut request).is_pending());
        let mut sent = Sent {
            replies: FuturesUnordered::new(),
            deferred: Vec::new(),
            open: BTreeSet::from([(0, 1)]),
            away: ReplicaSet::EMPTY,
            refused: None,
            newer_at: None,
        };
        sent.replies.push(request);
        sent.leave();
        drop(taken);
        let _place = places.acquire().await;
        assert!(sent.open_in(1).is_empty());
    }
}
