//! Redirects and error documents.

use archipel_model::Website;
use archipel_model::website::{Pages, Redirect, RedirectAll, RoutingRule};

use super::{Site, pages};

/// The path of a folder must not become the host of a redirect.
#[tokio::test]
async fn folder_whose_name_looks_like_a_host_redirects_within_the_site() {
    let site = Site::open().await;
    site.put("site", "/evil.example/index.html", &[]).await;
    let reply = site.get("site.web.example//evil.example").await;
    let to = "//site.web.example//evil.example/";
    assert_eq!((reply.status, reply.header("location")), (302, to));
}

#[tokio::test]
async fn error_document_keeps_the_status() {
    let site = Site::open().await;
    let with_error = |key: &str| Pages {
        error: Some(key.into()),
        ..pages()
    };
    site.configure("site", Website::Pages(with_error("lost.html")))
        .await;
    let headers = [("range", "bytes=0-1"), ("if-none-match", "*")];
    let reply = site.send("GET", "site.web.example/none", &headers).await;
    assert_eq!((reply.status, reply.body.as_str()), (404, "lost.html"));
    assert_eq!(reply.header("content-type"), "text/html");
    assert_eq!(reply.header("etag"), "");
    let reply = site.send("HEAD", "site.web.example/none", &[]).await;
    assert_eq!((reply.status, reply.header("content-length")), (404, "9"));
    let reply = site.get("site.web.example/folder").await;
    assert_eq!(reply.status, 302);

    site.configure("site", Website::Pages(with_error("gone.html")))
        .await;
    let reply = site.get("site.web.example/none").await;
    assert_eq!(reply.status, 404);
    assert!(reply.body.contains("Retrieve a Custom Error Document"));
    assert!(reply.body.contains("gone.html"));

    let to = [("x-amz-website-redirect-location", "/home.html")];
    site.put("site", "lost.html", &to).await;
    site.configure("site", Website::Pages(with_error("lost.html")))
        .await;
    let reply = site.get("site.web.example/none").await;
    assert_eq!((reply.status, reply.header("location")), (301, to[0].1));
}

#[tokio::test]
async fn redirects_of_objects_rules_and_sites() {
    let site = Site::open().await;
    let to = [("x-amz-website-redirect-location", "https://example.org/new")];
    site.put("site", "moved", &to).await;
    let reply = site.get("site.web.example/moved").await;
    assert_eq!((reply.status, reply.header("location")), (301, to[0].1));
    assert_eq!(reply.body, "");

    let rule = |prefix: &str, error_status, redirect| RoutingRule {
        key_prefix: Some(prefix.into()),
        error_status,
        redirect,
    };
    let to_prefix = Redirect {
        key_prefix: Some("folder/".into()),
        ..Redirect::default()
    };
    let to_host = Redirect {
        host: Some("archive.example".into()),
        status: Some(302),
        ..Redirect::default()
    };
    let rules = vec![rule("old/", None, to_prefix), rule("", Some(404), to_host)];
    site.configure("site", Website::Pages(Pages { rules, ..pages() }))
        .await;
    for (path, status, location) in [
        ("old/x", 301, "/folder/x"),
        ("none/x", 302, "//archive.example/none/x"),
        ("folder", 302, "/folder/"),
        ("a.html", 200, ""),
    ] {
        let reply = site.get(&format!("site.web.example/{path}")).await;
        assert_eq!(
            (reply.status, reply.header("location")),
            (status, location),
            "{path}"
        );
    }

    let all = RedirectAll {
        host: "example.org".into(),
        protocol: Some("https".into()),
    };
    site.configure("site", Website::Redirect(all)).await;
    let reply = site.get("site.web.example/a%20b?c=d").await;
    let location = "https://example.org/a%20b?c=d";
    assert_eq!((reply.status, reply.header("location")), (301, location));
    assert_eq!(
        site.send("PUT", "site.web.example/a", &[]).await.status,
        405
    );
}
