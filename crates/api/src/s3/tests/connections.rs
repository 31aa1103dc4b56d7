//! The server on real (loopback) connections.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_traces::Tracer;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;

use super::client::{Endpoint, signed};
use crate::serve::{Addresses, Limits, Peer, ROOMY, Service as _, builder, connection, serve};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

async fn start(s3: &Endpoint) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let service = s3.service.clone();
    let serving = tokio::spawn(serve(
        vec![listener],
        Arc::new(service),
        None,
        Tracer::default(),
        Box::pin(async move {
            let _ = stopped.await;
        }),
    ));
    Running {
        address,
        stop,
        serving,
    }
}

/// The request as HTTP/1.1 sends it; with `Expect: 100-continue` if asked for.
async fn head_and_body(
    s3: &Endpoint,
    method: &str,
    path: &str,
    body: &'static str,
    expect: bool,
) -> (Vec<u8>, Bytes) {
    let request = signed(&s3.key, method, path, &[], body.into());
    let mut head = format!("{method} {} HTTP/1.1\r\n", request.uri());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    head.push_str(if expect {
        "expect: 100-continue\r\n\r\n"
    } else {
        "\r\n"
    });
    let body = request.into_body().collect().await.unwrap().to_bytes();
    (head.into_bytes(), body)
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let count = stream.read(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// Sends the head of a request that waits for `100 Continue`, until that comes.
async fn asked_for_the_body(running: &Running, head: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(head).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 100 "));
    stream
}

#[tokio::test]
async fn body_is_requested_only_after_the_signature_is_verified() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let (head, body) = head_and_body(&s3, "PUT", "/bucket/k", "content", true).await;
    let mut stream = asked_for_the_body(&running, &head).await;
    stream.write_all(&body).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200 "));

    let forged = String::from_utf8(head)
        .unwrap()
        .replace("Signature=", "Signature=0");
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(forged.as_bytes()).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 403 "));
}

/// A client once sent a refused part and then another request on one connection. The second request
/// began where the server expected the part's body, and lost one byte ("OST" for "POST"). The
/// client cannot know whether the server still waits for the body, so the connection ends.
#[tokio::test]
async fn refused_upload_closes_its_connection() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let (put, _) = head_and_body(&s3, "PUT", "/bucket/k", "x", true).await;
    let put = String::from_utf8(put).unwrap();
    let forged = put.replace("Signature=", "Signature=0");
    let (next, _) = head_and_body(&s3, "GET", "/bucket", "", false).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream
        .write_all(&[forged.as_bytes(), &next].concat())
        .await
        .unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.ok();
    let text = String::from_utf8_lossy(&all).to_lowercase();
    assert!(text.starts_with("http/1.1 403 "), "{text}");
    assert!(text.contains("connection: close\r\n"), "{text}");
    assert_eq!(text.matches("http/1.1 ").count(), 1, "{text}");
}

/// A client that does not wait for `100 Continue` sees why it is refused, although it is still
/// sending.
#[tokio::test]
async fn a_refused_client_that_goes_on_sending_sees_the_answer() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let (put, _) = head_and_body(&s3, "PUT", "/bucket/k", "x", true).await;
    let forged = String::from_utf8(put).unwrap();
    let forged = forged.replace("Signature=", "Signature=0");
    let body = vec![0; 12 << 20];
    let length = format!("content-length: {}\r\n", body.len());
    let forged = forged.replace("content-length: 1\r\n", &length);
    for _ in 0..8 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(forged.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        let text = String::from_utf8_lossy(&all);
        assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
    }
}

/// A stopping server finishes the requests that are under way.
#[tokio::test]
async fn stopping_server_finishes_requests() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let (head, body) = head_and_body(&s3, "PUT", "/bucket/k", "content", true).await;
    let mut stream = asked_for_the_body(&running, &head).await;
    running.stop.send(()).unwrap();
    stream.write_all(&body).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200 "));
    running.serving.await.unwrap();
    assert_eq!(s3.get("/bucket/k").await.text(), "content");
    assert!(TcpStream::connect(running.address).await.is_err());
}

/// Answers a request that the client sent before it could know of the stop, on an idle connection
/// and on one that was not accepted yet.
#[tokio::test]
async fn stopping_server_answers_requests_on_their_way() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let (put, body) = head_and_body(&s3, "PUT", "/bucket/k", "content", false).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(&[put, body.to_vec()].concat())
        .await
        .unwrap();
    assert!(read_some(&mut idle).await.starts_with("HTTP/1.1 200 "));
    let (get, _) = head_and_body(&s3, "GET", "/bucket/k", "", false).await;
    // Without a pause in which the server would accept.
    let mut queued = std::net::TcpStream::connect(running.address).unwrap();
    std::io::Write::write_all(&mut queued, &get).unwrap();
    queued.set_nonblocking(true).unwrap();
    running.stop.send(()).unwrap();
    assert_eq!(idle.try_write(&get).unwrap(), get.len());
    for mut stream in [idle, TcpStream::from_std(queued).unwrap()] {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        let text = String::from_utf8_lossy(&all).to_lowercase();
        assert!(text.starts_with("http/1.1 200 "), "{text}");
        assert!(text.contains("connection: close"), "{text}");
    }
    running.serving.await.unwrap();
}

#[tokio::test]
async fn connection_is_kept_and_answered_when_half_closed() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    for _ in 0..3 {
        let (head, body) = head_and_body(&s3, "PUT", "/bucket/k", "content", false).await;
        stream
            .write_all(&[head, body.to_vec()].concat())
            .await
            .unwrap();
        assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200 "));
    }
    let (head, _) = head_and_body(&s3, "GET", "/bucket/k", "", false).await;
    stream.write_all(&head).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert!(all.starts_with(b"HTTP/1.1 200 ") && all.ends_with(b"content"));
}

