//! Calls on top of streams: a method by name, a deadline, frames both ways.
//!
//! The first frame of a stream is a versioned header; unknown fields are skipped. It names the
//! method, the caller's timeout, and whether it is a plain call. A plain call sends one more frame
//! and receives one, whose first byte tells an answer from a refusal. Header and request leave
//! together, so that a call over an existing connection takes one round trip.

mod header;
mod traced;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use archipel_base::codec;
use archipel_base::{NodeId, boxed};
use archipel_traces::{Span, Tracer};
use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::rooms::{Limits, Rooms};
use crate::transport::{Class, Incoming, MAX_FRAME_BYTES, Peer, SendFrames, Stream, Transport};
use header::Header;

/// The longest time that a plain call may take.
const LONGEST: Duration = Duration::from_secs(60);
/// The time limit for a peer to send the header, and to take a refusal.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The incoming calls of known peers that are served at once. Those of one exceed the streams of
/// its connections, so that a call that could wait is not refused.
const KNOWN: Limits = Limits {
    all: 16_384,
    of_one: 4096,
};
/// The incoming calls of strangers that are served at once.
const STRANGERS: Limits = Limits {
    all: 1024,
    of_one: 64,
};

const ANSWER: u8 = 0;
const REFUSAL: u8 = 1;

/// Answers the calls of peers.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Returns true if a peer is more than one that proved the cluster's secret. Only a few calls
    /// of all others are served at once.
    fn knows(&self, from: &NodeId) -> bool;

    /// Answers a plain call. An `Err` reaches the caller as [`Error::Refused`]. The future is
    /// dropped when the caller's timeout expires; work that must not stop half-way runs in its own
    /// task.
    async fn call(&self, from: NodeId, method: &str, request: Bytes) -> Result<Bytes, String>;

    /// Serves a stream to its end. After an `Err` the stream is broken off.
    async fn stream(&self, from: NodeId, method: &str, stream: Stream) -> Result<(), String>;
}

/// Counters of one method since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MethodCounts {
    /// Outgoing calls and streams.
    pub made: u64,
    /// Outgoing calls and streams that failed.
    pub failed: u64,
    /// Incoming calls and streams.
    pub served: u64,
}

/// The calls of one node, outgoing and incoming. Cheap to clone.
#[derive(Clone)]
pub struct Rpc(Arc<Inner>);

struct Inner {
    transport: Arc<dyn Transport>,
    counts: Mutex<BTreeMap<String, MethodCounts>>,
    /// Smoothed round trips of plain calls.
    round_trips: Mutex<BTreeMap<NodeId, Duration>>,
    in_flight: AtomicU64,
    /// The incoming calls that are served.
    serving: Arc<Rooms<NodeId>>,
    tracer: OnceLock<Tracer>,
}

/// A call or a stream that this node opens.
struct Outgoing<'a> {
    peer: &'a Peer,
    method: &'a str,
    class: Class,
    /// The time for the answer of a plain call, or `None` for a stream.
    plain: Option<Duration>,
    span: &'a Span,
}

impl Rpc {
    /// Creates an `Rpc` that calls over `transport`.
    pub fn new(transport: Arc<dyn Transport>) -> Rpc {
        Rpc(Arc::new(Inner {
            transport,
            counts: Mutex::default(),
            round_trips: Mutex::default(),
            in_flight: AtomicU64::new(0),
            serving: Rooms::new(KNOWN, STRANGERS),
            tracer: OnceLock::new(),
        }))
    }

    /// Records the incoming calls of sampled requests from now on. Later calls of this function
    /// change nothing.
    pub fn trace_with(&self, tracer: Tracer) {
        let _ = self.0.tracer.set(tracer);
    }

