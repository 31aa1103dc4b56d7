//! Connections that end because this node breaks off an answer.

use std::sync::Arc;

use archipel_traces::Tracer;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};

use crate::serve::{
    Addresses, Answering, BoxError, Limits, Metrics, ROOMY, Service, builder, connection,
};

/// Begins each answer and does not finish it: its content is lost, or shorter than was said.
struct Breaking(Metrics);

impl Service for Breaking {
    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn metrics(&self) -> &Metrics {
        &self.0
    }

    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        let begun = Ok(Frame::data(Bytes::from_static(b"begun")));
        let last = match request.uri().path() {
            "/lost" => Err(BoxError::from("the block is on no node")),
            _ => Ok(Frame::data(Bytes::new())),
        };
        let pieces = stream::iter([begun, last]).then(|piece| async move {
            // So that the piece before is sent.
            tokio::task::yield_now().await;
            piece
        });
        let mut answer = Response::new(StreamBody::new(pieces).boxed_unsync());
        let length = HeaderValue::from_static("10");
        answer.headers_mut().insert(header::CONTENT_LENGTH, length);
        Box::pin(std::future::ready(answer))
    }
}

/// Else a client that gets objects of which some are lost would not get the others for a while.
#[tokio::test]
async fn answers_that_break_off_are_no_fault_of_the_client() {
    let metrics = Metrics::register(&mut Registry::default(), "s3");
    let service = Arc::new(Breaking(metrics));
    let (_stop, stopping) = watch::channel(());
    for path in ["/lost", "/short"] {
        let (mut client, stream) = tokio::io::duplex(1 << 16);
        let limits = service.limits();
        let common = connection::Common {
            streams: Arc::new(Semaphore::new(8)),
            requests: Addresses::new(limits),
            tracer: Tracer::default(),
            stopping: stopping.clone(),
        };
        let builder = builder(limits, ROOMY);
        let served = connection::serve(service.clone(), builder, common, stream, None, None);
        let served = tokio::spawn(served);
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nbegun"), "{answer}");
        assert!(!served.await.unwrap(), "{path}");
    }
}
