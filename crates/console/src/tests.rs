//! The pages, asked as a browser asks for them.

use std::sync::Arc;

use archipel_api::admin::types::{NodeInfo, NodeState, NodeStatus};
use archipel_api::admin::{Admin, Inside, Node};
use archipel_api::audit::Audit;
use archipel_api::s3::{S3, S3Config};
use archipel_api::serve::{Limits, Metrics};
use archipel_base::clock::SystemClock;
use archipel_base::random::SystemRandom;
use archipel_cluster::Cluster;
use archipel_model::{Model, NewToken, Permissions, TokenScope};
use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, StatusCode, header};
use prometheus_client::registry::Registry;

use crate::guard::POLICY;
use crate::{Console, ConsoleConfig, assets};

mod audit;
mod changes;
mod cluster;
mod history;
mod identities;
mod logins;
mod people;
mod permissions;
mod policy;
mod rules;
mod uploads;

const TOKEN: &str = "the-token-of-the-operator";
const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// A node that knows so many others.
struct FakeNode(usize);

impl Node for FakeNode {
    fn status(&self) -> BoxFuture<'_, NodeStatus> {
        let status = NodeStatus {
            version: HOSTILE.into(),
            troubles: vec![HOSTILE.into()],
            ..NodeStatus::default()
        };
        Box::pin(async { status })
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        let itself = NodeInfo {
            id: "a".repeat(64),
            short: "aaaaaaaa".into(),
            state: NodeState::Itself,
            zone: Some(HOSTILE.into()),
            ..NodeInfo::default()
        };
        // Ids that no node of a cluster in memory has.
        let others = (1000..1000 + self.0).map(|number| NodeInfo {
            id: format!("{number:064x}"),
            short: format!("{number:08x}"),
            state: NodeState::Alive,
            zone: Some(format!("zone{}", number % 10)),
            ..NodeInfo::default()
        });
        std::iter::once(itself).chain(others).collect()
    }

    fn join(&self, _: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Err("no".into()) })
    }
}

/// A console with a browser that is logged in, if it has a cookie.
struct Site {
    console: Console,
    model: Model,
    cookie: Option<String>,
    csrf: String,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Returns whether the answer sends the browser to the login.
    fn asks_for_login(&self) -> bool {
        self.status == StatusCode::SEE_OTHER && self.header("location") == "/login"
    }
}

async fn site() -> Site {
    site_with(0).await
}

async fn site_with(others: usize) -> Site {
    let model = Model::open(Cluster::in_memory(1, archipel_model::HOOKS).await.unwrap());
    let model = model.await.unwrap();
    let registry = Arc::new(Registry::default());
    let clock = Arc::new(SystemClock);
    let (audit, _) = Audit::new(0, clock.clone(), &mut Registry::default());
    let admin = Admin::new(
        model.clone(),
        Arc::new(FakeNode(others)),
        registry,
        Some(TOKEN),
        None,
    );
    let admin = admin.with_audit(audit.clone());
    let config = S3Config {
        region: "us-east-1".into(),
        audit,
        ..S3Config::default()
    };
    let metrics = Metrics::register(&mut Registry::default(), "s3");
    let s3 = S3::new(model.clone(), config, metrics, clock.clone(), &SystemRandom);
    let config = ConsoleConfig {
        limits: Limits::default(),
        port: 3905,
        s3_url: "http://s3.example:3900".into(),
        region: "us-east-1".into(),
    };
    let inside = Inside::new(Arc::new(admin));
    let metrics = Metrics::register(&mut Registry::default(), "console");
    let console = Console::new(inside, s3, config, clock, Arc::new(SystemRandom), metrics);
    Site {
        console,
        model,
        cookie: None,
        csrf: String::new(),
    }
}

