//! Calls on top of streams: a method by name, a deadline, frames both ways.
//!
//! The first frame of a stream is a header (versioned; unknown fields are skipped): which method,
//! how long the caller waits, whether it is a plain call. A plain call sends one frame more and
//! gets one back, whose first byte tells an answer from a refusal. Header and request leave together, so a call over
//! a connection that stands is one round trip.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::codec::{self, Versioned};
use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::error::Error;
use crate::transport::{Class, Incoming, MAX_FRAME_BYTES, Peer, Stream, Transport};

/// How many calls of others are served at once.
const SERVED: usize = 16_384;
/// How many of one peer: more than its connections have streams, so that it is not refused what it could wait for.
const SERVED_OF_ONE: usize = 4096;
/// The longest that a plain call may take.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a peer may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

const ANSWER: u8 = 0;
const REFUSAL: u8 = 1;

/// Answers the calls of peers.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Answers a plain call. `Err` is told to the caller, who gets [`Error::Refused`]. It is dropped when
    /// the caller's time is over: what must not end half-way runs in a task of its own.
    async fn call(&self, from: NodeId, method: &str, request: Bytes) -> Result<Bytes, String>;

    /// Serves a stream to its end. At an `Err` the stream is broken off.
    async fn stream(&self, from: NodeId, method: &str, stream: Stream) -> Result<(), String>;
}

/// The first frame of a stream.
#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "m")]
    method: String,
    /// How long the caller waits for the answer of a plain call.
    #[serde(rename = "t", default)]
    timeout_ms: u64,
    #[serde(rename = "p", default)]
    plain: bool,
    /// How urgent the caller finds it, so that the answer is as urgent: see [`Class`]. Unknown ones are small.
    #[serde(rename = "c", default)]
    class: u8,
    /// Bytes still to go, of content.
    #[serde(rename = "r", default)]
    remaining: u64,
}

const CONTROL: u8 = 1;
const DATA: u8 = 2;
const BACKGROUND: u8 = 3;

impl Header {
    fn new(method: &str, class: Class, plain: Option<Duration>) -> Header {
        let (class, remaining) = match class {
            Class::Small => (0, 0),
            Class::Control => (CONTROL, 0),
            Class::Data { remaining } => (DATA, remaining),
            Class::Background => (BACKGROUND, 0),
        };
        Header {
            method: method.to_owned(),
            timeout_ms: plain.map_or(0, |timeout| timeout.as_millis() as u64),
            plain: plain.is_some(),
            class,
            remaining,
        }
    }

    fn class(&self) -> Class {
        match self.class {
            CONTROL => Class::Control,
            DATA => Class::Data {
                remaining: self.remaining,
            },
            BACKGROUND => Class::Background,
            _ => Class::Small,
        }
    }
}

impl Versioned for Header {
    const VERSION: u8 = 1;
}

/// What was counted of one method since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MethodCounts {
    /// Calls and streams made to others.
    pub made: u64,
    /// Of those, how many failed.
    pub failed: u64,
    /// Calls and streams of others.
    pub served: u64,
}

/// Makes calls, and serves those of others. Cheap to clone.
#[derive(Clone)]
pub struct Rpc(Arc<Inner>);

