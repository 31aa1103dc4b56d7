//! The audit log: one line of JSON for each request of a user and of an operator.
//!
//! An endpoint begins an [`Entry`] when a request arrives and adds what it learns. The entry is
//! written when it is dropped, at the end of the answer: only then are its bytes and its duration
//! known.
//!
//! The newest lines are kept in memory, for the admin API, also without a target. Reads of
//! operators are kept apart: pages of the console ask every few seconds, and must not drive all
//! other lines out.
//!
//! # Invariants
//! - A line holds no secret: no signature, no token, no header, no query, no content.
//! - Requests never wait for the log. Lines for which a queue has no room are lost, and counted.

use std::borrow::Borrow;
use std::sync::Arc;

use archipel_base::clock::WallClock;
use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::serve::Peer;
use crate::times::iso_time;

mod recent;
use recent::Recent;

/// The lines that wait for a slow target, and their bytes.
const QUEUE_LINES: usize = 4096;
const QUEUE_BYTES: usize = 4 << 20;
/// The most bytes of a name that a line shows. The names of a refused request may be as long as its
/// head.
const MOST_SHOWN: usize = 1024;

/// Writes lines to all targets. Cheap to clone. The default writes nothing.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Shared>>);

struct Shared {
    targets: Vec<Queue>,
    recent: Mutex<Recent>,
    clock: Arc<dyn WallClock>,
    lost: Counter,
}

/// The queue of one target.
struct Queue {
    lines: mpsc::Sender<Line>,
    /// A permit for each byte that may wait.
    room: Arc<Semaphore>,
}

impl Queue {
    /// Returns false if there is no room for the line.
    fn send(&self, text: Bytes) -> bool {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let Ok(room) = self.room.clone().try_acquire_many_owned(bytes) else {
            return false;
        };
        let _room = Some(room);
        self.lines.try_send(Line { text, _room }).is_ok()
    }
}

/// A line with its newline. It takes room in its queue until it is dropped.
pub struct Line {
    text: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Makes a line that stands in no queue.
impl From<Bytes> for Line {
    fn from(text: Bytes) -> Line {
        Line { text, _room: None }
    }
}

impl Borrow<[u8]> for Line {
    fn borrow(&self) -> &[u8] {
        &self.text
    }
}

/// The lines of one target. They end when the last [`Audit`] is dropped.
pub type Lines = mpsc::Receiver<Line>;

impl Audit {
    /// Makes a log with so many targets, and returns the lines of each. Registers the counter of
    /// lost lines.
    pub fn new(
        targets: usize,
        clock: Arc<dyn WallClock>,
        registry: &mut Registry,
    ) -> (Audit, Vec<Lines>) {
        let lost = Counter::default();
        registry.register(
            "audit_lost_lines",
            "Lines of the audit log for which a target had no room",
            lost.clone(),
        );
        let queues = (0..targets).map(|_| {
            let (lines, received) = mpsc::channel(QUEUE_LINES);
            let room = Arc::new(Semaphore::new(QUEUE_BYTES));
            (Queue { lines, room }, received)
        });
        let (targets, lines) = queues.unzip();
        let shared = Shared {
            targets,
            recent: Mutex::default(),
            clock,
            lost,
        };
        (Audit(Some(Arc::new(shared))), lines)
    }

    /// Returns the newest lines that are kept in memory, oldest first, each with its number.
    pub fn recent(&self) -> Vec<(u64, Bytes)> {
        let Some(shared) = &self.0 else {
            return Vec::new();
        };
        shared.recent.lock().all()
    }

