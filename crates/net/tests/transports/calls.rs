//! Calls on top of any transport.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_net::rpc::{Rpc, Service};
use archipel_net::{Class, Error, MAX_FRAME_BYTES, Stream};
use archipel_traces::{Kind, Queue, Record, Sampling, Tracer, Value};
use async_trait::async_trait;
use bytes::Bytes;

use super::pairs::{Pair, TIMEOUT, noise, pairs};

/// A service that returns each request, refuses the method "no", and echoes streams.
struct Echo;

#[async_trait]
impl Service for Echo {
    fn knows(&self, _: &NodeId) -> bool {
        true
    }

    async fn call(&self, _: NodeId, method: &str, request: Bytes) -> Result<Bytes, String> {
        match method {
            "no" => Err("never".into()),
            "silence" => std::future::pending().await,
            _ => Ok(request),
        }
    }

    async fn stream(&self, _: NodeId, _: &str, mut stream: Stream) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        while let Some(frame) = stream.receive.receive().await.map_err(text)? {
            stream.send.send(frame).await.map_err(text)?;
        }
        stream.send.finish().await.map_err(text)
    }
}

fn served(pair: &Pair) -> Rpc {
    let other = Rpc::new(pair.b.clone());
    tokio::spawn(async move { other.serve(Arc::new(Echo)).await });
    Rpc::new(pair.a.clone())
}

#[tokio::test]
async fn calls_return_answers_and_refusals() {
    for pair in pairs() {
        let rpc = served(&pair);
        let ask = |method, request| rpc.call(&pair.to_b, method, Class::Small, TIMEOUT, request);
        for size in [0, 1, 70_000, MAX_FRAME_BYTES - 1] {
            let answer = ask("echo", noise(size)).await.unwrap();
            assert_eq!(answer, noise(size), "{:?}", pair.kind);
        }
        let refused = ask("no", Bytes::new()).await;
        let never = Error::Refused(pair.to_b.id, "never".into());
        assert_eq!(refused, Err(never), "{:?}", pair.kind);
        assert!(rpc.round_trip(&pair.to_b.id).is_some());
        let counts = rpc.counts();
        assert_eq!((counts["echo"].made, counts["no"].failed), (4, 1));
    }
}

#[tokio::test]
async fn answer_that_is_too_long_fails_the_call() {
    for pair in pairs() {
        let rpc = served(&pair);
        let long = noise(MAX_FRAME_BYTES);
        let answer = rpc.call(&pair.to_b, "echo", Class::Small, TIMEOUT, long);
        let answer = answer.await;
        assert!(
            matches!(answer, Err(Error::Broken(..))),
            "{:?}: {answer:?}",
            pair.kind
        );
    }
}

#[tokio::test]
async fn abandoned_calls_are_not_counted_as_in_flight() {
    for pair in pairs() {
        let rpc = served(&pair);
        let little = Duration::from_millis(50);
        let silent = rpc.call(&pair.to_b, "silence", Class::Small, little, Bytes::new());
        assert_eq!(silent.await, Err(Error::TimedOut(pair.to_b.id)));
        let dropped = rpc.call(&pair.to_b, "silence", Class::Small, TIMEOUT, Bytes::new());
        assert!(tokio::time::timeout(little, dropped).await.is_err());
        assert_eq!(rpc.in_flight(), 0, "{:?}", pair.kind);
    }
}

#[tokio::test]
async fn rpc_streams_carry_frames_both_ways() {
    for pair in pairs() {
        let rpc = served(&pair);
        let class = Class::Data { remaining: 10 };
        let opened = rpc.stream(&pair.to_b, "echo", class, TIMEOUT).await;
        let mut stream = opened.unwrap();
        for n in 0..10 {
            stream.send.send(noise(n)).await.unwrap();
            let echoed = stream.receive.receive().await.unwrap();
            assert_eq!(echoed, Some(noise(n)), "{:?}", pair.kind);
        }
        stream.send.finish().await.unwrap();
        assert_eq!(stream.receive.receive().await.unwrap(), None);
    }
}

