//! A bucket's rules: versions, lock, quota, tags, lifecycle, policy, and the documents of S3 about it.

use archipel_api::admin::types::{
    BucketLifecycle, BucketLockInfo, BucketRule, BucketTags, BucketVersioning, EventTargetInfo,
    LockMode, PolicyDocument, VersioningState,
};
use askama::Template;
use axum::extract::{Path, State};
use http::StatusCode;

use crate::App;
use crate::backend::{path, query};
use crate::fault::Fault;
use crate::objects::store_of;
use crate::page::{Frame, Shown};
use crate::quota::QuotaView;
use crate::render::html;
use crate::request::User;
use crate::show;
use crate::tags;

mod change;
mod s3;
pub use change::change;
use s3::Documents;

#[derive(Template)]
#[template(path = "rules.html")]
struct RulesPage {
    frame: Frame,
    base: String,
    bucket: String,
    versioning: VersioningState,
    lock: BucketLockInfo,
    quota: QuotaView,
    tags: String,
    lifecycle: BucketLifecycle,
    /// The rules as text, to be edited as a whole.
    lifecycle_text: String,
    policy: Option<String>,
    targets: Vec<EventTargetInfo>,
    s3: Result<Documents, Fault>,
}

/// Shows the rules.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let admin = user.admin(&app);
    let at = |part: &str| path(&["v1", "buckets", &name, part]);
    let versioning: BucketVersioning = admin.get(&at("versioning")).await?;
    let tags: BucketTags = admin.get(&at("tags")).await?;
    let lifecycle: BucketLifecycle = admin.get(&at("lifecycle")).await?;
    let policy = match admin.get::<PolicyDocument>(&at("policy")).await {
        Ok(policy) => Some(policy.document),
        Err(fault) if fault.status == StatusCode::NOT_FOUND => None,
        Err(fault) => return Err(fault),
    };
    let documents = async {
        let (_, store) = store_of(&app, &user, &name, "").await?;
        s3::read(&store).await
    };
    Ok(html(&RulesPage {
        frame: Frame::new(&user, "buckets"),
        base: path(&["buckets", &name]),
        versioning: versioning.state,
        lock: admin.get(&at("lock")).await?,
        quota: QuotaView(admin.get(&at("quota")).await?),
        tags: tags::write(&tags.tags),
        lifecycle_text: serde_json::to_string_pretty(&lifecycle)
            .map_err(|error| Fault::internal(&error))?,
        lifecycle,
        policy,
        targets: targets(&app, &user).await?,
        s3: documents.await,
        bucket: name,
    }))
}

/// Returns the targets of events; none if the login may not list them.
async fn targets(app: &App, user: &User) -> Result<Vec<EventTargetInfo>, Fault> {
    match user.admin(app).list("/v1/event-targets").await {
        Err(fault) if fault.status == StatusCode::FORBIDDEN => Ok(Vec::new()),
        answer => answer,
    }
}

impl RulesPage {
    fn versions(&self) -> &'static str {
        match self.versioning {
            VersioningState::Never => "The bucket keeps no versions: what is overwritten is gone.",
            VersioningState::Enabled => "The bucket keeps what writes and deletions replace.",
            VersioningState::Suspended => {
                "The versions that are there stay. New ones are not kept."
            }
        }
    }

    fn keeps(&self) -> bool {
        self.versioning == VersioningState::Enabled
    }

    fn is_mode(&self, mode: &str) -> bool {
        matches!(
            (self.lock.mode, mode),
            (Some(LockMode::Governance), "governance") | (Some(LockMode::Compliance), "compliance")
        )
    }

    fn for_which(&self, rule: &BucketRule) -> String {
        let prefix = rule.prefix.as_deref().filter(|prefix| !prefix.is_empty());
        let mut all: Vec<String> = prefix.map(|p| format!("{p}…")).into_iter().collect();
        let tags = rule.tags.iter();
        all.extend(tags.map(|tag| format!("{}={}", tag.name, tag.value)));
        all.extend(rule.larger_than.map(|b| format!("> {}", show::bytes(b))));
        all.extend(rule.smaller_than.map(|b| format!("< {}", show::bytes(b))));
        match all.is_empty() {
            true => "all objects".into(),
            false => all.join(", "),
        }
    }

    fn effects(&self, rule: &BucketRule) -> String {
        let mut all = Vec::new();
        let days = |what: &str, days: u32| format!("{what} after {days} days");
        all.extend(rule.expire_days.map(|n| days("objects expire", n)));
        let at = rule.expire_at_ms;
        all.extend(at.map(|ms| format!("objects expire on {}", show::time(ms))));
        let keep = rule.noncurrent_keep;
        let keep = keep.map_or(String::new(), |n| format!(", the newest {n} stay"));
        let old = rule.noncurrent_days;
        all.extend(old.map(|n| days("old versions go", n) + &keep));
        let markers = rule.expire_markers.unwrap_or_default();
        all.extend(markers.then(|| "delete markers without versions go".into()));
        all.extend(rule.abort_days.map(|n| days("incomplete uploads go", n)));
        all.join("; ")
    }

    fn explain(&self) -> String {
        format!("/access{}", query(&[("resource", &self.bucket)]))
    }
}