    /// Returns the transport under the calls.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.0.transport
    }

    /// Calls a method of a peer and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Refused`] if the peer refuses: nothing happened there. After any other error the
    /// outcome is unknown.
    pub async fn call(
        &self,
        peer: &Peer,
        method: &str,
        class: Class,
        timeout: Duration,
        request: Bytes,
    ) -> Result<Bytes, Error> {
        let begun = Instant::now();
        let in_flight = self.0.count_in_flight();
        let span = traced::call(peer, method);
        let call = Outgoing {
            peer,
            method,
            class,
            plain: Some(timeout),
            span: &span,
        };
        let answer = match tokio::time::timeout(timeout, self.ask(call, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::TimedOut(peer.id)),
        };
        drop(in_flight);
        traced::ended(&span, &answer);
        if answer.is_ok() && matches!(class, Class::Control | Class::Small) {
            self.0.record_round_trip(peer.id, begun.elapsed());
        }
        self.0.count_made(method, answer.is_ok());
        answer
    }

    async fn ask(&self, call: Outgoing<'_>, request: Bytes) -> Result<Bytes, Error> {
        let peer = call.peer;
        let mut stream = self.open(call).await?;
        stream.send.send(request).await?;
        stream.send.finish().await?;
        let reply = stream.receive.receive().await?;
        let mut reply = reply.ok_or_else(|| Error::Protocol(peer.id, "no answer".into()))?;
        if reply.is_empty() {
            return Err(Error::Protocol(peer.id, "an empty answer".into()));
        }
        match reply.split_to(1)[0] {
            ANSWER => Ok(reply),
            _ => {
                let why = String::from_utf8_lossy(&reply).into_owned();
                Err(Error::Refused(peer.id, why))
            }
        }
    }

    /// Opens a stream to a method. `timeout` limits the opening only.
    pub async fn stream(
        &self,
        peer: &Peer,
        method: &str,
        class: Class,
        timeout: Duration,
    ) -> Result<Stream, Error> {
        let span = traced::call(peer, method);
        let call = Outgoing {
            peer,
            method,
            class,
            plain: None,
            span: &span,
        };
        let opened = match tokio::time::timeout(timeout, self.open(call)).await {
            Ok(opened) => opened,
            Err(_) => Err(Error::TimedOut(peer.id)),
        };
        self.0.count_made(method, opened.is_ok());
        traced::ended(&span, &opened);
        opened.map(|stream| traced::until_closed(stream, span))
    }

    async fn open(&self, call: Outgoing<'_>) -> Result<Stream, Error> {
        let header = Header::new(call.method, call.class, call.plain, call.span);
        let mut stream = self.0.transport.open(call.peer, call.class).await?;
        stream.send.send(codec::encode(&header).into()).await?;
        Ok(stream)
    }

    /// Returns the smoothed round-trip time to a node, or `None` if no call has completed.
    pub fn round_trip(&self, node: &NodeId) -> Option<Duration> {
        self.0.round_trips.lock().get(node).copied()
    }

    /// Returns the counters of all methods.
    pub fn counts(&self) -> BTreeMap<String, MethodCounts> {
        self.0.counts.lock().clone()
    }

    /// Returns the number of outgoing plain calls in progress.
    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// Serves incoming calls until the transport is closed.
    #[boxed]
    pub async fn serve(&self, service: Arc<dyn Service>) {
        while let Some(incoming) = self.0.transport.accept().await {
            let from = incoming.from;
            let is_known = service.knows(&from);
            let permit = self.0.serving.enter(from, is_known);
            let (rpc, service) = (self.clone(), service.clone());
            tokio::spawn(async move {
                let served = match permit {
                    Some(_permit) => rpc.serve_one(&*service, incoming, is_known).await,
                    None => refuse(incoming.stream, "too many calls at once").await,
                };
                if let Err(why) = served {
                    tracing::debug!(from = %from.short(), why, "a peer's call failed");
                }
            });
        }
    }

    async fn serve_one(
        &self,
        service: &dyn Service,
        incoming: Incoming,
        is_known: bool,
    ) -> Result<(), String> {
        let Incoming { from, mut stream } = incoming;
        let first = tokio::time::timeout(HEADER_TIMEOUT, stream.receive.receive()).await;
        let first = first.map_err(|_| "no header in time")?.map_err(text)?;
        let header = first.ok_or("a stream without a header")?;
        let header: Header = codec::decode(&header).map_err(|error| error.to_string())?;
        self.0.count_served(&header.method);
        stream.send.set_class(header.class());
        // Of strangers nobody knows that they are sampled: each of them could ask for any number of
        // spans.
        let caller = header.caller().filter(|_| is_known);
        let span = traced::served(self.0.tracer.get(), &from, &header.method, caller);
        let served = span
            .within(answer(service, from, header, stream, &span))
            .await;
        if served.is_err() {
            span.describe(|record| record.fail("broken"));
        }
        served
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

/// Answers a call, or serves a stream to its end.
async fn answer(
    service: &dyn Service,
    from: NodeId,
    header: Header,
    mut stream: Stream,
    span: &Span,
) -> Result<(), String> {
    if !header.plain {
        return service.stream(from, &header.method, stream).await;
    }
    let timeout = Duration::from_millis(header.timeout_ms).min(LONGEST);
    let answering = async {
        let request = stream.receive.receive().await.map_err(text)?;
        let request = request.ok_or("a call without a request")?;
        let reply = match service.call(from, &header.method, request).await {
            Ok(answer) => framed(ANSWER, &answer),
            Err(why) => {
                span.describe(|record| record.fail("refused"));
                refusal(&why)
            }
        };
        send_last(&mut *stream.send, reply).await
    };
    let answered = tokio::time::timeout(timeout, answering).await;
    answered.map_err(|_| "the caller's time is over")?
}

/// Refuses a call.
async fn refuse(mut stream: Stream, why: &str) -> Result<(), String> {
    let sending = send_last(&mut *stream.send, refusal(why));
    let sent = tokio::time::timeout(HEADER_TIMEOUT, sending).await;
    sent.map_err(|_| "a refusal that nobody reads")?
}

/// Sends the only frame of an answer. Waits for as long as the peer reads nothing.
async fn send_last(send: &mut dyn SendFrames, reply: Bytes) -> Result<(), String> {
    send.send(reply).await.map_err(text)?;
    send.finish().await.map_err(text)
}

/// Returns the frame of a refusal, of which it may cut the text. An answer is never cut: the caller
/// would take the rest for all of it.
fn refusal(why: &str) -> Bytes {
    let text = why.as_bytes();
    framed(REFUSAL, &text[..text.len().min(MAX_FRAME_BYTES - 1)])
}

fn framed(kind: u8, content: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + content.len());
    bytes.put_u8(kind);
    bytes.put_slice(content);
    bytes.freeze()
}

/// A call in progress. Counts down when it is dropped, even if the caller gives up.
struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    fn count_in_flight(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    fn record_round_trip(&self, peer: NodeId, time: Duration) {
        let mut known = self.round_trips.lock();
        let smoothed = known.entry(peer).or_insert(time);
        *smoothed = (*smoothed * 7 + time) / 8;
    }

    fn count_made(&self, method: &str, succeeded: bool) {
        let mut counts = self.counts.lock();
        let counts = counts.entry(method.to_owned()).or_default();
        counts.made += 1;
        counts.failed += u64::from(!succeeded);
    }

    fn count_served(&self, method: &str) {
        let mut counts = self.counts.lock();
        // Peers choose the names, so that the number of separate counters is limited.
        let known = counts.contains_key(method) || counts.len() < 64;
        let name = if known { method } else { "other" };
        counts.entry(name.to_owned()).or_default().served += 1;
    }
}

#[cfg(test)]
mod tests;