fn tracer() -> (Tracer, Queue) {
    let sampling = Sampling {
        share: 1.0,
        trusts_clients: false,
    };
    let random = Arc::new(SeededRandom::new(1));
    Tracer::new(sampling, Arc::new(ManualClock::at(0)), random)
}

/// Waits for so many spans.
async fn spans(queue: &mut Queue, count: usize) -> Vec<Record> {
    let mut spans = Vec::new();
    while spans.len() < count {
        let received = queue.receive(&mut spans, count);
        tokio::time::timeout(TIMEOUT, received).await.unwrap();
    }
    spans
}

/// A service to which every caller is a stranger.
struct Shy;

#[async_trait]
impl Service for Shy {
    fn knows(&self, _: &NodeId) -> bool {
        false
    }

    async fn call(&self, from: NodeId, method: &str, request: Bytes) -> Result<Bytes, String> {
        Echo.call(from, method, request).await
    }

    async fn stream(&self, from: NodeId, method: &str, stream: Stream) -> Result<(), String> {
        Echo.stream(from, method, stream).await
    }
}

#[tokio::test]
async fn sampled_call_has_a_span_on_both_sides() {
    for pair in pairs() {
        let ((here, mut ours), (there, mut theirs)) = (tracer(), tracer());
        let other = Rpc::new(pair.b.clone());
        other.trace_with(there);
        tokio::spawn(async move { other.serve(Arc::new(Echo)).await });
        let rpc = Rpc::new(pair.a.clone());
        // This one leaves no span: it is for no request.
        let unseen = rpc.call(&pair.to_b, "echo", Class::Small, TIMEOUT, noise(1));
        unseen.await.unwrap();
        let request = here.begin_request("PUT", || None);
        let work = async {
            let refused = rpc.call(&pair.to_b, "no", Class::Small, TIMEOUT, noise(1));
            refused.await.unwrap_err();
            let class = Class::Data { remaining: 10 };
            let mut stream = rpc
                .stream(&pair.to_b, "flow", class, TIMEOUT)
                .await
                .unwrap();
            stream.send.send(noise(9)).await.unwrap();
            stream.send.finish().await.unwrap();
            while stream.receive.receive().await.unwrap().is_some() {}
        };
        request.within(work).await;
        let context = request.context().unwrap();
        drop(request);
        let ours = spans(&mut ours, 3).await;
        let theirs = spans(&mut theirs, 2).await;
        assert!(
            ours.iter()
                .chain(&theirs)
                .all(|span| span.context.trace == context.trace)
        );
        for (method, failed) in [("no", true), ("flow", false)] {
            let of = |spans: &[Record]| spans.iter().find(|s| s.name == method).cloned();
            let (call, served) = (of(&ours).unwrap(), of(&theirs).unwrap());
            assert_eq!(call.parent, Some(context.span), "{:?}", pair.kind);
            assert_eq!(served.parent, Some(call.context.span), "{:?}", pair.kind);
            assert_eq!((call.kind, served.kind), (Kind::Client, Kind::Server));
            assert_eq!((call.is_failed, served.is_failed), (failed, failed));
            let peer = ("archipel.peer", Value::from(pair.to_b.id.to_string()));
            assert!(call.attributes.contains(&peer));
        }
    }
}

#[tokio::test]
async fn strangers_calls_are_not_recorded() {
    for pair in pairs() {
        let ((here, _ours), (there, mut theirs)) = (tracer(), tracer());
        let other = Rpc::new(pair.b.clone());
        other.trace_with(there);
        tokio::spawn(async move { other.serve(Arc::new(Shy)).await });
        let rpc = Rpc::new(pair.a.clone());
        let request = here.begin_request("PUT", || None);
        let call = rpc.call(&pair.to_b, "echo", Class::Small, TIMEOUT, noise(1));
        request.within(call).await.unwrap();
        let class = Class::Small;
        let second = rpc.call(&pair.to_b, "echo", class, TIMEOUT, noise(1));
        request.within(second).await.unwrap();
        assert!(theirs.try_receive().is_none(), "{:?}", pair.kind);
    }
}
