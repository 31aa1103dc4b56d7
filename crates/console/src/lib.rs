//! The web console: pages for people who would rather look than type.
//!
//! The console has no rights of its own. It asks the admin API with the token of the user who logged in,
//! and S3 with an access key whose secret that token may read. Both check and audit each request as
//! if it came from outside.
//!
//! # Invariants
//! - Nothing that a page shows is a script or a style: the policy of every answer forbids both
//!   inside of pages, and templates escape names and texts.
//! - Every change carries the secret of its session, which no other site knows.
//! - Contents of objects never show as pages of the console.
//! - Sessions are bounded in number and time. They live in memory, and a cookie tells nothing.
//!
//! | module | what it holds |
//! |---|---|
//! | `session` | the logins of users |
//! | `guard` | cookies, proofs against forged requests, headers of all answers |
//! | `request` | the parts of a request that handlers take |
//! | `backend`, `lists` | requests to the admin API inside the process; its lists, in pages |
//! | `fault` | errors as pages |
//! | `show` | numbers and times for people |
//! | `page`, `render` | the frame around pages; templates as answers |
//! | `assets` | style and script |
//! | `parts`, `preview` | uploads of large files; images and texts that run nothing |
//! | `store`, `presign` | requests to S3 inside the process, and links for others |
//! | `login` | login and logout |
//! | `cluster`, `layout`, `activity`, `audit` | pages about the nodes |
//! | `buckets`, `settings`, `rules`, `objects`, `history` | pages about buckets and objects |
//! | `folders` | keys as names in folders |
//! | `keys`, `users`, `groups`, `roles`, `policies`, `access`, `tokens` | pages about access keys, users and their rights |
//! | `held` | the policies of users, groups and roles; forms with the text of one |
//! | `quota`, `tags` | quotas of buckets and users, tags of buckets and objects, as forms |

use std::sync::Arc;

use archipel_api::admin::Inside;
use archipel_api::s3::S3;
use archipel_api::serve::{self, Answering, BoxError, Limits, Metrics, Service};
use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use axum::Router;
use axum::body::Body;
use axum::middleware;
use axum::routing::{get, post, put};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;
use tower::ServiceExt;

mod access;
mod activity;
mod assets;
mod audit;
mod backend;
mod buckets;
mod cluster;
mod fault;
mod folders;
mod groups;
mod guard;
mod held;
mod history;
mod keys;
mod layout;
mod lists;
mod login;
mod objects;
mod page;
mod parts;
mod policies;
mod presign;
mod preview;
mod quota;
mod render;
mod request;
mod roles;
mod rules;
mod session;
mod settings;
mod show;
mod store;
mod tags;
#[cfg(test)]
mod tests;
mod tokens;
mod users;

/// The name of all requests in metrics and traces.
const OPERATION: &str = "Page";

/// Settings of the console.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    /// Limits on clients.
    pub limits: Limits,
    /// The port that the console listens on: browsers keep the cookies of all ports of a host
    /// together.
    pub port: u16,
    /// The address of S3 in links for others: scheme and authority.
    pub s3_url: String,
    /// The region that requests are signed for.
    pub region: String,
}

/// The state that all pages share.
pub(crate) struct Shared {
    admin: Inside,
    s3: S3,
    config: ConsoleConfig,
    sessions: session::Sessions,
    clock: Arc<dyn WallClock>,
}

pub(crate) type App = Arc<Shared>;

/// The console as a service. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    router: Router,
    limits: Limits,
    metrics: Metrics,
}

impl Console {
    /// Makes the console of a node. Requests of its pages count as requests to S3, too.
    pub fn new(
        admin: Inside,
        s3: S3,
        config: ConsoleConfig,
        clock: Arc<dyn WallClock>,
        random: Arc<dyn Random>,
        metrics: Metrics,
    ) -> Console {
        let limits = config.limits;
        let app = Arc::new(Shared {
            admin,
            s3,
            config,
            sessions: session::Sessions::new(random),
            clock,
        });
        Console {
            router: routes(app),
            limits,
            metrics,
        }
    }

    /// Answers a request.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let answered = self.router.clone().oneshot(request).await;
        answered.unwrap_or_else(|never| match never {})
    }
}

impl Service for Console {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(self.answer_counted(request))
    }
}

