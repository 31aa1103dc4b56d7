use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use archipel_cluster::World;
use archipel_model::{HOOKS, Model};

use super::client::{Endpoint, Reply, hmac_hex};

#[tokio::test]
async fn put_get_head_delete() {
    let s3 = Endpoint::open().await;
    let body = Bytes::from(vec![7; 3_000_000]);
    let put = s3
        .call(
            "PUT",
            "/bucket/a b/ü",
            &[("x-amz-meta-x", "1")],
            body.clone(),
        )
        .await
        .ok();
    assert_eq!(put.header("x-amz-checksum-type"), "FULL_OBJECT");
    let got = s3.get("/bucket/a b/ü").await.ok();
    assert_eq!(got.body, body);
    assert_eq!(got.header("etag"), put.header("etag"));
    assert_eq!(got.header("x-amz-meta-x"), "1");
    assert_eq!(got.header("content-type"), "binary/octet-stream");
    assert_eq!(got.header("last-modified").len(), 29);
    let part = s3
        .call("GET", "/bucket/a b/ü", &[("range", "bytes=10-19")], "")
        .await;
    assert_eq!((part.status.as_u16(), part.body.len()), (206, 10));
    assert_eq!(part.header("content-range"), "bytes 10-19/3000000");
    let head = s3.call("HEAD", "/bucket/a b/ü", &[], "").await.ok();
    assert_eq!(head.header("content-length"), "3000000");
    s3.call("DELETE", "/bucket/a b/ü", &[], "").await.ok();
    s3.get("/bucket/a b/ü").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn conditional_writes_check_the_current_object() {
    let s3 = Endpoint::open().await;
    let none = [("if-none-match", "*")];
    let first = s3.call("PUT", "/bucket/k", &none, "1").await.ok();
    s3.call("PUT", "/bucket/k", &none, "2")
        .await
        .is(412, "PreconditionFailed");
    let tag = first.header("etag").to_owned();
    s3.call("PUT", "/bucket/k", &[("if-match", &tag)], "3")
        .await
        .ok();
    s3.call("PUT", "/bucket/k", &[("if-match", &tag)], "4")
        .await
        .is(412, "PreconditionFailed");
    s3.call("PUT", "/bucket/new", &[("if-match", &tag)], "5")
        .await
        .is(404, "NoSuchKey");
    assert_eq!(s3.get("/bucket/k").await.text(), "3");
}

/// Exactly one of several racing writers wins, and its content stays.
#[tokio::test]
async fn one_of_several_racing_writers_wins() {
    let s3 = Endpoint::open().await;
    for round in 0..20 {
        let path = format!("/bucket/race{round}");
        let racer = |n: usize| {
            let (s3, path) = (&s3, &path);
            async move {
                s3.call("PUT", path, &[("if-none-match", "*")], n.to_string())
                    .await
            }
        };
        let replies = futures_util::future::join_all((0..16).map(racer)).await;
        let won: Vec<_> = (0..16).filter(|n| replies[*n].status == 200).collect();
        let lost = replies
            .iter()
            .filter(|r| [409, 412].contains(&r.status.as_u16()))
            .count();
        assert_eq!((won.len(), lost), (1, 15));
        assert_eq!(s3.get(&path).await.text(), won[0].to_string());
    }
}

#[tokio::test]
async fn listing_pages() {
    let s3 = Endpoint::open().await;
    for key in ["a", "b/1", "b/2", "c", "d/1"] {
        s3.put(&format!("/bucket/{key}"), "x").await.ok();
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = s3
            .get(&format!(
                "/bucket?list-type=2&delimiter=/&max-keys=1{token}"
            ))
            .await
            .ok();
        seen.extend(
            page.element("Key").or(page
                .text()
                .split("<CommonPrefixes><Prefix>")
                .nth(1)
                .map(|t| t.split('<').next().unwrap().to_owned())),
        );
        match page.element("NextContinuationToken") {
            Some(next) => token = format!("&continuation-token={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b/", "c", "d/"]);
    let wrong = s3.get("/bucket?list-type=2&continuation-token=%25").await;
    wrong.is(400, "InvalidArgument");
}

#[tokio::test]
async fn copy_takes_content_and_metadata() {
    let s3 = Endpoint::open().await;
    s3.call("PUT", "/bucket/k", &[("x-amz-meta-a", "1")], "content")
        .await
        .ok();
    let from = |extra: &'static [(&'static str, &'static str)]| {
        let mut headers = vec![("x-amz-copy-source", "bucket/k")];
        headers.extend(extra);
        headers
    };
    s3.call("PUT", "/bucket/copy", &from(&[]), "").await.ok();
    let copy = s3.get("/bucket/copy").await;
    assert_eq!(
        (copy.text().as_str(), copy.header("x-amz-meta-a")),
        ("content", "1")
    );
    let replace = from(&[
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-meta-b", "2"),
    ]);
    s3.call("PUT", "/bucket/k", &replace, "").await.ok();
    let own = s3.get("/bucket/k").await;
    assert_eq!(
        (own.header("x-amz-meta-a"), own.header("x-amz-meta-b")),
        ("", "2")
    );
    s3.call("PUT", "/bucket/k", &from(&[]), "")
        .await
        .is(400, "InvalidRequest");
    let missing = [("x-amz-copy-source", "bucket/missing")];
    s3.call("PUT", "/bucket/x", &missing, "")
        .await
        .is(404, "NoSuchKey");
    let malformed = [("x-amz-copy-source", "")];
    s3.call("PUT", "/bucket/x", &malformed, "")
        .await
        .is(400, "InvalidArgument");
}

#[tokio::test]
async fn delete_objects_reports_each_key() {
    let s3 = Endpoint::open().await;
    for key in ["a", "b", "c"] {
        s3.put(&format!("/bucket/{key}"), "x").await.ok();
    }
    let body = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><ETag>wrong</ETag></Object>\
                <Object><Key>none</Key></Object></Delete>";
    let reply = s3.call("POST", "/bucket?delete", &[], body).await.ok();
    assert_eq!(reply.text().matches("<Deleted>").count(), 2);
    assert_eq!(reply.element("Code").unwrap(), "PreconditionFailed");
    s3.get("/bucket/a").await.is(404, "NoSuchKey");
    s3.get("/bucket/b").await.ok();
}

#[tokio::test]
async fn virtual_host_names_the_bucket() {
    let s3 = Endpoint::open().await;
    let host = [("host", "bucket.s3.example.com:3900")];
    s3.call("PUT", "/k", &host, "content").await.ok();
    assert_eq!(s3.call("GET", "/k", &host, "").await.text(), "content");
    assert_eq!(s3.get("/bucket/k").await.text(), "content");
    let other = [("host", "other.s3.example.com")];
    s3.call("GET", "/k", &other, "")
        .await
        .is(404, "NoSuchBucket");
    let domain = [("host", "s3.example.com")];
    assert_eq!(
        s3.call("GET", "/bucket/k", &domain, "").await.text(),
        "content"
    );
}

/// A form with its policy, as a browser sends it.
pub fn form(
    s3: &Endpoint,
    fields: &[(&str, &str)],
    conditions: &str,
    file: &str,
) -> Request<Full<Bytes>> {
    let policy = format!(
        "{{\"expiration\":\"2013-05-24T00:10:00Z\",\"conditions\":[{{\"bucket\":\"bucket\"}},\
         [\"starts-with\",\"$key\",\"up/\"],[\"starts-with\",\"$x-amz-credential\",\"\"],\
         {{\"x-amz-algorithm\":\"AWS4-HMAC-SHA256\"}},{{\"x-amz-date\":\"20130524T000000Z\"}}{conditions}]}}"
    );
    let policy = STANDARD.encode(policy);
    let signature = hmac_hex(&s3.key, &policy);
    let credential = format!("{}/20130524/us-east-1/s3/aws4_request", s3.key.id);
    let signing = [
        ("policy", policy.as_str()),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", &credential),
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-signature", &signature),
    ];
    let mut body = String::new();
    for (name, value) in fields.iter().chain(&signing) {
        let head = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"");
        body.push_str(&format!("{head}\r\n\r\n{value}\r\n"));
    }
    let head = "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"";
    body.push_str(&format!("{head}\r\n\r\n{file}\r\n--edge--\r\n"));
    Request::post("/bucket")
        .header("host", "127.0.0.1")
        .header("content-type", "multipart/form-data; boundary=edge")
        .header("content-length", body.len())
        .body(Full::from(body))
        .unwrap()
}

