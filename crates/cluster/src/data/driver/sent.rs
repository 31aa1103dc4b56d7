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
