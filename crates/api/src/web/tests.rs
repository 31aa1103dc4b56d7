//! Websites on a model in memory, and their round trips on simulated nodes.

use std::time::Duration;

use archipel_base::random::SeededRandom;
use archipel_cluster::{Cluster, World};
use archipel_model::website::Pages;
use archipel_model::{Condition, CorsRule, Model, ObjectMeta, Website};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::{Web, WebConfig};
use crate::serve::Metrics;

mod redirects;

struct Site {
    web: Web,
    model: Model,
}

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

fn pages() -> Pages {
    Pages {
        index: "index.html".into(),
        error: None,
        rules: Vec::new(),
    }
}

impl Site {
    /// `site` is a website with some pages; `plain` is a bucket without.
    async fn open() -> Site {
        let cluster = Cluster::in_memory(1, archipel_model::HOOKS).await.unwrap();
        Site::on(Model::open(cluster).await.unwrap()).await
    }

    async fn on(model: Model) -> Site {
        let config = WebConfig {
            root_domain: Some("web.example".into()),
            ..WebConfig::default()
        };
        let metrics = Metrics::register(&mut Registry::default(), "web");
        let web = Web::new(model.clone(), config, metrics, &SeededRandom::new(1));
        let site = Site { web, model };
        for bucket in ["site", "plain", "www.example.org"] {
            site.model.create_bucket(bucket, None).await.unwrap();
        }
        for key in ["index.html", "a.html", "folder/index.html", "lost.html"] {
            for bucket in ["site", "plain"] {
                site.put(bucket, key, &[("content-type", "text/html")])
                    .await;
            }
        }
        site.configure("site", Website::Pages(pages())).await;
        site
    }

    async fn configure(&self, bucket: &str, website: Website) {
        let bucket = self.model.bucket(bucket).unwrap().unwrap();
        let replace = move |_: Option<&Website>| Some(website.clone());
        let changed = self.model.set_website(&bucket, replace);
        changed.await.unwrap();
    }

    /// An object whose content is its key.
    async fn put(&self, bucket: &str, key: &str, headers: &[(&str, &str)]) {
        let bucket = self.model.bucket(bucket).unwrap().unwrap();
        let mut writer = self.model.begin_object(&bucket, key).unwrap();
        writer.write(Bytes::from(key.to_owned())).await.unwrap();
        let headers = headers.iter().map(|(n, v)| ((*n).into(), (*v).into()));
        let meta = ObjectMeta {
            etag: format!("tag-of-{key}"),
            headers: headers.collect(),
            ..ObjectMeta::default()
        };
        writer.finish(meta, Condition::Always).await.unwrap();
    }

    async fn send(&self, method: &str, url: &str, headers: &[(&str, &str)]) -> Reply {
        let (host, path) = url.split_once('/').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/{path}"))
            .header("host", host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.web.handle(request.body(()).unwrap()).await;
        let (parts, body) = answer.into_parts();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap(),
        }
    }

    async fn get(&self, url: &str) -> Reply {
        self.send("GET", url, &[]).await
    }
}

#[tokio::test]
async fn host_names_the_website() {
    let site = Site::open().await;
    let pages = Website::Pages(pages());
    site.configure("www.example.org", pages).await;
    site.put("www.example.org", "index.html", &[]).await;
    for url in [
        "site.web.example/",
        "SITE.web.example:3902/",
        "site.web.example./index.html",
        "www.example.org/",
        "www.example.org.web.example/",
    ] {
        let reply = site.get(url).await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (200, "index.html"),
            "{url}"
        );
    }
}

#[tokio::test]
async fn alias_of_a_bucket_is_a_host() {
    let site = Site::open().await;
    for alias in ["photos", "photos.example.com"] {
        site.model.add_alias("site", alias).await.unwrap();
    }
    for host in ["photos.web.example", "photos.example.com"] {
        assert_eq!(site.get(&format!("{host}/a.html")).await.body, "a.html");
    }
    site.model.remove_alias("site", "photos").await.unwrap();
    assert_eq!(site.get("photos.web.example/a.html").await.status, 404);
}

/// Nobody learns here which buckets exist.
#[tokio::test]
async fn bucket_without_website_and_no_bucket_look_alike() {
    let site = Site::open().await;
    let mut answers = Vec::new();
    for url in [
        "plain.web.example/a.html",
        "none.web.example/a.html",
        "127.0.0.1/a.html",
    ] {
        let reply = site.get(url).await;
        let without_id: Vec<&str> = reply
            .body
            .lines()
            .filter(|l| !l.contains("RequestId"))
            .collect();
        answers.push((reply.status, without_id.join("\n")));
    }
    assert_eq!(answers[0].0, 404);
    assert!(answers[0].1.contains("NoSuchWebsiteConfiguration"));
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[tokio::test]
async fn pages_folders_and_missing_pages() {
    let site = Site::open().await;
    for (path, status, content) in [
        ("", 200, "index.html"),
        ("a.html", 200, "a.html"),
        (
            "a.html?query=ignored&response-content-type=x",
            200,
            "a.html",
        ),
        ("folder/", 200, "folder/index.html"),
        ("%66older/", 200, "folder/index.html"),
    ] {
        let reply = site.get(&format!("site.web.example/{path}")).await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (status, content),
            "{path}"
        );
        assert_eq!(reply.header("content-type"), "text/html");
        assert!(reply.header("etag").starts_with("\"tag-of-"));
    }
    let reply = site.get("site.web.example/folder").await;
    assert_eq!((reply.status, reply.header("location")), (302, "/folder/"));
    for path in ["none", "none/", "a.html/", "folder/none"] {
        let reply = site.get(&format!("site.web.example/{path}")).await;
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.header("x-amz-error-code"), "NoSuchKey");
        assert!(reply.header("x-amz-error-detail-key").starts_with(path));
        assert!(
            reply.body.contains("<h1>404 Not Found</h1>"),
            "{}",
            reply.body
        );
    }
    let reply = site.get("site.web.example/%3Cscript%3E").await;
    assert!(!reply.body.contains("<script>"), "{}", reply.body);
    let long = format!("site.web.example/{}", "x".repeat(1025));
    assert_eq!(site.get(&long).await.status, 400);
    assert_eq!(site.get("site.web.example/%ff").await.status, 400);
}

