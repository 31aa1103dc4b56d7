use std::sync::Arc;

use archipel_base::clock::ManualClock;
use prometheus_client::registry::Registry;

use super::recent::{LOOKS, OTHERS};
use super::{Audit, QUEUE_BYTES, QUEUE_LINES};
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
    entry.object(Some("bucket"), Some("a\nb\"c"));
    entry.answered(403, "AccessDenied", 7);
    entry.sent(3);
    entry.sent(4);
    drop(entry);
    let line = lines[0].try_recv().unwrap().text;
    assert_eq!(line, lines[1].try_recv().unwrap().text);
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
    let newest: serde_json::Value = serde_json::from_slice(&recent[OTHERS.lines - 1].1).unwrap();
    assert_eq!(newest["request_id"], (last - 1).to_string());
    let long = "p".repeat(OTHERS.bytes / 3);
    for _ in 0..4 {
        audit.begin("web", &long, &parts()).path("/");
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

/// A stranger may ask for a bucket whose name is as long as the head of a request.
#[test]
fn long_names_are_cut_and_queues_are_bounded_by_their_bytes() {
    let (audit, mut lines) = Audit::new(1, Arc::new(ManualClock::at(0)), &mut Registry::default());
    let long = format!("\u{1}{}", "ü".repeat(30_000));
    for _ in 0..QUEUE_LINES {
        let mut entry = audit.begin("s3", "ID", &parts());
        entry.object(Some(&long), Some(&long));
        entry.path(&long);
    }
    let mut waiting = 0;
    while let Ok(line) = lines[0].try_recv() {
        let json: serde_json::Value = serde_json::from_slice(&line.text).unwrap();
        for member in ["bucket", "key", "path"] {
            assert_eq!(json[member].as_str().map(str::len), Some(1023));
        }
        waiting += line.text.len();
    }
    assert!((QUEUE_BYTES / 2..=QUEUE_BYTES).contains(&waiting));
    // The lines that were taken have left room.
    let lost = audit.0.as_ref().unwrap().lost.get();
    drop(audit.begin("s3", "ID", &parts()));
    assert_eq!(audit.0.as_ref().unwrap().lost.get(), lost);
}

/// A method may be any token, as long as the head of a request.
#[test]
fn long_methods_are_cut() {
    let (audit, mut lines) = Audit::new(1, Arc::new(ManualClock::at(0)), &mut Registry::default());
    let mut request = parts();
    request.method = http::Method::from_bytes(&[b'M'; 100_000]).unwrap();
    drop(audit.begin("s3", "ID", &request));
    let line = lines[0].try_recv().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&line.text).unwrap();
    assert_eq!(json["method"].as_str().map(str::len), Some(1024));
}

#[test]
fn lines_without_room_are_lost_and_counted() {
    let (audit, mut lines) = Audit::new(1, Arc::new(ManualClock::at(0)), &mut Registry::default());
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
