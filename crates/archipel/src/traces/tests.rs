use std::time::Duration;

use archipel_base::clock::SystemClock;
use http::HeaderMap;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;

/// A time that no test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(address: std::net::SocketAddr) -> config::Traces {
    let mut headers = HeaderMap::new();
    headers.insert("x-team", "abc".parse().unwrap());
    config::Traces {
        address: format!("http://{address}/v1/traces").parse().unwrap(),
        sample: 1.0,
        trust_clients: false,
        ca_file: None,
        headers,
    }
}

async fn listening() -> (TcpListener, config::Traces) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = settings(listener.local_addr().unwrap());
    (listener, settings)
}

fn started(settings: &config::Traces) -> (Tracer, Export) {
    start(Some(settings), "the-node", Arc::new(SystemClock)).unwrap()
}

/// Reads a request, and returns its head and its body.
async fn read(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        if bytes.len() == end + 4 + length {
            return (head, bytes.split_off(end + 4));
        }
    }
}

#[tokio::test]
async fn last_spans_are_sent_when_the_node_stops() {
    let (listener, settings) = listening().await;
    let (tracer, export) = started(&settings);
    let request = tracer.begin_request("GET", || None);
    request.describe(|record| {
        record.set("http.response.status_code", 500_u16);
        record.fail("500");
    });
    let context = request.context().unwrap();
    drop(request);
    let collector = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (head, body) = read(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        (head, body)
    };
    let (_, (head, body)) = tokio::join!(export.finish(), collector);
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    assert!(head.contains("x-team: abc"), "{head}");
    let request = otlp::Request::decode(&*body).unwrap();
    let spans = &request.resource_spans[0];
    assert_eq!(spans.resource, Some(otlp::resource("the-node")));
    let [span] = &spans.scope_spans[0].spans[..] else {
        panic!("one span");
    };
    assert_eq!(span.trace_id, context.trace);
    assert_eq!(
        (span.kind, span.parent_span_id.len(), span.flags),
        (2, 0, 0x101)
    );
    assert_eq!(span.status, Some(otlp::Status { code: 2 }));
    assert_eq!(span.attributes.len(), 2);
    assert_eq!(tracer.counts().exported, 1);
}

#[tokio::test]
async fn collector_that_is_down_loses_spans_and_nothing_else() {
    let (listener, settings) = listening().await;
    drop(listener);
    let (tracer, export) = started(&settings);
    drop(tracer.begin_request("GET", || None));
    timeout(PATIENCE, export.finish()).await.unwrap();
    let counts = tracer.counts();
    assert_eq!((counts.exported, counts.failed), (0, 1));
}

/// It takes the connection and never answers.
#[tokio::test]
async fn silent_collector_does_not_keep_the_node_from_stopping() {
    let (listener, settings) = listening().await;
    let (tracer, export) = started(&settings);
    drop(tracer.begin_request("GET", || None));
    let collector = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await;
        stream
    };
    let _stream = timeout(PATIENCE, collector).await.unwrap();
    tokio::time::pause();
    export.finish().await;
    // The stop came before the end of the attempt.
    let counts = tracer.counts();
    assert_eq!((counts.exported, counts.failed), (0, 0));
}

#[tokio::test]
async fn export_without_a_collector_has_nothing_to_do() {
    let (tracer, export) = start(None, "the-node", Arc::new(SystemClock)).unwrap();
    assert!(!tracer.begin_request("GET", || None).is_recorded());
    timeout(PATIENCE, export.finish()).await.unwrap();
}
