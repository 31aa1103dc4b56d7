//! Operations that run together: their requests to another node go there in one message.
//!
//! A batch of a thousand updates has two thousand requests for other nodes in each round. Each as a
//! message of its own, they take more processor time than the updates themselves.
//!
//! [`Bundle::drive`] polls the operations. The requests that they make meanwhile are queued, and go
//! out when the poll has ended: no request waits for time to pass. The answers come together, too,
//! so the next round of all these operations begins at once and is one message again.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use archipel_base::NodeId;
use archipel_base::codec::{self, Versioned};
use archipel_net::Class;
use archipel_storage::Value;
use archipel_traces::carry;
use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::Data;
use crate::error::Error;
use crate::node::replica::weight;
use crate::node::wire::{RowCall, RowReply, method};
use crate::register::Request;

/// The most requests of a message.
const MOST_CALLS: usize = 512;
/// The number of times that operations which can go on are polled before their requests go out.
const POLLS_AT_ONCE: usize = 256;
/// A message ends with the request with which it reaches this size, in bytes.
const FULL_BYTES: usize = 256 << 10;

/// The bytes of the answers of a message, beside the last one.
const ANSWERS_BYTES: usize = 256 << 10;

/// Requests about rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct RowsCall(pub(crate) Vec<RowCall>);

impl Versioned for RowsCall {
    const VERSION: u8 = 1;
}

/// The answers, in the order of the requests, each an encoded [`RowReply`]. `None` stands for an
/// answer that did not fit: the request is to be sent again, alone.
#[derive(Serialize, Deserialize)]
pub(crate) struct RowsReply(Vec<Option<Bytes>>);

impl Versioned for RowsReply {
    const VERSION: u8 = 1;
}

/// Operations that run together.
pub struct Bundle {
    data: Arc<Data>,
    queued: Mutex<Queued>,
}

#[derive(Default)]
struct Queued {
    /// True while a task drives the operations, so that what is queued is also sent.
    is_driven: bool,
    to: BTreeMap<NodeId, Vec<Waiting>>,
}

/// A request that waits to be sent, and then for its answer.
struct Waiting {
    call: RowCall,
    answer: oneshot::Sender<Result<RowReply, Error>>,
}

/// Notes that operations can go on. Those that run at once are polled a few at a time, and wake
/// their task for the rest.
struct Woken {
    again: AtomicBool,
    task: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

/// Sends what is queued in the end, also if the operations are dropped half-way.
struct Driving<'a>(&'a Bundle);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.0.queued.lock().is_driven = false;
        self.0.flush();
    }
}

impl Data {
    /// Returns a bundle for operations that are to run together: see
    /// [`WriteOptions::bundle`](crate::WriteOptions::bundle).
    pub fn bundle(self: &Arc<Data>) -> Arc<Bundle> {
        Arc::new(Bundle {
            data: self.clone(),
            queued: Mutex::default(),
        })
    }

    /// Answers requests of another node about rows.
    pub(crate) async fn serve_rows(self: &Arc<Data>, from: NodeId, calls: RowsCall) -> RowsReply {
        let answers = calls.0.into_iter().map(|call| self.serve_row(from, call));
        let mut bytes = 0;
        let fits = |answer: RowReply| {
            let answer = Bytes::from(codec::encode(&answer));
            let is_room = bytes < ANSWERS_BYTES;
            bytes += answer.len();
            is_room.then_some(answer)
        };
        RowsReply(join_all(answers).await.into_iter().map(fits).collect())
    }

    /// Sends a request about a row to another node, in a message of its own.
    pub(super) async fn ask_alone(&self, node: &NodeId, call: &RowCall) -> Result<RowReply, Error> {
        let peers = self.peers()?;
        // The node may fetch blocks first, and say late that it is busy: see `ask_together`.
        let has_blocks = |value: &Value| !value.payload.blocks().is_empty();
        let is_write = matches!(call.request, Request::Write { .. });
        let may_fetch = is_write && (call.background || call.value().is_some_and(has_blocks));
        let class = match may_fetch {
            true => Class::Data { remaining: 0 },
            false => Class::Small,
        };
        peers.call(node, method::ROW, class, call).await
    }
}

