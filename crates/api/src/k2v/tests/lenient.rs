//! Requests that the specification allows although no item needs them: bounds that are not keys,
//! fractions of seconds, all fields of a search. And requests of scripts in web pages.

use archipel_model::CorsRule;

use super::*;

async fn post(k2v: &Endpoint, query: &str, document: Value) -> Answered {
    let body = serde_json::to_vec(&document).unwrap();
    k2v.send("POST", None, &[(query, "")], &[], &body).await
}

async fn with_items() -> Endpoint {
    let k2v = Endpoint::new().await;
    let item = |pk: &str, sk: &str| json!({"pk": pk, "sk": sk, "v": "QQ=="});
    let all = [
        item("a", "x"),
        item("a", "xy"),
        item("a", "y"),
        item("aa", "x"),
        item("b", "x"),
    ];
    let body = serde_json::to_vec(&all).unwrap();
    let inserted = k2v.send("POST", None, &[], &[], &body).await;
    assert_eq!(inserted.status, 204);
    k2v
}

/// A client that goes on after a key may ask for that key with NUL behind it.
#[tokio::test]
async fn bounds_need_not_be_keys() {
    let k2v = with_items().await;
    let long = "x".repeat(600);
    for (search, expected) in [
        (json!({"start": "x\0"}), &["xy", "y"][..]),
        (json!({"end": "x\0"}), &["x"]),
        (json!({"start": long}), &["xy", "y"]),
        (json!({"prefix": "x\0"}), &[]),
        (json!({"reverse": true, "start": "xy\0"}), &["xy", "x"]),
        (json!({"reverse": true, "end": "x\0"}), &["y", "xy"]),
    ] {
        let mut search = search;
        search["partitionKey"] = json!("a");
        let found = post(&k2v, "search", json!([search])).await.json();
        let items = found[0]["items"].as_array().unwrap().iter();
        let keys: Vec<_> = items.map(|item| item["sk"].as_str().unwrap()).collect();
        assert_eq!(keys, expected, "{search}");
    }
    let beyond = json!([{"partitionKey": "a", "start": "x".repeat(2049)}]);
    post(&k2v, "search", beyond)
        .await
        .is(400, "InvalidArgument");
}

#[tokio::test]
async fn bounds_of_the_index_need_not_be_keys() {
    let k2v = with_items().await;
    for (query, expected) in [
        (&[("start", "a\0")][..], &["aa", "b"][..]),
        (&[("start", "a\0z")], &["aa", "b"]),
        (&[("end", "a\0")], &["a"]),
        (&[("prefix", "a\0")], &[]),
        (&[("prefix", "a"), ("start", "\0")], &["a", "aa"]),
        (&[("reverse", "true"), ("start", "aa\0")], &["aa", "a"]),
        (&[("reverse", "true"), ("end", "a\0")], &["b", "aa"]),
    ] {
        let found = k2v.send("GET", None, query, &[], b"").await.json();
        let keys = found["partitionKeys"].as_array().unwrap().iter();
        let keys: Vec<_> = keys.map(|key| key["pk"].as_str().unwrap()).collect();
        assert_eq!(keys, expected, "{query:?}");
    }
}

#[tokio::test]
async fn a_deletion_has_the_form_of_a_search() {
    let k2v = with_items().await;
    for field in ["limit", "reverse", "conflictsOnly", "tombstones"] {
        let mut search = json!({"partitionKey": "a", "prefix": "x"});
        search[field] = if field == "limit" {
            json!(1)
        } else {
            json!(true)
        };
        let refused = post(&k2v, "delete", json!([search])).await;
        refused.is(400, "InvalidRequest");
    }
    let search = json!({
        "partitionKey": "a", "prefix": "x", "start": null, "end": null, "limit": null,
        "reverse": false, "conflictsOnly": false, "tombstones": false, "singleItem": false,
    });
    let deleted = post(&k2v, "delete", json!([search])).await;
    assert_eq!(deleted.json()[0]["deletedItems"], json!(2));
}

#[tokio::test]
async fn a_timeout_may_be_a_fraction() {
    let k2v = Endpoint::new().await;
    k2v.item(&Method::PUT, None, b"one").await;
    let token = k2v.item(&Method::GET, None, b"").await.token();
    for (timeout, status) in [
        ("0.01", 304),
        ("0.0", 304),
        ("-1", 400),
        ("NaN", 400),
        ("x", 400),
    ] {
        let query = [
            ("sort_key", "s k/ö"),
            ("causality_token", &token),
            ("timeout", timeout),
        ];
        let polled = k2v.send("GET", Some("p/ä b"), &query, &[], b"").await;
        assert_eq!(polled.status, status, "{timeout}");
    }
}