impl Console {
    async fn answer_counted(&self, request: Request<Incoming>) -> Response<serve::Body> {
        let (started, under_way) = (Instant::now(), self.metrics.enter());
        let answer = self.handle(request.map(Body::new)).await;
        let status = answer.status().as_u16();
        // Last: requests of a page to S3 in this process describe the same span.
        archipel_traces::describe(|record| {
            record.rename(OPERATION);
            record.set("archipel.operation", OPERATION);
            record.set("archipel.endpoint", "console");
        });
        self.metrics
            .answered(OPERATION, status, started.elapsed(), 0);
        let sent = self.metrics.concerned(None, None, status, 0);
        let answer = answer.map(|body| body.map_err(BoxError::from).boxed_unsync());
        answer.map(|body| {
            let counted = body.map_frame(move |frame| {
                let _until_the_end = &under_way;
                let bytes = frame.data_ref().map_or(0, |data| data.len());
                sent.bytes(bytes as u64);
                frame
            });
            counted.boxed_unsync()
        })
    }
}

fn routes(app: App) -> Router {
    Router::new()
        .merge(about_buckets())
        .merge(about_identities())
        .route("/", get(cluster::home))
        .route("/login", get(login::show).post(login::enter))
        .route("/login/link", post(login::follow_link))
        .route("/logout", post(login::leave))
        .route("/cluster", get(cluster::show).post(cluster::change))
        .route("/cluster/live", get(cluster::live))
        .route("/layout", get(layout::show).post(layout::change))
        .route("/layout/live", get(layout::live))
        .route("/activity", get(activity::show).post(activity::change))
        .route("/activity/data", get(activity::data))
        .route("/audit", get(audit::show))
        .route(&assets::at("console.css"), get(assets::style))
        .route(&assets::at("icon.svg"), get(assets::icon))
        .route(&assets::at("console.js"), get(assets::script))
        .route(&assets::at("upload.js"), get(assets::upload_script))
        .fallback(fault::nothing_here)
        .layer(request::form_limit())
        .layer(middleware::from_fn(guard::protect))
        .with_state(app)
}

/// Returns the routes to buckets, their settings and objects.
fn about_buckets() -> Router<App> {
    Router::new()
        .route("/buckets", get(buckets::list).post(buckets::create))
        .route("/buckets/{name}", get(objects::list))
        .route("/buckets/{name}/object", get(objects::show))
        .route("/buckets/{name}/download", get(objects::download))
        .route("/buckets/{name}/versions", get(history::list))
        .route(
            "/buckets/{name}/history",
            get(history::show).post(history::change),
        )
        .route("/buckets/{name}/upload", put(objects::upload))
        .route(
            "/buckets/{name}/parts",
            get(parts::list)
                .post(parts::begin)
                .put(parts::put)
                .delete(parts::abort),
        )
        .route("/buckets/{name}/parts/complete", post(parts::complete))
        .route("/buckets/{name}/preview", get(preview::show))
        .route("/buckets/{name}/share", post(objects::share))
        .route("/buckets/{name}/tags", post(tags::change))
        .route(
            "/buckets/{name}/delete",
            post(objects::delete).layer(request::keys_form_limit()),
        )
        .route(
            "/buckets/{name}/settings",
            get(settings::show).post(settings::change),
        )
        .route(
            "/buckets/{name}/rules",
            get(rules::show)
                .post(rules::change)
                .layer(request::rules_form_limit()),
        )
        .route("/buckets/{name}/delete-bucket", post(buckets::delete))
}

/// Returns the routes to access keys, users, their rights, and tokens.
fn about_identities() -> Router<App> {
    Router::new()
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}", get(keys::show).post(keys::change))
        .route("/users", get(users::list).post(users::create))
        .route("/users/{name}", get(users::show).post(users::change))
        .route("/groups", get(groups::list).post(groups::create))
        .route("/groups/{name}", get(groups::show).post(groups::change))
        .route("/roles", get(roles::list).post(roles::create))
        .route("/roles/{name}", get(roles::show).post(roles::change))
        .route("/policies", get(policies::list).post(policies::create))
        .route(
            "/policies/{name}",
            get(policies::show).post(policies::change),
        )
        .route("/inline/{kind}/{name}", post(held::add_inline))
        .route(
            "/inline/{kind}/{name}/{policy}",
            get(held::show_inline).post(held::change_inline),
        )
        .route("/access", get(access::show))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{id}/revoke", post(tokens::revoke))
}
