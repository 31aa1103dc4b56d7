//! Calls on top of any transport.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_net::rpc::{Rpc, Service};
use archipel_net::{Class, Error, MAX_FRAME_BYTES, Stream};
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
