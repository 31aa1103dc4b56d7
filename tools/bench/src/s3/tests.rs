//! Tests of signed URLs and of reading answers.

use rusty_s3::{Bucket, Credentials, UrlStyle};

use super::*;

fn endpoint() -> Endpoint {
    let url = "http://10.88.0.1:3900".parse().unwrap();
    Endpoint {
        bucket: Bucket::new(url, UrlStyle::Path, "bench", "here").unwrap(),
        credentials: Credentials::new("key", "secret"),
        pid: None,
        metrics: None,
        tls: None,
    }
}

#[test]
fn urls_name_service_bucket_and_object() {
    let path = |what| {
        let url = signed(&endpoint(), &Ask::new(Method::GET, what)).unwrap();
        let path = url.strip_prefix("http://10.88.0.1:3900").unwrap();
        path.split('?').next().unwrap().to_owned()
    };
    assert_eq!(path(What::Service), "/");
    assert_eq!(path(What::Bucket), "/bench/");
    assert_eq!(path(What::Object("a b/c")), "/bench/a%20b/c");
}

#[test]
fn query_is_part_of_the_signature() {
    let ask = Ask {
        query: &[("uploads", "")],
        ..Ask::new(Method::POST, What::Object("k"))
    };
    let url = signed(&endpoint(), &ask).unwrap();
    assert!(
        url.contains("uploads=") && url.contains("X-Amz-Signature="),
        "{url}"
    );
}

#[test]
fn tags_and_statuses_are_read_from_answers() {
    let answer = |status| Answer {
        status,
        etag: None,
        text: "<R><UploadId>x1</UploadId><Empty></Empty></R>".into(),
        bytes: 0,
        first: Duration::ZERO,
        total: Duration::ZERO,
    };
    assert_eq!(answer(200).tag("UploadId"), Some("x1"));
    assert_eq!(answer(200).tag("Empty"), Some(""));
    assert_eq!(answer(200).tag("None"), None);
    assert!(answer(204).good().is_ok());
    assert!(answer(412).good().unwrap_err().to_string().contains("412"));
}
