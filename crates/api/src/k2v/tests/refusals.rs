//! Refusals: the code, the methods that are allowed, the part of a batch that is wrong; and polls
//! of a bucket that is deleted.

use tokio::time::Instant;

use super::*;

async fn post(k2v: &Endpoint, query: &[(&str, &str)], document: Value) -> Answered {
    let body = document.to_string();
    k2v.send("POST", None, query, &[], body.as_bytes()).await
}

#[tokio::test]
async fn wrong_methods_are_answered_with_those_that_are_allowed() {
    let k2v = Endpoint::new().await;
    let (item, poll) = ("GET, PUT, DELETE", "POST, SEARCH");
    for (method, pk, query, allowed) in [
        ("POST", Some("p"), &[("sort_key", "s")][..], item),
        ("HEAD", Some("p"), &[("sort_key", "s")], item),
        ("PATCH", Some("p"), &[("poll_range", "")], poll),
        ("PUT", None, &[], "GET, POST, SEARCH"),
        ("HEAD", None, &[], "GET, POST, SEARCH"),
        ("PUT", None, &[("search", "")], "POST, SEARCH"),
        ("PUT", None, &[("delete", "")], "POST"),
    ] {
        let answered = k2v.send(method, pk, query, &[], b"").await;
        let found = answered.headers["allow"].to_str().unwrap();
        assert_eq!(
            (answered.status, found),
            (405, allowed),
            "{method} {query:?}"
        );
    }
}

/// A value that is too large is refused alike, however it is sent.
#[tokio::test]
async fn a_value_that_is_too_large_has_one_code() {
    let k2v = Endpoint::new().await;
    let value = vec![b'x'; (256 << 10) + 1];
    let alone = k2v.item(&Method::PUT, None, &value).await;
    alone.is(400, "EntityTooLarge");
    let item = json!({"pk": "p", "sk": "s", "v": STANDARD.encode(&value)});
    post(&k2v, &[], json!([item]))
        .await
        .is(400, "EntityTooLarge");
    let fits = k2v.item(&Method::PUT, None, &value[1..]).await;
    assert_eq!(fits.status, 204);
}

#[tokio::test]
async fn the_wrong_part_of_a_batch_is_named() {
    let k2v = Endpoint::new().await;
    let item = |sk: &str, size: usize| {
        let value = STANDARD.encode(vec![size as u8; size]);
        json!({"pk": "p", "sk": sk, "v": value})
    };
    let full = json!([item("full", 256 << 10), item("full", (256 << 10) - 1)]);
    assert_eq!(post(&k2v, &[], full).await.status, 204);
    let foreign = json!({"pk": "p", "sk": "s", "v": "QQ==", "ct": "AAAA"});
    let good = json!({"partitionKey": "p"});
    let long = json!({"partitionKey": "p", "prefix": "x".repeat(2049)});
    let nothing = json!({"partitionKey": "p", "limit": 0});
    let no_start = json!({"partitionKey": "p", "singleItem": true});
    let (search, delete) = (&[("search", "")], &[("delete", "")]);
    for (query, document, begin) in [
        (&[][..], json!([item("a", 1), foreign]), "Item 2 of"),
        (&[], json!([item("a", 1), item("full", 2)]), "Item 2 of"),
        (&[], json!([item("b", (256 << 10) + 1)]), "Item 1 of"),
        (search, json!([good, long]), "Search 2 of"),
        (search, json!([good, good, nothing]), "Search 3 of"),
        (search, json!([no_start]), "Search 1 of"),
        (delete, json!([good, long]), "Search 2 of"),
        (delete, json!([good, no_start]), "Search 2 of"),
    ] {
        let refused = post(&k2v, query, document).await;
        assert_eq!(refused.status, 400, "{query:?} {begin}");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(begin), "{query:?}: {message}");
    }
}

/// Headers that a client moved into the query would be ignored there.
#[tokio::test]
async fn headers_in_the_query_are_refused() {
    let k2v = Endpoint::new().await;
    for name in ["x-amz-expected-bucket-owner", "X-Amz-Acl"] {
        let query = [("sort_key", "s"), (name, "private")];
        let answered = k2v.send("PUT", Some("p"), &query, &[], b"v").await;
        answered.is(400, "InvalidArgument");
        let message = answered.json()["message"].clone();
        assert!(message.as_str().unwrap().starts_with(name), "{message}");
    }
}

#[tokio::test]
async fn polls_end_when_their_bucket_is_deleted() {
    let k2v = Endpoint::new().await;
    k2v.item(&Method::PUT, None, b"one").await;
    let token = k2v.item(&Method::GET, None, b"").await.token();
    k2v.item(&Method::DELETE, Some(&token), b"").await;
    let token = k2v.item(&Method::GET, None, b"").await.token();
    let range = [("poll_range", "")];
    let first = k2v.send("POST", Some("p/ä b"), &range, &[], b"{}").await;
    let marker = first.json()["seenMarker"].clone();
    let document = json!({"seenMarker": marker, "timeout": 30}).to_string();
    let query = [
        ("sort_key", "s k/ö"),
        ("causality_token", &*token),
        ("timeout", "30"),
    ];
    let began = Instant::now();
    let of_item = k2v.send("GET", Some("p/ä b"), &query, &[], b"");
    let of_range = k2v.send("POST", Some("p/ä b"), &range, &[], document.as_bytes());
    let delete = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let bucket = k2v.model.bucket("bucket").unwrap().unwrap();
        k2v.model.delete_bucket(&bucket).await.unwrap();
    };
    let (of_item, of_range, ()) = tokio::join!(of_item, of_range, delete);
    for polled in [of_item, of_range] {
        polled.is(404, "NoSuchBucket");
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}