#[tokio::test]
async fn form_upload_stores_an_object() {
    let s3 = Endpoint::open().await;
    let key = ("key", "up/${filename}");
    s3.send(form(&s3, &[key], "", "content")).await.ok();
    assert_eq!(s3.get("/bucket/up/f.txt").await.text(), "content");
    let large = "x".repeat(1_000_000);
    s3.send(form(&s3, &[key], "", &large)).await.ok();
    assert_eq!(s3.get("/bucket/up/f.txt").await.text(), large);
    let range = ",[\"content-length-range\",2,5]";
    s3.send(form(&s3, &[key], range, "x"))
        .await
        .is(400, "EntityTooSmall");
    s3.send(form(&s3, &[key], range, "123456"))
        .await
        .is(400, "EntityTooLarge");
    s3.send(form(&s3, &[("key", "other")], "", "x"))
        .await
        .is(403, "AccessDenied");
    // The policy has a condition about the key, too.
    s3.send(form(&s3, &[], "", "x"))
        .await
        .is(400, "InvalidArgument");
    let sneaked = [key, ("x-amz-meta-a", "1")];
    s3.send(form(&s3, &sneaked, "", "x"))
        .await
        .is(403, "AccessDenied");
    let status = [key, ("success_action_status", "201")];
    let allowed = ",{\"success_action_status\":\"201\"}";
    let created = s3.send(form(&s3, &status, allowed, "x")).await.ok();
    assert_eq!(created.element("Key").unwrap(), "up/f.txt");
    let mut forged = form(&s3, &[key], "", "x");
    *forged.uri_mut() = "/bucket2".parse().unwrap();
    s3.send(forged).await.is(403, "AccessDenied");
}