impl Site {
    async fn send(&self, request: Request<Body>) -> Reply {
        let mut request = request;
        if let Some(cookie) = &self.cookie {
            let cookie = cookie.parse().unwrap();
            request.headers_mut().insert(header::COOKIE, cookie);
        }
        let answer = self.console.handle(request).await;
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Reply {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    /// Sends a form as another page would: without the session's secret.
    async fn post_bare(&self, path: &str, form: &str) -> Reply {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(form.to_owned()));
        self.send(request.unwrap()).await
    }

    async fn post(&self, path: &str, form: &str) -> Reply {
        self.post_bare(path, &format!("csrf={}&{form}", self.csrf))
            .await
    }

    /// Returns the mark of what a page shows in a form: the first one behind a text.
    async fn mark(&self, page: &str, behind: &str) -> String {
        let page = self.get(page).await.text;
        let rest = page.split_once(behind).map_or("", |(_, rest)| rest);
        let mark = rest.split_once("name=\"shown\" value=\"");
        let mark = mark.and_then(|(_, rest)| rest.split('"').next());
        mark.unwrap_or_default().to_owned()
    }

    async fn put(&self, path: &str, csrf: &str, body: &'static str) -> Reply {
        let request = Request::builder()
            .method(Method::PUT)
            .uri(path)
            .header("x-console-csrf", csrf)
            .header(header::CONTENT_LENGTH, body.len())
            .header(header::CONTENT_TYPE, "text/html")
            .body(Body::from(body));
        self.send(request.unwrap()).await
    }

    async fn log_in(mut self, token: &str) -> Site {
        let reply = self.post_bare("/login", &format!("token={token}")).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
        self.take_cookie(&reply);
        self
    }

    fn take_cookie(&mut self, reply: &Reply) {
        let cookie = reply.header("set-cookie").split(';').next().unwrap();
        self.cookie = Some(cookie.to_owned());
    }

    /// Reads the session's secret from a page.
    async fn with_secret(mut self) -> Site {
        let page = self.get("/cluster").await.text;
        let (_, rest) = page.split_once("data-csrf=\"").unwrap();
        self.csrf = rest.split('"').next().unwrap().to_owned();
        assert_eq!(self.csrf.len(), 64);
        self
    }

    /// Creates a token with one scope.
    async fn token(&self, resource: &str, write: bool) -> String {
        let new = NewToken {
            name: "test".into(),
            scopes: vec![TokenScope {
                resource: resource.into(),
                write,
                bucket: None,
            }],
            expires_ms: None,
        };
        let made = self.model.create_admin_token(new).await.unwrap();
        made.1.expose().to_owned()
    }

    /// Creates a bucket and a key that may do everything there.
    async fn bucket(&self, name: &str) {
        let key = self.model.create_owner_key("key").await.unwrap();
        self.model.create_bucket(name, Some(&key.id)).await.unwrap();
        let all = Permissions::ALL;
        self.model.set_grant(name, &key.id, all).await.unwrap();
    }
}

async fn logged_in() -> Site {
    site().await.log_in(TOKEN).await.with_secret().await
}

/// Every page that a GET shows.
const PAGES: [&str; 25] = [
    "/cluster",
    "/cluster/live",
    "/buckets",
    "/buckets/photos",
    "/buckets/photos/settings",
    "/buckets/photos/rules",
    "/buckets/photos/versions",
    "/buckets/photos/history?o=%3Cb%3E",
    "/buckets/photos/object?o=%3Cb%3E",
    "/keys",
    "/keys/AKTEST",
    "/users",
    "/users/anna",
    "/groups",
    "/groups/family",
    "/roles",
    "/policies",
    "/policies/AdministratorAccess",
    "/access",
    "/access?key=anonymous&action=s3%3AGetObject&resource=photos%2Fx",
    "/tokens",
    "/layout",
    "/layout/live",
    "/activity",
    "/audit",
];

#[tokio::test]
async fn every_answer_has_the_policy_and_no_script_inside() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let stored = site.put("/buckets/photos/upload?o=%3Cb%3E", &site.csrf, "x");
    assert_eq!(stored.await.status, StatusCode::NO_CONTENT);
    let imported = "name=%3Cb%3E&id=AKTEST&secret=0123456789012345678901234567890123456789";
    assert_eq!(site.post("/keys", imported).await.status, StatusCode::OK);
    let made = site.post("/users", "name=anna").await;
    assert_eq!(made.header("location"), "/users/anna", "{}", made.text);
    site.post("/groups", "name=family").await;
    let assets = ["console.js", "upload.js", "console.css"].map(assets::at);
    let others = ["/login", "/nothing"].into_iter();
    let others = others.chain(assets.iter().map(String::as_str));
    for path in PAGES.into_iter().chain(others) {
        let reply = site.get(path).await;
        assert_eq!(reply.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("referrer-policy"), "same-origin", "{path}");
        if path.starts_with("/assets/") {
            continue;
        }
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        for inside in ["<script>", " style=", "<style", "javascript:", " onclick="] {
            assert!(!reply.text.contains(inside), "{path}: {inside}");
        }
    }
    for path in PAGES {
        assert_eq!(site.get(path).await.status, StatusCode::OK, "{path}");
    }
}

/// A cache may hold the scripts of another release, and a page does not understand those.
#[tokio::test]
async fn page_names_the_scripts_of_its_own_release_and_gets_no_others() {
    let site = site().await;
    let page = site.get("/login").await.text;
    for name in ["console.js", "console.css", "icon.svg"] {
        assert!(page.contains(&format!("\"{}\"", assets::at(name))));
    }
    let script = site.get(&assets::at("console.js")).await;
    // It is in the same folder.
    assert!(script.text.contains("import \"./upload.js\""));
    // Charts show sizes as all pages do.
    let units = "[\"B\", \"KiB\", \"MiB\", \"GiB\", \"TiB\"]";
    assert!(script.text.contains(units));
    let upload = site.get(&assets::at("upload.js")).await;
    assert_eq!(upload.status, StatusCode::OK);
    for other in ["/assets/upload.js", "/assets/0123456789abcdef/upload.js"] {
        assert_eq!(site.get(other).await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn without_a_session_every_page_sends_to_the_login() {
    let site = site().await;
    for path in PAGES.iter().chain(&["/"]) {
        assert!(site.get(path).await.asks_for_login(), "{path}");
    }
    for path in ["/logout", "/buckets", "/buckets/photos/delete"] {
        assert!(site.post(path, "").await.asks_for_login(), "{path}");
    }
    let upload = site.put("/buckets/photos/upload?o=a", "", "x").await;
    assert!(upload.asks_for_login());
}

#[tokio::test]
async fn hostile_texts_are_escaped() {
    let site = logged_in().await;
    let page = site.get("/cluster").await.text;
    assert!(!page.contains(HOSTILE) && !page.contains("<script>alert"));
    assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    site.bucket("photos").await;
    let name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%26%2Fa%20%2B%25";
    let stored = site
        .put(&format!("/buckets/photos/upload?o={name}"), &site.csrf, "x")
        .await;
    assert_eq!(stored.status, StatusCode::NO_CONTENT, "{}", stored.text);
    let folder = "%3Cscript%3Ealert(1)%3C%2F";
    for path in [
        "/buckets/photos".to_owned(),
        format!("/buckets/photos?prefix={folder}"),
        format!("/buckets/photos/object?o={name}"),
        "/buckets/photos/versions".to_owned(),
        format!("/buckets/photos/history?o={name}"),
        "/buckets?prefix=%3Cscript%3Ealert(1)".to_owned(),
    ] {
        let page = site.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains("<script>alert"), "{path}");
        assert!(page.text.contains("&#60;script&#62;alert(1)"), "{path}");
    }
}
