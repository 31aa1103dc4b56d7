use std::sync::Arc;

use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_traces::{Queue, Sampling, Value};
use http_body::Body as _;
use http_body_util::Full;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn tracer() -> (Tracer, Queue) {
    let sampling = Sampling {
        share: 1.0,
        trusts_clients: true,
    };
    let random = Arc::new(SeededRandom::new(1));
    Tracer::new(sampling, Arc::new(ManualClock::at(0)), random)
}

fn request(parents: &[&str]) -> Request<()> {
    let mut request = Request::put("/photos/cat.jpg?X-Amz-Signature=abc&X-Amz-Credential=def")
        .header("host", "s3.example.org:3900")
        .header("authorization", "AWS4-HMAC-SHA256 Signature=abc")
        .header("x-amz-security-token", "abc")
        .extension(Peer("::ffff:192.0.2.1".parse().unwrap()));
    for parent in parents {
        request = request.header("traceparent", *parent);
    }
    request.body(()).unwrap()
}

fn text(record: &Record, name: &str) -> Option<String> {
    let (_, value) = record.attributes.iter().find(|(known, _)| *known == name)?;
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
    }
}

#[tokio::test]
async fn span_tells_the_request_and_no_secret() {
    let (tracer, mut queue) = tracer();
    let span = begin(&tracer, &request(&[PARENT]));
    let outcome = Outcome {
        endpoint: "s3",
        operation: "PutObject",
        request_id: "ID",
        bucket: Some("photos"),
        code: "",
    };
    span.enter(|| describe(&outcome));
    let body = Full::new(Bytes::from("sent")).map_err(|never| match never {});
    let answer = Response::builder()
        .status(503)
        .body(body.boxed_unsync())
        .unwrap();
    answered(&span, &answer);
    let answer = until_sent(answer, span);
    assert!(queue.try_receive().is_none(), "the answer is not sent yet");
    assert_eq!(answer.body().size_hint().exact(), Some(4));
    answer.into_body().collect().await.unwrap();
    let record = queue.try_receive().unwrap();
    for (name, expected) in [
        ("http.request.method", "PUT"),
        ("url.path", "/photos/cat.jpg"),
        ("client.address", "192.0.2.1"),
        ("server.address", "s3.example.org"),
        ("server.port", "3900"),
        ("http.response.status_code", "503"),
        ("error.type", "503"),
        ("archipel.operation", "PutObject"),
        ("archipel.bucket", "photos"),
        ("archipel.request_id", "ID"),
    ] {
        assert_eq!(text(&record, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(text(&record, "archipel.error_code"), None);
    assert!(record.name == "PutObject" && record.is_failed);
    assert_eq!(record.parent.map(|span| span[0]), Some(0xb7));
    let all = format!("{record:?}");
    assert!(!all.contains("abc") && !all.contains("def"), "{all}");
}

#[test]
fn malformed_parents_are_ignored() {
    for parents in [&[][..], &["garbage"], &[PARENT, PARENT], &[&PARENT[1..]]] {
        assert_eq!(received(request(parents).headers()), None, "{parents:?}");
    }
    assert!(received(request(&[PARENT]).headers()).is_some());
}

#[tokio::test]
async fn request_that_is_not_sampled_keeps_its_body() {
    let span = begin(&Tracer::default(), &request(&[PARENT]));
    assert!(!span.is_recorded());
    let body = Full::new(Bytes::from("sent")).map_err(|never| match never {});
    let answer = until_sent(Response::new(body.boxed_unsync()), span);
    let sent = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(sent, "sent");
}