#[tokio::test]
async fn only_reading_methods() {
    let site = Site::open().await;
    for method in ["PUT", "POST", "DELETE", "PATCH"] {
        let reply = site.send(method, "site.web.example/a.html", &[]).await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, "GET, HEAD, OPTIONS")
        );
    }
    assert_eq!(site.get("site.web.example/a.html").await.body, "a.html");
    let reply = site.send("HEAD", "site.web.example/a.html", &[]).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    assert_eq!(reply.header("content-length"), "6");
    let reply = site.send("HEAD", "site.web.example/none", &[]).await;
    assert_eq!((reply.status, reply.body.as_str()), (404, ""));
}

#[tokio::test]
async fn conditions_and_ranges() {
    let site = Site::open().await;
    let url = "site.web.example/a.html";
    let tag = "\"tag-of-a.html\"";
    for (headers, status, body) in [
        (("if-none-match", tag), 304, ""),
        (("if-none-match", "\"other\""), 200, "a.html"),
        (
            ("if-modified-since", "Fri, 31 Dec 2100 00:00:00 GMT"),
            304,
            "",
        ),
        (("range", "bytes=2-3"), 206, "ht"),
    ] {
        let reply = site.send("GET", url, &[headers]).await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (status, body),
            "{headers:?}"
        );
    }
    let reply = site.send("GET", url, &[("range", "bytes=99-")]).await;
    assert_eq!(
        (reply.status, reply.header("x-amz-error-code")),
        (416, "InvalidRange")
    );
    let reply = site.send("GET", url, &[("if-match", "\"other\"")]).await;
    assert_eq!(reply.status, 412);
}

#[tokio::test]
async fn cross_origin_requests() {
    let site = Site::open().await;
    let rule = CorsRule {
        allowed_origins: vec!["https://app.example".into()],
        allowed_methods: vec!["GET".into()],
        ..CorsRule::default()
    };
    let bucket = site.model.bucket("site").unwrap().unwrap();
    site.model.set_cors(&bucket, vec![rule]).await.unwrap();
    let origin = ("origin", "https://app.example");
    let allowed = "access-control-allow-origin";
    for (path, status) in [("a.html", 200), ("none", 404)] {
        let reply = site
            .send("GET", &format!("site.web.example/{path}"), &[origin])
            .await;
        assert_eq!((reply.status, reply.header(allowed)), (status, origin.1));
    }
    let asked = [origin, ("access-control-request-method", "GET")];
    let reply = site
        .send("OPTIONS", "site.web.example/a.html", &asked)
        .await;
    assert_eq!((reply.status, reply.header(allowed)), (200, origin.1));
    let asked = [origin, ("access-control-request-method", "PUT")];
    let reply = site
        .send("OPTIONS", "site.web.example/a.html", &asked)
        .await;
    assert_eq!(reply.status, 403);
    assert_eq!(
        site.send("OPTIONS", "site.web.example/", &[]).await.status,
        400
    );
}

#[tokio::test]
async fn proxies_ask_which_domains_are_websites() {
    let site = Site::open().await;
    for (url, status) in [
        ("127.0.0.1:3902/check?domain=site.web.example", 200),
        ("archipel/check?domain=site.web.example", 200),
        ("127.0.0.1/check?domain=plain.web.example", 404),
        ("127.0.0.1/check?domain=none.example", 404),
        ("127.0.0.1/check", 404),
        // A website has its own pages.
        ("site.web.example/check?domain=site.web.example", 404),
    ] {
        assert_eq!(site.get(url).await.status, status, "{url}");
    }
    let reply = site
        .send("POST", "127.0.0.1/check?domain=site.web.example", &[])
        .await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED.as_u16());
}

/// The wait of a visitor, in round trips between nodes.
#[tokio::test(start_paused = true)]
async fn page_takes_one_round_trip_and_an_error_page_two() {
    const LATENCY: Duration = Duration::from_millis(50);
    let world = World::new(5, 3, LATENCY, 1, archipel_model::HOOKS)
        .await
        .unwrap();
    let site = Site::on(Model::open(world.nodes[0].clone()).await.unwrap()).await;
    let lost = Pages {
        error: Some("lost.html".into()),
        ..pages()
    };
    site.configure("site", Website::Pages(lost)).await;
    for (path, status, rounds) in [
        ("", 200, 1.0),
        ("a.html", 200, 1.0),
        ("folder/", 200, 1.0),
        ("folder", 302, 2.0),
        ("none", 404, 2.0),
        ("none/", 404, 2.0),
    ] {
        for method in ["GET", "HEAD"] {
            let begun = Instant::now();
            let reply = site
                .send(method, &format!("site.web.example/{path}"), &[])
                .await;
            let took = begun.elapsed().as_secs_f64() / (2.0 * LATENCY.as_secs_f64());
            let took = (took * 1000.0).round() / 1000.0;
            assert_eq!((reply.status, took), (status, rounds), "{method} {path}");
        }
    }
    let begun = Instant::now();
    site.get("unknown.example/").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
