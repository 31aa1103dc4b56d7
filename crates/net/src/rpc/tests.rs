use std::time::Duration;

use archipel_base::clock::ManualClock;
use archipel_base::codec::{self, Versioned};
use archipel_base::random::SeededRandom;
use archipel_traces::{Context, Sampling, Span, Tracer};
use serde::{Deserialize, Serialize};

use super::header::DATA;
use super::*;
use crate::transport::ReceiveFrames;

/// The header of releases without traces.
#[derive(Serialize, Deserialize)]
struct Before {
    #[serde(rename = "m")]
    method: String,
    #[serde(rename = "t", default)]
    timeout_ms: u64,
    #[serde(rename = "p", default)]
    plain: bool,
    #[serde(rename = "c", default)]
    class: u8,
    #[serde(rename = "r", default)]
    remaining: u64,
}

impl Versioned for Before {
    const VERSION: u8 = 1;
}

fn header(span: &Span) -> Vec<u8> {
    let class = Class::Data { remaining: 3 };
    let header = Header::new("row", class, Some(Duration::from_secs(5)), span);
    codec::encode(&header)
}

fn before() -> Vec<u8> {
    codec::encode(&Before {
        method: "row".into(),
        timeout_ms: 5000,
        plain: true,
        class: DATA,
        remaining: 3,
    })
}

fn sampled() -> Span {
    let sampling = Sampling {
        share: 1.0,
        trusts_clients: false,
    };
    let random = Arc::new(SeededRandom::new(1));
    let (tracer, _) = Tracer::new(sampling, Arc::new(ManualClock::at(0)), random);
    tracer.begin_request("PUT", || None)
}

#[test]
fn header_of_a_call_that_is_not_sampled_is_as_before() {
    assert_eq!(header(&Span::default()), before());
    let header: Header = codec::decode(&before()).unwrap();
    assert_eq!(header.caller(), None);
}

#[tokio::test]
async fn header_of_a_sampled_call_is_read_by_both_releases() {
    let span = sampled();
    let sent = header(&span);
    let read: Header = codec::decode(&sent).unwrap();
    assert_eq!(read.caller(), span.context());
    let old: Before = codec::decode(&sent).unwrap();
    assert_eq!((&*old.method, old.timeout_ms), ("row", 5000));
    // A name of one letter, and bytes with their length.
    assert_eq!(sent.len(), before().len() + 2 + 2 + 24);
}

#[test]
fn malformed_span_of_a_peer_is_ignored() {
    for span in [vec![], vec![1; 23], vec![1; 25], vec![0; 24]] {
        let mut header = Header::new("row", Class::Small, None, &Span::default());
        header.span = Some(span.into());
        let read: Header = codec::decode(&codec::encode(&header)).unwrap();
        assert_eq!(read.caller(), None::<Context>);
    }
}

/// A stream of a peer that sends a request and reads no answer.
struct Unread;

#[async_trait]
impl SendFrames for Unread {
    async fn send(&mut self, _: Bytes) -> Result<(), Error> {
        std::future::pending().await
    }
    async fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn set_class(&mut self, _: Class) {}
}

#[async_trait]
impl ReceiveFrames for Unread {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(Some(Bytes::new()))
    }
}

fn unread() -> Stream {
    Stream {
        send: Box::new(Unread),
        receive: Box::new(Unread),
    }
}

/// Answers everything at once.
struct Quick;

#[async_trait]
impl Service for Quick {
    fn knows(&self, _: &NodeId) -> bool {
        true
    }
    async fn call(&self, _: NodeId, _: &str, request: Bytes) -> Result<Bytes, String> {
        Ok(request)
    }
    async fn stream(&self, _: NodeId, _: &str, _: Stream) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn peer_that_reads_no_answer_is_given_up() {
    let span = Span::default();
    let header = |timeout| Header::new("row", Class::Small, Some(timeout), &span);
    for timeout in [Duration::from_secs(5), 100 * LONGEST] {
        let from = NodeId::default();
        let answering = answer(&Quick, from, header(timeout), unread(), &span);
        let answered = tokio::time::timeout(2 * LONGEST, answering).await;
        assert!(answered.unwrap().is_err());
    }
    let refused = tokio::time::timeout(2 * LONGEST, refuse(unread(), "full")).await;
    assert!(refused.unwrap().is_err());
}