/// Two values of the largest size stay together, and an item that is full can be deleted.
#[tokio::test]
async fn a_full_item_can_be_deleted() {
    let k2v = Endpoint::new().await;
    let large = |n: u8| vec![n; 256 << 10];
    k2v.item(&Method::PUT, None, &large(1)).await;
    let token = k2v.item(&Method::GET, None, b"").await.token();
    for n in 2..=3 {
        let put = k2v.item(&Method::PUT, Some(&token), &large(n)).await;
        assert_eq!(put.status, 204);
    }
    let third = k2v.item(&Method::PUT, Some(&token), b"more").await;
    third.is(400, "InvalidRequest");
    let deleted = k2v.item(&Method::DELETE, Some(&token), b"").await;
    assert_eq!(deleted.status, 204);
    let values = k2v.item(&Method::GET, None, b"").await.json();
    assert_eq!(values.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn scripts_of_allowed_origins_may_use_a_bucket() {
    let k2v = Endpoint::new().await;
    let rule = CorsRule {
        allowed_methods: vec!["GET".into()],
        allowed_origins: vec!["https://example.com".into()],
        expose_headers: vec!["x-garage-causality-token".into()],
        ..CorsRule::default()
    };
    let bucket = k2v.model.bucket("bucket").unwrap().unwrap();
    k2v.model.set_cors(&bucket, vec![rule]).await.unwrap();
    let preflight = async |origin: &'static str| {
        let request = Request::builder()
            .method(Method::OPTIONS)
            .uri("http://localhost/bucket/pk?sort_key=sk")
            .header("host", "localhost")
            .header("origin", origin)
            .header("access-control-request-method", "GET");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let (answer, _) = k2v.service.handle(request).await.into_parts();
        let allowed = answer.headers.get("access-control-allow-origin").cloned();
        (
            answer.status.as_u16(),
            allowed.map(|it| it.to_str().unwrap().to_owned()),
        )
    };
    let allowed = Some("https://example.com".to_owned());
    assert_eq!(preflight("https://example.com").await, (200, allowed));
    assert_eq!(preflight("https://example.org").await, (403, None));
    k2v.item(&Method::PUT, None, b"one").await;
    for (origin, is_allowed) in [
        ("https://example.com", true),
        ("https://example.org", false),
    ] {
        let query = [("sort_key", "s k/ö")];
        let read = k2v
            .send("GET", Some("p/ä b"), &query, &[("origin", origin)], b"")
            .await;
        assert_eq!(read.status, 200);
        let exposed = read.headers.get("access-control-expose-headers");
        assert_eq!(exposed.is_some(), is_allowed);
    }
}

/// Wildcards take all but what has a weight of zero, in letters of either case.
#[tokio::test]
async fn wildcards_take_no_form_that_is_refused() {
    let k2v = with_items().await;
    for (accept, kind) in [
        ("application/octet-stream;q=0, */*", "application/json"),
        ("application/json;q=0, */*", "application/octet-stream"),
        ("APPLICATION/*", "application/octet-stream"),
    ] {
        let headers = [("accept", accept)];
        let query = [("sort_key", "x")];
        let answered = k2v.send("GET", Some("a"), &query, &headers, b"").await;
        assert_eq!(answered.headers["content-type"], kind, "{accept}");
    }
}

#[tokio::test]
async fn conditions_of_writes_are_refused_and_change_nothing() {
    let k2v = with_items().await;
    let query = [("sort_key", "x")];
    for header in ["if-match", "if-none-match"] {
        let headers = [(header, "*")];
        let answered = k2v.send("PUT", Some("a"), &query, &headers, b"new").await;
        answered.is(501, "NotImplemented");
    }
    let read = [("accept", "application/octet-stream"), ("if-match", "*")];
    let answered = k2v.send("GET", Some("a"), &query, &read, b"").await;
    assert_eq!(&answered.body[..], b"A");
}

#[tokio::test]
async fn a_wrong_item_of_a_batch_is_named() {
    let k2v = with_items().await;
    let good = json!({"pk": "a", "sk": "new", "v": "QQ=="});
    let wrong = json!({"pk": "a", "sk": "new2", "v": "?"});
    let body = serde_json::to_vec(&[good, wrong]).unwrap();
    let refused = k2v.send("POST", None, &[], &[], &body).await;
    assert_eq!(refused.status, 400);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Item 2 of the list: "), "{message}");
}
