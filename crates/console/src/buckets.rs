//! The list of buckets, and creation and deletion of buckets.

use archipel_api::admin::types::{BucketInfo, BucketSummary, CreateBucket, KeyInfo, Page};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use http::{Method, Response};
use serde::Deserialize;

use crate::App;
use crate::backend::{path, query};
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

/// Buckets on a page.
const PAGE_ITEMS: &str = "50";

/// The most keys that a form offers: others can be typed.
const OFFERED_KEYS: usize = 200;

/// Which buckets to show.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Which {
    prefix: String,
    after: String,
}

#[derive(Template)]
#[template(path = "buckets.html")]
struct BucketsPage {
    frame: Frame,
    prefix: String,
    is_first: bool,
    buckets: Vec<BucketSummary>,
    next: Option<String>,
    keys: Vec<KeyInfo>,
}

impl BucketsPage {
    fn link(&self, bucket: &BucketSummary) -> String {
        path(&["buckets", &bucket.name])
    }

    fn created(&self, bucket: &BucketSummary) -> String {
        show::time(bucket.created_ms)
    }

    fn first(&self) -> String {
        format!("/buckets{}", query(&[("prefix", &self.prefix)]))
    }
}

/// Shows a page of the list.
pub async fn list(State(app): State<App>, user: User, Query(which): Query<Which>) -> Shown {
    let admin = user.admin(&app);
    let ask = query(&[
        ("limit", PAGE_ITEMS),
        ("prefix", &which.prefix),
        ("after", &which.after),
    ]);
    let buckets = format!("/v1/buckets{ask}");
    let page: Page<BucketSummary> = admin.get(&buckets).await?;
    let next = page.next.map(|next| {
        let query = query(&[("prefix", &which.prefix), ("after", &next)]);
        format!("/buckets{query}")
    });
    Ok(html(&BucketsPage {
        frame: Frame::new(&user, "buckets"),
        prefix: which.prefix,
        is_first: which.after.is_empty(),
        buckets: page.items,
        next,
        keys: offered_keys(&app, &user).await,
    }))
}

/// Returns the keys that forms offer; none if the login may not list them.
pub async fn offered_keys(app: &App, user: &User) -> Vec<KeyInfo> {
    let ask = format!("/v1/keys?limit={OFFERED_KEYS}");
    let keys = user.admin(app).get::<Page<KeyInfo>>(&ask).await;
    keys.map(|page| page.items).unwrap_or_default()
}

/// Creates a bucket.
pub async fn create(State(app): State<App>, posted: Posted) -> Result<Response<Body>, Fault> {
    let ask = CreateBucket {
        name: posted.fields.get("name").to_owned(),
        owner: posted.fields.some("owner"),
    };
    let admin = posted.user.admin(&app);
    let made: BucketInfo = admin.send(Method::POST, "/v1/buckets", &ask).await?;
    Ok(see(&path(&["buckets", &made.name])))
}

/// Deletes an empty bucket.
pub async fn delete(
    State(app): State<App>,
    Path(name): Path<String>,
    posted: Posted,
) -> Result<Response<Body>, Fault> {
    let bucket = path(&["v1", "buckets", &name]);
    posted.user.admin(&app).delete(&bucket).await?;
    Ok(see("/buckets"))
}