/// HTTP/2 has no `Host`: what was signed as the host is `:authority`.
#[tokio::test]
async fn http_2_is_served() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    for method in ["PUT", "GET"] {
        let body = if method == "PUT" { "content" } else { "" };
        let mut request = signed(&s3.key, method, "/bucket/k", &[], body.into());
        request.headers_mut().remove("host");
        let uri = format!("http://127.0.0.1{}", request.uri());
        *request.uri_mut() = uri.parse().unwrap();
        let reply = sender.send_request(request).await.unwrap();
        assert_eq!(reply.status(), 200, "{method}");
        let got = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(got, if method == "GET" { "content" } else { "" });
    }
}

/// A client that keeps an HTTP/2 connection open and asks for nothing loses it. The paused clock
/// jumps to the next timer whenever nothing else can go on.
#[tokio::test(start_paused = true)]
async fn idle_connections_end() {
    let s3 = Endpoint::open().await;
    let (client, stream) = tokio::io::duplex(1 << 16);
    let (_stop, stopping) = watch::channel(());
    let serving = serving(&s3, stream, stopping);
    let (sender, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
    let client = tokio::spawn(connection);
    serving.await;
    drop(sender);
    client.await.unwrap().unwrap();
}

fn serving(
    s3: &Endpoint,
    stream: tokio::io::DuplexStream,
    stopping: watch::Receiver<()>,
) -> impl Future<Output = bool> + use<> {
    let builder = builder(s3.service.limits(), ROOMY);
    let common = connection::Common {
        streams: Arc::new(Semaphore::new(8)),
        requests: Addresses::new(Limits {
            connections_per_address: 2,
            ..s3.service.limits()
        }),
        tracer: Tracer::default(),
        stopping,
    };
    let peer = Peer("192.0.2.1".parse().unwrap());
    connection::serve(
        Arc::new(s3.service.clone()),
        builder,
        common,
        stream,
        Some(peer),
        None,
    )
}

/// A client that only goes away breaks no protocol.
#[tokio::test]
async fn clients_that_break_the_protocol_are_told_apart() {
    let s3 = Endpoint::open().await;
    let (_stop, stopping) = watch::channel(());
    for (sent, breaks) in [
        (&b""[..], false),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", false),
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", false),
        (b"\x16\x03\x01 is TLS\r\n\r\n", true),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nno frame at all", true),
    ] {
        let (mut client, stream) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(serving(&s3, stream, stopping.clone()));
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        drop(client);
        let text = String::from_utf8_lossy(sent);
        assert_eq!(serving.await.unwrap(), breaks, "{text:?}");
    }
}

/// A browser's form is read before it is known who sends it. So one address could take the places
/// of all requests over HTTP/2, with forms that never end.
#[tokio::test]
async fn one_address_cannot_take_all_places_of_http2() {
    let s3 = Endpoint::open().await;
    let (client, stream) = tokio::io::duplex(1 << 16);
    let (_stop, stopping) = watch::channel(());
    tokio::spawn(serving(&s3, stream, stopping));
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let send = || {
        let never = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let request = Request::post("http://127.0.0.1/bucket")
            .header("content-type", "multipart/form-data; boundary=x")
            .header("content-length", "1000")
            .body(StreamBody::new(never))
            .unwrap();
        let mut sender = sender.clone();
        tokio::spawn(async move { sender.send_request(request).await.unwrap() })
    };
    let endless = [send(), send()];
    let refused = send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "5");
    let document = refused.into_body().collect().await.unwrap().to_bytes();
    assert!(document.starts_with(b"<Error><Code>SlowDown</Code>"));
    for request in endless {
        assert!(!request.is_finished());
        request.abort();
        let _ = request.await;
    }
    // Its places are free again once the server has noticed.
    loop {
        let request = send();
        tokio::time::sleep(Duration::from_millis(10)).await;
        if !request.is_finished() {
            break;
        }
        assert_eq!(request.await.unwrap().status(), 503);
    }
}

/// A client that takes nothing of an answer is not waited for without end, over HTTP/2 neither.
#[tokio::test(start_paused = true)]
async fn answer_that_nobody_reads_ends() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/k", vec![7; 8 << 20]).await.ok();
    let (client, stream) = tokio::io::duplex(1 << 16);
    let (_stop, stopping) = watch::channel(());
    let serving = tokio::spawn(serving(&s3, stream, stopping));
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut request = signed(&s3.key, "GET", "/bucket/k", &[], Bytes::new());
    request.headers_mut().remove("host");
    let uri = format!("http://127.0.0.1{}", request.uri());
    *request.uri_mut() = uri.parse().unwrap();
    let reply = sender.send_request(request).await.unwrap();
    assert_eq!(reply.status(), 200);
    serving.await.unwrap();
    assert!(reply.into_body().collect().await.is_err());
}

/// A document that is announced as too large is refused before any of it is read.
#[tokio::test]
async fn large_documents_are_refused_unread() {
    let s3 = Endpoint::open().await;
    let running = start(&s3).await;
    let (head, _) = head_and_body(&s3, "POST", "/bucket?delete", "<Delete/>", true).await;
    let head = String::from_utf8(head).unwrap();
    let large = head.replace("content-length: 9", "content-length: 9000000");
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(large.as_bytes()).await.unwrap();
    let answer = read_some(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("MaxMessageLengthExceeded"));
}
