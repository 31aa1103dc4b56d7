//! Files after failed writes, after rotation; batches that a webhook refuses.

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use archipel_api::webhook::Webhook;
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Line, LogFile, Sink, send, write_lines};

/// A disk with room for so many bytes.
struct SmallDisk {
    content: Vec<u8>,
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content.extend_from_slice(&bytes[..count]);
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_after_a_torn_one_begin_a_line() {
    let mut disk = SmallDisk {
        content: Vec::new(),
        room: 0,
    };
    let mut is_torn = false;
    let mut write = |room: usize, lines: &[u8]| {
        disk.room = room;
        write_lines(&mut disk, &mut is_torn, lines).is_ok()
    };
    assert!(!write(6, b"{1}\n{2}\n"));
    assert!(!write(0, b"{3}\n"));
    assert!(write(100, b"{4}\n"));
    // Nothing of these lines is written, so nothing is torn.
    assert!(!write(0, b"{5}\n"));
    assert!(write(100, b"{6}\n"));
    assert_eq!(disk.content, b"{1}\n{2\n{4}\n{6}\n");
}

#[test]
fn lines_after_an_earlier_run_begin_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    for (left, content) in [("", "1\n"), ("0\n", "0\n1\n"), ("0\n{", "0\n{\n1\n")] {
        fs::write(&path, left).unwrap();
        LogFile::open(&path).unwrap().write(b"1\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

/// Reads a request and returns its body.
async fn body_of(stream: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        if body.len() == length {
            return body.to_owned();
        }
    }
}

/// Serves a webhook and returns the lines that it took. It refuses bodies that hold `bad` with
/// `refusal`. The first request fails.
async fn take_lines(listener: TcpListener, refusal: &str, took: &mut String) {
    let mut is_first = true;
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let body = body_of(&mut stream).await;
        let status = if std::mem::take(&mut is_first) {
            "503 Service Unavailable"
        } else if body.contains("bad") {
            refusal
        } else {
            took.push_str(&body);
            "200 OK"
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn line_that_the_webhook_refuses_is_dropped_alone() {
    for refusal in ["400 Bad Request", "413 Content Too Large"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let webhook = Webhook::new(address.parse().unwrap(), None).unwrap();
        let (sender, lines) = mpsc::channel(16);
        for line in ["1\n", "2\n", "bad\n", "3\n", "4\n"] {
            let line = Line::from(Bytes::from(line));
            assert!(sender.send(line).await.is_ok());
        }
        drop(sender);
        let (refused, mut took) = (Counter::default(), String::new());
        let sent = send(webhook, lines, refused.clone());
        tokio::select! {
            sent = tokio::time::timeout(Duration::from_secs(60), sent) => sent.unwrap(),
            () = take_lines(listener, refusal, &mut took) => unreachable!(),
        }
        assert_eq!((took.as_str(), refused.get()), ("1\n2\n3\n4\n", 1));
    }
}

#[test]
fn renamed_file_gets_no_further_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut log = LogFile::open(&path).unwrap();
    log.write(b"1\n").unwrap();
    let rotated = folder.path().join("audit.log.1");
    fs::rename(&path, &rotated).unwrap();
    log.write(b"2\n").unwrap();
    log.write(b"3\n").unwrap();
    assert_eq!(fs::read_to_string(&rotated).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "2\n3\n");
    fs::remove_file(&path).unwrap();
    log.write(b"4\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
}