/// The answer of a form has the checksum of its object. A checksum that is announced must be there.
#[tokio::test]
async fn form_names_its_checksum() {
    let s3 = Endpoint::open().await;
    let (crc, algorithm) = ("x-amz-checksum-crc32", "x-amz-checksum-algorithm");
    // The CRC32 of `content`.
    let value = "/sUwqQ==";
    let send = |more: &[(&str, &str)]| {
        let condition = |(name, _): &(&str, &str)| format!(",[\"starts-with\",\"${name}\",\"\"]");
        let conditions: String = more.iter().map(condition).collect();
        let fields = [&[("key", "up/k")], more].concat();
        s3.send(form(&s3, &fields, &conditions, "content"))
    };
    for (more, code) in [
        (&[(algorithm, "CRC32")][..], "InvalidRequest"),
        (&[(algorithm, "FOO"), (crc, value)], "InvalidRequest"),
        (&[(algorithm, "SHA256"), (crc, value)], "InvalidRequest"),
    ] {
        send(more).await.is(400, code);
    }
    for more in [&[(crc, value)][..], &[(algorithm, "CRC32"), (crc, value)]] {
        let reply = send(more).await;
        assert_eq!(reply.status, 204, "{}", reply.text());
        assert_eq!(reply.header(crc), value);
        assert_eq!(reply.header("x-amz-checksum-type"), "FULL_OBJECT");
    }
}

/// Clients restore objects of archives before they read them.
#[tokio::test]
async fn archives_are_refused() {
    let s3 = Endpoint::open().await;
    for (class, status) in [("GLACIER", 400), ("DEEP_ARCHIVE", 400), ("GLACIER_IR", 200)] {
        let headers = [("x-amz-storage-class", class)];
        let reply = s3.call("PUT", "/bucket/k", &headers, "x").await;
        assert_eq!(reply.status, status, "{class}");
    }
}

/// A key and a bucket that a node has not heard of are asked for, also by a form.
#[tokio::test(start_paused = true)]
async fn form_may_be_signed_with_a_key_of_another_node() {
    let latency = std::time::Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, HOOKS).await.unwrap();
    let here = Model::open(world.nodes[0].clone()).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    world.isolate(0);
    let key = there.create_owner_key("tester").await.unwrap();
    there.create_bucket("bucket", Some(&key.id)).await.unwrap();
    world.network.end_all_cuts();
    assert!(here.access_key(&key.id).unwrap().is_none());
    assert!(here.bucket("bucket").unwrap().is_none());
    let s3 = Endpoint::to(here, key);
    let sent = form(&s3, &[("key", "up/k")], "", "content");
    s3.send(sent).await.ok();
    assert_eq!(s3.get("/bucket/up/k").await.text(), "content");
}

/// XML cannot hold all keys. No key is left out because of that: a page ends before one, or says
/// so.
#[tokio::test]
async fn no_page_ends_at_a_key_that_xml_cannot_hold() {
    let s3 = Endpoint::open().await;
    for key in ["a", "b\u{1}", "b+c", "c"] {
        s3.put(&format!("/bucket/{key}"), "x").await.ok();
    }
    for (listing, marker) in [
        ("delimiter=/", "marker"),
        ("versions=", "key-marker"),
        ("prefix=", "marker"),
    ] {
        let path = format!("/bucket?max-keys=2&{listing}");
        let first = s3.get(&path).await.ok();
        let keys = |answer: &Reply| answer.text().matches("<Key>").count();
        assert_eq!(keys(&first), 1, "{listing}");
        assert!(first.text().contains("<IsTruncated>true</IsTruncated>"));
        let second = s3.get(&format!("{path}&{marker}=a")).await.ok();
        assert_eq!(keys(&second), 2, "{listing}");
        let nothing_else = format!("/bucket?max-keys=1&{listing}&{marker}=a");
        s3.get(&nothing_else).await.is(400, "InvalidArgument");
        s3.get(&format!("{nothing_else}&encoding-type=url"))
            .await
            .ok();
    }
    s3.get("/bucket?max-keys=1&start-after=a&list-type=2")
        .await
        .ok();
    s3.call("POST", "/bucket/b\u{1}?uploads", &[], "")
        .await
        .ok();
    s3.call("POST", "/bucket/c?uploads", &[], "").await.ok();
    let uploads = s3.get("/bucket?uploads&max-uploads=1").await;
    uploads.is(400, "InvalidArgument");
    s3.call("POST", "/bucket/a?uploads", &[], "").await.ok();
    let uploads = s3.get("/bucket?uploads&max-uploads=2").await.ok();
    assert_eq!(uploads.text().matches("<Upload>").count(), 1);
    assert!(uploads.text().contains("<NextKeyMarker>a</NextKeyMarker>"));
    // One page is enough for all: what cannot be said is replaced.
    s3.get("/bucket?uploads").await.ok();
}