struct Inner {
    transport: Arc<dyn Transport>,
    counts: Mutex<BTreeMap<String, MethodCounts>>,
    /// Smoothed round trips of plain calls.
    round_trips: Mutex<BTreeMap<NodeId, Duration>>,
    in_flight: AtomicU64,
    serving: Arc<Semaphore>,
    serving_of: Mutex<BTreeMap<NodeId, Arc<Semaphore>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rpc {
    /// Calls over `transport`.
    pub fn new(transport: Arc<dyn Transport>) -> Rpc {
        Rpc(Arc::new(Inner {
            transport,
            counts: Mutex::default(),
            round_trips: Mutex::default(),
            in_flight: AtomicU64::new(0),
            serving: Arc::new(Semaphore::new(SERVED)),
            serving_of: Mutex::default(),
        }))
    }

    /// What carries the calls.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.0.transport
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Refused`] if the peer says no: nothing happened there. After any other it is not known.
    pub async fn call(
        &self,
        peer: &Peer,
        method: &str,
        class: Class,
        timeout: Duration,
        request: Bytes,
    ) -> Result<Bytes, Error> {
        let begun = Instant::now();
        let under_way = self.0.under_way();
        let asked = self.ask(peer, method, class, timeout, request);
        let answer = match tokio::time::timeout(timeout, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::TimedOut(peer.id)),
        };
        drop(under_way);
        if answer.is_ok() && matches!(class, Class::Control | Class::Small) {
            self.0.took(peer.id, begun.elapsed());
        }
        self.0.made(method, answer.is_ok());
        answer
    }

    async fn ask(
        &self,
        peer: &Peer,
        method: &str,
        class: Class,
        timeout: Duration,
        request: Bytes,
    ) -> Result<Bytes, Error> {
        let mut stream = self.open(peer, method, class, Some(timeout)).await?;
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

    /// Opens a stream to a method; `timeout` is for opening it.
    pub async fn stream(
        &self,
        peer: &Peer,
        method: &str,
        class: Class,
        timeout: Duration,
    ) -> Result<Stream, Error> {
        let opening = self.open(peer, method, class, None);
        let opened = match tokio::time::timeout(timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Error::TimedOut(peer.id)),
        };
        self.0.made(method, opened.is_ok());
        opened
    }

    async fn open(
        &self,
        peer: &Peer,
        method: &str,
        class: Class,
        plain: Option<Duration>,
    ) -> Result<Stream, Error> {
        let header = Header::new(method, class, plain);
        let mut stream = self.0.transport.open(peer, class).await?;
        stream.send.send(codec::encode(&header).into()).await?;
        Ok(stream)
    }

    /// About how long a round trip to a node takes; `None` if none was made.
    pub fn round_trip(&self, node: &NodeId) -> Option<Duration> {
        lock(&self.0.round_trips).get(node).copied()
    }

    /// What was counted, by method.
    pub fn counts(&self) -> BTreeMap<String, MethodCounts> {
        lock(&self.0.counts).clone()
    }

    /// Plain calls under way to others.
    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// Serves the calls of others until the transport is closed.
    pub async fn serve(&self, service: Arc<dyn Service>) {
        while let Some(incoming) = self.0.transport.accept().await {
            let turns = self.0.turns(incoming.from);
            let (rpc, service) = (self.clone(), service.clone());
            tokio::spawn(async move {
                let from = incoming.from;
                let served = match turns {
                    Some(_turns) => rpc.serve_one(&*service, incoming).await,
                    None => refuse(incoming.stream, "too many calls at once").await,
                };
                if let Err(why) = served {
                    tracing::debug!(from = %from.short(), why, "a call of a peer was broken off");
                }
            });
        }
    }

    async fn serve_one(&self, service: &dyn Service, incoming: Incoming) -> Result<(), String> {
        let Incoming { from, mut stream } = incoming;
        let text = |error: Error| error.to_string();
        let first = tokio::time::timeout(HEADER_TIMEOUT, stream.receive.receive()).await;
        let first = first.map_err(|_| "no header in time")?.map_err(text)?;
        let header = first.ok_or("a stream without a header")?;
        let header: Header = codec::decode(&header).map_err(|error| error.to_string())?;
        self.0.served(&header.method);
        stream.send.set_class(header.class());
        if !header.plain {
            return service.stream(from, &header.method, stream).await;
        }
        let timeout = Duration::from_millis(header.timeout_ms).min(LONGEST);
        let answering = async {
            let request = stream.receive.receive().await.map_err(text)?;
            let request = request.ok_or("a call without a request")?;
            Ok(service.call(from, &header.method, request).await)
        };
        let answer: Result<_, String> = tokio::time::timeout(timeout, answering)
            .await
            .map_err(|_| "the caller's time is over")?;
        let reply = match answer? {
            Ok(answer) => framed(ANSWER, &answer),
            Err(why) => framed(REFUSAL, why.as_bytes()),
        };
        stream.send.send(reply).await.map_err(text)?;
        stream.send.finish().await.map_err(text)
    }
}

async fn refuse(mut stream: Stream, why: &str) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    let reply = framed(REFUSAL, why.as_bytes());
    stream.send.send(reply).await.map_err(text)?;
    stream.send.finish().await.map_err(text)
}

fn framed(kind: u8, content: &[u8]) -> Bytes {
    let content = &content[..content.len().min(MAX_FRAME_BYTES - 1)];
    let mut bytes = BytesMut::with_capacity(1 + content.len());
    bytes.put_u8(kind);
    bytes.put_slice(content);
    bytes.freeze()
}

/// A call under way, also to its early end.
struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    fn under_way(&self) -> UnderWay<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.in_flight)
    }

    /// The right to serve a call of that peer; `None` if there are too many.
    fn turns(&self, from: NodeId) -> Option<impl Send + 'static> {
        let of_one = {
            let mut all = lock(&self.serving_of);
            let of_one = all.entry(from);
            of_one
                .or_insert_with(|| Arc::new(Semaphore::new(SERVED_OF_ONE)))
                .clone()
        };
        let one = of_one.try_acquire_owned().ok()?;
        let all = self.serving.clone().try_acquire_owned().ok()?;
        Some((one, all))
    }

    fn took(&self, peer: NodeId, time: Duration) {
        let mut known = lock(&self.round_trips);
        let smoothed = known.entry(peer).or_insert(time);
        *smoothed = (*smoothed * 7 + time) / 8;
    }

    fn made(&self, method: &str, well: bool) {
        let mut counts = lock(&self.counts);
        let counts = counts.entry(method.to_owned()).or_default();
        counts.made += 1;
        counts.failed += u64::from(!well);
    }

    fn served(&self, method: &str) {
        let mut counts = lock(&self.counts);
        // Names come from peers: only so many are kept apart.
        let known = counts.contains_key(method) || counts.len() < 64;
        let name = if known { method } else { "other" };
        counts.entry(name.to_owned()).or_default().served += 1;
    }
}
