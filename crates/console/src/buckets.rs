//! The list of buckets, and creation and deletion of buckets.

use archipel_api::admin::types::{BucketInfo, BucketSummary, CreateBucket, KeyInfo, Page};
use askama::Template;
use axum::extract::{Path, Query, State};
use http::Method;
use serde::Deserialize;

use crate::App;
use crate::backend::{path, query};
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

/// The most keys that a form offers: others can be typed.
const OFFERED_KEYS: usize = 200;

/// The filter of the list, and the place of the page in it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Filter {
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
pub async fn list(State(app): State<App>, user: User, Query(filter): Query<Filter>) -> Shown {
    let admin = user.admin(&app);
    let filters = [("prefix", filter.prefix.as_str())];
    let page = admin.page("/buckets", &filters, &filter.after).await?;
    Ok(html(&BucketsPage {
        frame: Frame::new(&user, "buckets"),
        prefix: filter.prefix,
        is_first: page.is_first,
        buckets: page.items,
        next: page.next,
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
pub async fn create(State(app): State<App>, posted: Posted) -> Shown {
    let ask = CreateBucket {
        name: posted.fields.get("name").to_owned(),
        owner: posted.fields.some("owner"),
    };
    let admin = posted.user.admin(&app);
    let made: BucketInfo = admin.send(Method::POST, "/v1/buckets", &ask).await?;
    Ok(see(&path(&["buckets", &made.name])))
}

/// Deletes an empty bucket.
pub async fn delete(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let bucket = path(&["v1", "buckets", &name]);
    posted.user.admin(&app).delete(&bucket).await?;
    Ok(see("/buckets"))
}