    /// Begins the entry of a request to an endpoint.
    pub fn begin(
        &self,
        endpoint: &'static str,
        request_id: &str,
        request: &http::request::Parts,
    ) -> Entry {
        let Some(shared) = &self.0 else {
            return Entry(None);
        };
        let peer = request.extensions.get::<Peer>();
        let record = Record {
            time: iso_time(shared.clock.now_millis()),
            endpoint,
            request_id: request_id.to_owned(),
            from: peer.map(|peer| peer.0.to_canonical().to_string()),
            method: shown(request.method.as_str()),
            ..Record::default()
        };
        Entry(Some(Box::new(Open {
            shared: shared.clone(),
            started: Instant::now(),
            record,
        })))
    }
}
/// A line. The documentation for operators tells the meaning of each member.
#[derive(Default, Serialize)]
struct Record {
    time: String,
    endpoint: &'static str,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    who: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    action: &'static str,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    decision: &'static str,
    status: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    code: &'static str,
    received: u64,
    sent: u64,
    milliseconds: u64,
}

/// The entry of a request that is under way. It is written when it is dropped.
pub struct Entry(Option<Box<Open>>);

struct Open {
    shared: Arc<Shared>,
    started: Instant,
    record: Record,
}

/// Returns true for a line of a request with which an operator only read: pages of the console make
/// many. Reads of secrets are more than that.
pub fn is_look(endpoint: &str, method: &str, action: &str) -> bool {
    endpoint == "admin" && method == "GET" && action == "Admin"
}

impl Entry {
    fn set(&mut self, change: impl FnOnce(&mut Record)) {
        if let Some(open) = &mut self.0 {
            change(&mut open.record);
        }
    }

    /// Says what was asked for.
    pub fn action(&mut self, action: &'static str) {
        self.set(|record| record.action = action);
    }

    /// Says who asked: the id of an access key whose signature was verified, or the name of an
    /// operator. Nobody, if the request was anonymous or the proof was wrong.
    pub fn who(&mut self, who: Option<&str>) {
        self.set(|record| record.who = who.map(str::to_owned));
    }

    /// Says which bucket and which key it was about.
    pub fn object(&mut self, bucket: Option<&str>, key: Option<&str>) {
        self.set(|record| {
            record.bucket = bucket.map(shown);
            record.key = key.map(shown);
        });
    }

    /// Says for which user or session the access key asked: its ARN.
    pub fn principal(&mut self, arn: Option<&str>) {
        self.set(|record| record.principal = arn.map(shown));
    }

    /// Says which user, role or the like it was about: its ARN.
    pub fn resource(&mut self, arn: Option<&str>) {
        self.set(|record| record.resource = arn.map(shown));
    }

    /// Says which path it was about, where that is no bucket and key.
    pub fn path(&mut self, path: &str) {
        self.set(|record| record.path = Some(shown(path)));
    }

    /// Says how the request ended, and how many bytes of its body were read.
    pub fn answered(&mut self, status: u16, code: &'static str, received: u64) {
        self.set(|record| {
            record.status = status;
            record.code = code;
            record.received = received;
        });
    }

    /// Counts bytes of the answer's body.
    pub fn sent(&mut self, bytes: u64) {
        self.set(|record| record.sent += bytes);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut open) = self.0.take() else {
            return;
        };
        open.record.milliseconds = open.started.elapsed().as_millis() as u64;
        open.record.decision = decision(open.record.status);
        let Ok(mut line) = serde_json::to_vec(&open.record) else {
            return;
        };
        line.push(b'\n');
        let line = Bytes::from(line);
        let is_look = is_look(
            open.record.endpoint,
            &open.record.method,
            open.record.action,
        );
        open.shared.recent.lock().add(line.clone(), is_look);
        for target in &open.shared.targets {
            if !target.send(line.clone()) {
                open.shared.lost.inc();
            }
        }
    }
}

/// Returns the beginning of a name.
fn shown(name: &str) -> String {
    let end = name.floor_char_boundary(MOST_SHOWN);
    name.get(..end).unwrap_or_default().to_owned()
}

/// Returns the decision that a status stands for. 0 means that there was no answer.
fn decision(status: u16) -> &'static str {
    match status {
        401 | 403 => "denied",
        400..=499 => "refused",
        0 | 500.. => "failed",
        _ => "allowed",
    }
}

#[cfg(test)]
mod tests;
