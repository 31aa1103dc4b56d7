//! The audit log: one line of JSON for each request of a user and of an operator.
//!
//! A door begins an [`Entry`] when a request arrives and adds what it learns. The entry is written
//! when it is dropped, at the end of the answer: only then are its bytes and its duration known.
//!
//! The newest lines are kept in memory, for the admin API, also without a target. Reads of operators
//! are kept apart: pages of the console ask every few seconds, and must not drive all other lines out.
//!
//! # Invariants
//! - A line holds no secret: no signature, no token, no header, no query, no content.
//! - Requests never wait for the log. Lines for which a queue has no room are lost, and counted.

use std::sync::Arc;

use archipel_base::clock::WallClock;
use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::serve::Peer;
use crate::times::iso_time;

mod recent;
use recent::Recent;

/// The lines that wait for a slow target.
const QUEUE_LINES: usize = 4096;

/// Writes lines to all targets. Cheap to clone. The default writes nothing.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Shared>>);

struct Shared {
    targets: Vec<mpsc::Sender<Bytes>>,
    recent: Mutex<Recent>,
    clock: Arc<dyn WallClock>,
    lost: Counter,
}

/// The lines of one target, each with a newline. They end when the last [`Audit`] is dropped.
pub type Lines = mpsc::Receiver<Bytes>;

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
        let queues = (0..targets).map(|_| mpsc::channel(QUEUE_LINES));
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

    /// Begins the entry of a request at a door.
    pub fn begin(
        &self,
        door: &'static str,
        request_id: &str,
        request: &http::request::Parts,
    ) -> Entry {
        let Some(shared) = &self.0 else {
            return Entry(None);
        };
        let peer = request.extensions.get::<Peer>();
        let record = Record {
            time: iso_time(shared.clock.now_millis()),
            door,
            request_id: request_id.to_owned(),
            from: peer.map(|peer| peer.0.to_canonical().to_string()),
            method: request.method.to_string(),
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
    #[serde(rename = "endpoint")]
    door: &'static str,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    who: Option<String>,
    action: &'static str,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
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

/// What is known of a request. It is written when it is dropped.
pub struct Entry(Option<Box<Open>>);

struct Open {
    shared: Arc<Shared>,
    started: Instant,
    record: Record,
}

/// Returns true for a line of a request with which an operator only read: pages of the console make many.
/// Reads of secrets are more than that.
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
    pub fn resource(&mut self, bucket: Option<&str>, key: Option<&str>) {
        self.set(|record| {
            record.bucket = bucket.map(str::to_owned);
            record.key = key.map(str::to_owned);
        });
    }

    /// Says which path it was about, where that is no bucket and key.
    pub fn path(&mut self, path: &str) {
        self.set(|record| record.path = Some(path.to_owned()));
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
        let is_look = is_look(open.record.door, &open.record.method, open.record.action);
        open.shared.recent.lock().add(line.clone(), is_look);
        for target in &open.shared.targets {
            if target.try_send(line.clone()).is_err() {
                open.shared.lost.inc();
            }
        }
    }
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
mod tests {
    use std::sync::Arc;

    use archipel_base::clock::ManualClock;
    use prometheus_client::registry::Registry;

    use super::recent::{LOOKS, OTHERS};
    use super::{Audit, QUEUE_LINES};
    use crate::serve::Peer;

    fn parts() -> http::request::Parts {
        let request = http::Request::put("/bucket/key?X-Amz-Signature=secret")
            .header("authorization", "secret")
            .extension(Peer("::ffff:192.0.2.1".parse().unwrap()))
            .body(());
        request.unwrap().into_parts().0
    }

    #[test]
    fn entry_is_one_line_without_secrets() {
        let clock = Arc::new(ManualClock::at(1_369_353_600_000));
        let (audit, mut lines) = Audit::new(2, clock, &mut Registry::default());
        let mut entry = audit.begin("s3", "ID", &parts());
        entry.action("PutObject");
        entry.who(Some("AKTEST"));
        entry.resource(Some("bucket"), Some("a\nb\"c"));
        entry.answered(403, "AccessDenied", 7);
        entry.sent(3);
        entry.sent(4);
        drop(entry);
        let line = lines[0].try_recv().unwrap();
        assert_eq!(line, lines[1].try_recv().unwrap());
        let text = std::str::from_utf8(&line).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with('\n') && !text.contains("secret"), "{text}");
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(json["milliseconds"].is_u64());
        json["milliseconds"] = 0.into();
        let expected = serde_json::json!({
            "time": "2013-05-24T00:00:00.000Z", "endpoint": "s3", "request_id": "ID", "from": "192.0.2.1",
            "who": "AKTEST", "action": "PutObject", "method": "PUT", "bucket": "bucket",
            "key": "a\nb\"c", "decision": "denied", "status": 403, "code": "AccessDenied",
            "received": 7, "sent": 7, "milliseconds": 0
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn the_newest_lines_are_kept_within_bounds() {
        let clock = Arc::new(ManualClock::at(0));
        let (audit, lines) = Audit::new(0, clock, &mut Registry::default());
        assert!(lines.is_empty() && audit.recent().is_empty());
        for number in 0..OTHERS.lines + 5 {
            let mut entry = audit.begin("s3", &number.to_string(), &parts());
            entry.answered(200, "", 0);
        }
        let recent = audit.recent();
        let numbers: Vec<u64> = recent.iter().map(|(number, _)| *number).collect();
        let last = OTHERS.lines as u64 + 5;
        assert_eq!(numbers, (6..=last).collect::<Vec<_>>());
        let newest: serde_json::Value =
            serde_json::from_slice(&recent[OTHERS.lines - 1].1).unwrap();
        assert_eq!(newest["request_id"], (last - 1).to_string());
        let long = "p".repeat(OTHERS.bytes / 3);
        for _ in 0..4 {
            audit.begin("web", "ID", &parts()).path(&long);
        }
        let recent = audit.recent();
        assert_eq!(recent.len(), 2);
        assert_eq!(recent[1].0, last + 4);
    }

    #[test]
    fn looks_of_operators_drive_no_other_line_out() {
        let (audit, _) = Audit::new(0, Arc::new(ManualClock::at(0)), &mut Registry::default());
        drop(audit.begin("s3", "kept", &parts()));
        let (get, _) = http::Request::get("/v1/status")
            .body(())
            .unwrap()
            .into_parts();
        for action in ["Admin", "ReadSecret"] {
            for _ in 0..LOOKS.lines + 5 {
                audit.begin("admin", "", &get).action(action);
            }
        }
        let numbers: Vec<u64> = audit.recent().iter().map(|(number, _)| *number).collect();
        let all = 1 + 2 * (LOOKS.lines as u64 + 5);
        let expected: Vec<u64> = std::iter::once(1).chain(7..=all).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn lines_without_room_are_lost_and_counted() {
        let (audit, mut lines) =
            Audit::new(1, Arc::new(ManualClock::at(0)), &mut Registry::default());
        for _ in 0..QUEUE_LINES + 3 {
            drop(audit.begin("s3", "ID", &parts()));
        }
        let shared = audit.0.as_ref().unwrap();
        assert_eq!(shared.lost.get(), 3);
        assert!(lines[0].try_recv().is_ok());
        drop(audit.begin("s3", "ID", &parts()));
        assert_eq!(shared.lost.get(), 3);
    }

    #[test]
    fn a_log_that_nobody_opened_writes_nothing() {
        let audit = Audit::default();
        let mut entry = audit.begin("s3", "ID", &parts());
        entry.answered(200, "", 0);
        assert!(entry.0.is_none());
        drop(entry);
        assert!(audit.recent().is_empty());
    }
}
