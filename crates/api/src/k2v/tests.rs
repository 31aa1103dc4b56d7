use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::SystemClock;
use archipel_base::random::SeededRandom;
use archipel_cluster::Cluster;
use archipel_model::{GrantChange, Model};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::service::{K2v, K2vConfig};
use super::sign::{Signer, Unsigned};
use crate::serve::{Limits, Rates, Stopping};

mod lenient;
mod refusals;

struct Endpoint {
    service: K2v,
    model: Model,
    signer: Signer,
    /// The server stops once this is dropped.
    runs: Mutex<Option<watch::Sender<()>>>,
    stopping: Stopping,
}

struct Answered {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn token(&self) -> String {
        let token = &self.headers["x-garage-causality-token"];
        token.to_str().unwrap().to_owned()
    }

    #[track_caller]
    fn is(&self, status: u16, code: &str) {
        let code_sent = self.json()["code"].clone();
        assert_eq!((self.status, code_sent), (status, json!(code)));
    }
}

impl Endpoint {
    async fn new() -> Endpoint {
        let cluster = Cluster::in_memory(1, archipel_model::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let key = model.create_access_key("key").await.unwrap();
        model.create_bucket("bucket", Some(&key.id)).await.unwrap();
        let config = K2vConfig {
            region: "us-east-1".into(),
            limits: Limits::default(),
            rates: Rates::default(),
            audit: Default::default(),
        };
        let (clock, random) = (Arc::new(SystemClock), SeededRandom::new(1));
        let mut registry = Registry::default();
        let service = K2v::new(model.clone(), config, &mut registry, clock, &random);
        let signer = Signer {
            access_key: key.id.clone(),
            secret_key: key.secret.expose().to_owned(),
            region: "us-east-1".into(),
        };
        let (runs, stopping) = Stopping::channel();
        Endpoint {
            service,
            model,
            signer,
            runs: Mutex::new(Some(runs)),
            stopping,
        }
    }

    async fn send(
        &self,
        method: &str,
        pk: Option<&str>,
        query: &[(&str, &str)],
        headers: &[(&'static str, &str)],
        body: &[u8],
    ) -> Answered {
        let unsigned = Unsigned {
            method: &method.parse().unwrap(),
            host: "localhost",
            bucket: "bucket",
            pk,
            query,
            body,
        };
        let now = archipel_base::clock::WallClock::now_millis(&SystemClock);
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
        *request.method_mut() = unsigned.method.clone();
        *request.uri_mut() = unsigned.target().parse().unwrap();
        *request.headers_mut() = self.signer.sign(&unsigned, now).unwrap();
        request.extensions_mut().insert(self.stopping.clone());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (parts, body) = self.service.handle(request).await.into_parts();
        Answered {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    async fn item(&self, method: &Method, token: Option<&str>, body: &[u8]) -> Answered {
        let headers: Vec<_> = token
            .map(|token| ("x-garage-causality-token", token))
            .into_iter()
            .collect();
        let query = [("sort_key", "s k/ö")];
        self.send(method.as_str(), Some("p/ä b"), &query, &headers, body)
            .await
    }
}

#[tokio::test]
async fn an_item_is_inserted_read_and_deleted() {
    let k2v = Endpoint::new().await;
    k2v.item(&Method::GET, None, b"").await.is(404, "NoSuchKey");
    assert_eq!(k2v.item(&Method::PUT, None, b"one").await.status, 204);
    assert_eq!(k2v.item(&Method::PUT, None, b"two").await.status, 204);
    let both = k2v.item(&Method::GET, None, b"").await;
    let values = [STANDARD.encode("one"), STANDARD.encode("two")];
    assert_eq!((both.status, both.json()), (200, json!(values)));
    let token = both.token();
    k2v.item(&Method::DELETE, None, b"")
        .await
        .is(400, "InvalidRequest");
    k2v.item(&Method::DELETE, Some("wrong"), b"")
        .await
        .is(400, "InvalidRequest");
    let deleted = k2v.item(&Method::DELETE, Some(&token), b"").await;
    assert_eq!(deleted.status, 204);
    let gone = k2v.item(&Method::GET, None, b"").await;
    assert_eq!(gone.json(), json!([null]));
    let query = [
        ("sort_key", "s k/ö"),
        ("causality_token", &*gone.token()),
        ("timeout", "0"),
    ];
    let polled = k2v.send("GET", Some("p/ä b"), &query, &[], b"").await;
    assert_eq!((polled.status, polled.body.len()), (304, 0));
    let query = [("sort_key", "s k/ö"), ("causality_token", &*token)];
    let polled = k2v.send("GET", Some("p/ä b"), &query, &[], b"").await;
    assert_eq!((polled.status, polled.json()), (200, json!([null])));
}

#[tokio::test]
async fn batches_repeat_their_searches() {
    let k2v = Endpoint::new().await;
    let inserts = json!([
        {"pk": "p", "sk": "a", "ct": null, "v": "QQ=="},
        {"pk": "p", "sk": "b", "ct": null, "v": "Qg"},
        {"pk": "q", "sk": "a", "v": "QQ=="},
    ]);
    let inserts = serde_json::to_vec(&inserts).unwrap();
    let inserted = k2v.send("POST", None, &[], &[], &inserts).await;
    assert_eq!(inserted.status, 204);
    let search = br#"[{"partitionKey": "p", "limit": 1}]"#;
    for (method, query) in [("POST", &[("search", "")][..]), ("SEARCH", &[])] {
        let found = k2v.send(method, None, query, &[], search).await;
        let mut found = found.json();
        assert!(found[0]["items"][0]["ct"].take().is_string());
        let expected = json!([{
            "partitionKey": "p", "prefix": null, "start": null, "end": null, "limit": 1,
            "reverse": false, "conflictsOnly": false, "tombstones": false, "singleItem": false,
            "items": [{"sk": "a", "ct": null, "v": ["QQ=="]}],
            "more": true, "nextStart": "b",
        }]);
        assert_eq!(found, expected);
    }
    let index = k2v.send("GET", None, &[("start", "q")], &[], b"").await;
    let expected = json!({
        "prefix": null, "start": "q", "end": null, "limit": null, "reverse": false,
        "partitionKeys": [{"pk": "q", "entries": 1, "conflicts": 0, "values": 1, "bytes": 1}],
        "more": false, "nextStart": null,
    });
    assert_eq!(index.json(), expected);
    let deletion = br#"[{"partitionKey": "p", "prefix": "a"}]"#;
    let deleted = k2v
        .send("POST", None, &[("delete", "")], &[], deletion)
        .await;
    let expected = json!([{
        "partitionKey": "p", "prefix": "a", "start": null, "end": null, "singleItem": false,
        "deletedItems": 1,
    }]);
    assert_eq!(deleted.json(), expected);
}

#[tokio::test]
async fn permissions_are_those_of_objects() {
    let k2v = Endpoint::new().await;
    let change = |read, write| GrantChange {
        read: Some(read),
        write: Some(write),
        owner: Some(false),
    };
    let (get, put) = (Method::GET, Method::PUT);
    let id = k2v.signer.access_key.clone();
    let grant = |read, write| k2v.model.change_grant("bucket", &id, change(read, write));
    grant(false, true).await.unwrap();
    assert_eq!(k2v.item(&put, None, b"v").await.status, 204);
    k2v.item(&get, None, b"").await.is(403, "AccessDenied");
    grant(true, false).await.unwrap();
    k2v.item(&put, None, b"v").await.is(403, "AccessDenied");
    let read = k2v.item(&get, None, b"").await;
    assert_eq!(read.status, 200);
    // A permission that ends during a poll ends the poll without the value.
    let token = read.token();
    let query = [
        ("sort_key", "s k/ö"),
        ("causality_token", &*token),
        ("timeout", "2"),
    ];
    let poll = k2v.send("GET", Some("p/ä b"), &query, &[], b"");
    let revoke = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        grant(false, true).await.unwrap();
        assert_eq!(k2v.item(&put, None, b"w").await.status, 204);
    };
    let (polled, ()) = tokio::join!(poll, revoke);
    polled.is(403, "AccessDenied");
}

/// A refused batch changes nothing, and what is left out of a document is no deletion.
#[tokio::test]
async fn refused_batches_change_nothing() {
    let k2v = Endpoint::new().await;
    let batch = async |query: &[(&str, &str)], document: Value| {
        let body = document.to_string();
        k2v.send("POST", None, query, &[], body.as_bytes()).await
    };
    let kept = json!([{"pk": "p", "sk": "a", "v": STANDARD.encode("kept")}]);
    assert_eq!(batch(&[], kept).await.status, 204);
    let item = async || {
        let query = [("sort_key", "a")];
        k2v.send("GET", Some("p"), &query, &[], b"").await
    };
    let token = item().await.token();
    let large = |text: &str| STANDARD.encode(text.repeat(200 << 10));
    let full = ["x", "y", "z"].map(|text| json!({"pk": "q", "sk": "b", "v": large(text)}));
    let mut too_many = vec![json!({"pk": "q", "sk": "a", "v": "YQ=="})];
    too_many.extend(full);
    for (query, document) in [
        (
            &[("delete", "")][..],
            json!([{"partitionKey": "p"}, {"partitionKey": ""}]),
        ),
        (
            &[("delete", "")],
            json!([{"partitionKey": "p"}, {"partitionKey": "q", "prefix": "x".repeat(2049)}]),
        ),
        (&[("delete", "")], json!([["p", null, null, null, false]])),
        (&[], json!([{"pk": "p", "sk": "a", "ct": token}])),
        (&[], json!([["p", "a", token, "YQ=="]])),
        (&[], json!(too_many)),
    ] {
        assert_eq!(
            batch(query, document.clone()).await.status,
            400,
            "{document}"
        );
    }
    assert_eq!(item().await.json(), json!([STANDARD.encode("kept")]));
    let query = [("sort_key", "a")];
    k2v.send("GET", Some("q"), &query, &[], b"")
        .await
        .is(404, "NoSuchKey");
}

/// A poll that waited is decided about with what counts then.
#[tokio::test(start_paused = true)]
async fn a_poll_tells_nothing_to_a_key_that_was_disabled_meanwhile() {
    let k2v = Endpoint::new().await;
    k2v.item(&Method::PUT, None, b"one").await;
    let token = k2v.item(&Method::GET, None, b"").await.token();
    let bucket = k2v.model.bucket("bucket").unwrap().unwrap();
    let query = [
        ("sort_key", "s k/ö"),
        ("causality_token", &*token),
        ("timeout", "60"),
    ];
    let poll = k2v.send("GET", Some("p/ä b"), &query, &[], b"");
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let disabled = k2v.model.disable_key(&k2v.signer.access_key);
        disabled.await.unwrap();
        let insert = archipel_model::k2v::Insert {
            name: archipel_model::k2v::ItemName::new("p/ä b", "s k/ö").unwrap(),
            token: None,
            value: Some(Bytes::from_static(b"secret")),
        };
        k2v.model.insert_item(&bucket, &insert).await.unwrap();
    };
    let (polled, ()) = tokio::join!(poll, meanwhile);
    polled.is(403, "InvalidAccessKeyId");
}

#[tokio::test(start_paused = true)]
async fn polls_that_wait_are_answered_when_the_server_stops() {
    let k2v = Endpoint::new().await;
    k2v.item(&Method::PUT, None, b"one").await;
    let token = k2v.item(&Method::GET, None, b"").await.token();
    let query = [("sort_key", "s k/ö"), ("causality_token", &*token)];
    let of_item = k2v.send("GET", Some("p/ä b"), &query, &[], b"");
    let first = k2v.send("POST", Some("p/ä b"), &[("poll_range", "")], &[], b"{}");
    let marker = first.await.json()["seenMarker"].clone();
    let document = json!({ "seenMarker": marker }).to_string();
    let range = [("poll_range", "")];
    let of_range = k2v.send("POST", Some("p/ä b"), &range, &[], document.as_bytes());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        k2v.runs.lock().take();
    };
    let (of_item, of_range, ()) = tokio::join!(of_item, of_range, stop);
    for polled in [of_item, of_range] {
        polled.is(503, "ServiceUnavailable");
        assert_eq!(polled.headers["retry-after"], "1");
    }
}

/// Clients of HTTP/2 take content in an answer to HEAD for an error of the connection.
#[tokio::test]
async fn an_answer_to_head_has_no_content() {
    let k2v = Endpoint::new().await;
    let answered = k2v
        .send("HEAD", Some("p"), &[("sort_key", "s")], &[], b"")
        .await;
    assert_eq!((answered.status, answered.body.len()), (405, 0));
}

#[tokio::test]
async fn errors_name_the_parameter() {
    let k2v = Endpoint::new().await;
    let unknown = [("sort_key", "s"), ("foo", "1")];
    for (pk, query, name) in [
        (Some("p"), &[][..], "sort_key: "),
        (Some("p"), &unknown, "foo: "),
        (None, &[("limit", "x")], "limit: "),
    ] {
        let answered = k2v.send("GET", pk, query, &[], b"").await;
        answered.is(400, "InvalidArgument");
        let message = answered.json()["message"].clone();
        assert!(message.as_str().unwrap().starts_with(name), "{message}");
    }
}

#[tokio::test]
async fn a_client_gets_the_form_that_it_names() {
    let k2v = Endpoint::new().await;
    k2v.item(&Method::PUT, None, b"one").await;
    let (text, value) = ("application/json", "application/octet-stream");
    for (accept, kind) in [
        ("application/json, text/plain, */*", text),
        ("application/json, */*;q=0.1", text),
        ("application/json, application/octet-stream;q=0", text),
        ("application/json, application/octet-stream", value),
        ("text/html, */*; q=0.8", value),
        ("*/*", value),
    ] {
        let query = [("sort_key", "s k/ö")];
        let headers = [("accept", accept)];
        let answered = k2v.send("GET", Some("p/ä b"), &query, &headers, b"").await;
        assert_eq!(answered.headers["content-type"], kind, "{accept}");
    }
    let refused = [("accept", "application/octet-stream;q=0.0")];
    let query = [("sort_key", "s k/ö")];
    let answered = k2v.send("GET", Some("p/ä b"), &query, &refused, b"").await;
    answered.is(406, "NotAcceptable");
}

#[tokio::test]
async fn unsigned_and_wrongly_signed_requests_are_refused() {
    let mut k2v = Endpoint::new().await;
    let unsigned = Request::get("http://localhost/bucket/p?sort_key=s")
        .header("host", "localhost")
        .body(Full::new(Bytes::new()))
        .unwrap();
    assert_eq!(k2v.service.handle(unsigned).await.status(), 403);
    k2v.signer.secret_key.push('x');
    k2v.item(&Method::GET, None, b"")
        .await
        .is(403, "SignatureDoesNotMatch");
}