impl Bundle {
    /// Runs operations that have this bundle in their options.
    pub async fn drive<T>(&self, operations: impl Future<Output = T>) -> T {
        // Without the runtime's budget, which a part of the operations would use up.
        let mut operations = pin!(unconstrained(operations));
        self.queued.lock().is_driven = true;
        let _driving = Driving(self);
        poll_fn(|context| {
            let woken = Arc::new(Woken {
                again: AtomicBool::new(false),
                task: context.waker().clone(),
            });
            let waker = Waker::from(woken.clone());
            let mut inner = Context::from_waker(&waker);
            let mut polled = operations.as_mut().poll(&mut inner);
            for _ in 1..POLLS_AT_ONCE {
                if polled.is_ready() || !woken.again.swap(false, Ordering::SeqCst) {
                    break;
                }
                polled = operations.as_mut().poll(&mut inner);
            }
            self.flush();
            polled
        })
        .await
    }

    /// Sends a request about a row to another node, together with others.
    pub(super) async fn ask(&self, node: &NodeId, call: RowCall) -> Result<RowReply, Error> {
        let queued = {
            let mut queued = self.queued.lock();
            match queued.is_driven {
                true => {
                    let (answer, told) = oneshot::channel();
                    let to_node = queued.to.entry(*node).or_default();
                    to_node.push(Waiting { call, answer });
                    Ok(told)
                }
                // A request of an operation that has ended: a write goes to all replicas.
                false => Err(call),
            }
        };
        match queued {
            Ok(told) => told
                .await
                .unwrap_or_else(|_| Err(Error::Unavailable("a request broke off".into()))),
            Err(call) => self.data.ask_alone(node, &call).await,
        }
    }

    fn flush(&self) {
        let queued = std::mem::take(&mut self.queued.lock().to);
        for (node, waiting) in queued {
            for message in messages(waiting) {
                let data = self.data.clone();
                tokio::spawn(carry(async move { send(&data, &node, message).await }));
            }
        }
    }
}

/// Divides requests into messages.
fn messages(waiting: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let (mut messages, mut bytes) = (Vec::new(), FULL_BYTES);
    for one in waiting {
        let is_full = |last: &Vec<Waiting>| last.len() == MOST_CALLS;
        if bytes >= FULL_BYTES || messages.last().is_none_or(is_full) {
            messages.push(Vec::new());
            bytes = 0;
        }
        bytes += about_bytes(&one.call);
        if let Some(last) = messages.last_mut() {
            last.push(one);
        }
    }
    messages
}

fn about_bytes(call: &RowCall) -> usize {
    512 + call.value().map_or(0, weight)
}

/// Sends a message, and hands out the answers.
async fn send(data: &Arc<Data>, node: &NodeId, waiting: Vec<Waiting>) {
    let (calls, answers): (Vec<_>, Vec<_>) = waiting
        .into_iter()
        .map(|waiting| (waiting.call, waiting.answer))
        .unzip();
    let message = RowsCall(calls);
    let replies = match &message.0[..] {
        [only] => data
            .ask_alone(node, only)
            .await
            .map(|reply| vec![Some(reply)]),
        _ => ask_together(data, node, &message).await,
    };
    let mut replies = replies.map(Vec::into_iter);
    for (call, answer) in message.0.into_iter().zip(answers) {
        // Nobody waits for the answer of an operation that was dropped.
        match &mut replies {
            Err(error) => drop(answer.send(Err(error.clone()))),
            Ok(replies) => match replies.next().flatten() {
                Some(reply) => drop(answer.send(Ok(reply))),
                // The answers were too long for one message. Asking again changes nothing.
                None => {
                    let (data, node) = (data.clone(), *node);
                    tokio::spawn(carry(async move {
                        drop(answer.send(data.ask_alone(&node, &call).await));
                    }));
                }
            },
        }
    }
}

async fn ask_together(
    data: &Data,
    node: &NodeId,
    message: &RowsCall,
) -> Result<Vec<Option<RowReply>>, Error> {
    // This class: as urgent as can be, and the time of the answer is not taken for a round trip.
    let class = Class::Data { remaining: 0 };
    let RowsReply(replies) = data
        .peers()?
        .call(node, method::ROWS, class, message)
        .await?;
    let decoded = |reply: Bytes| {
        let why = |error| Error::Unavailable(format!("an answer cannot be read: {error}"));
        codec::decode(&reply).map_err(why)
    };
    replies
        .into_iter()
        .map(|reply| reply.map(decoded).transpose())
        .collect()
}
