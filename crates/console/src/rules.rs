//! A bucket's rules: versions, lock, quota, tags, lifecycle, policy, encryption, the public, CORS, events.

use archipel_api::admin::types::{
    BucketEncryption, BucketLockInfo, BucketOwnership, BucketRule, BucketTags, BucketVersioning,
    CorsRule, EventTargetInfo, LockMode, NotificationRule, ObjectOwnership, PolicyDocument,
    PublicAccess, VersioningState,
};
use askama::Template;
use axum::extract::{Path, State};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::App;
use crate::backend::{Backend, Seen, encode, path, query};
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::quota::QuotaView;
use crate::render::html;
use crate::request::{User, mark};
use crate::show;
use crate::tags;

mod change;
pub use change::change;

/// Rules of one kind, as the admin API has them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules<R> {
    rules: Vec<R>,
}

impl<R: Serialize> Rules<R> {
    /// Returns the rules as text, to be edited as a whole; an empty text if there are none.
    fn text(&self) -> Result<String, Fault> {
        if self.rules.is_empty() {
            return Ok(String::new());
        }
        serde_json::to_string_pretty(self).map_err(|error| Fault::internal(&error))
    }
}

impl<R: DeserializeOwned> Rules<R> {
    /// Reads the text that became of them.
    fn read(text: &str) -> Result<Rules<R>, Fault> {
        if text.is_empty() {
            return Ok(Rules { rules: Vec::new() });
        }
        serde_json::from_str(text).map_err(|error| Fault::invalid(error.to_string()))
    }
}

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
    lifecycle: Rules<BucketRule>,
    /// The rules as text.
    lifecycle_text: String,
    /// Empty if there is none.
    policy: String,
    encryption: BucketEncryption,
    public: PublicAccess,
    ownership: ObjectOwnership,
    /// The rules as text.
    cors: String,
    /// The rules of events as text.
    events: String,
    targets: Vec<EventTargetInfo>,
}

/// Shows the rules.
pub async fn show(State(app): State<App>, user: User, Path(name): Path<String>) -> Shown {
    let admin = user.admin(&app);
    let at = |part: &str| path(&["v1", "buckets", &name, part]);
    let versioning: BucketVersioning = admin.get(&at("versioning")).await?;
    let tags: BucketTags = admin.get(&at("tags")).await?;
    let lifecycle: Rules<BucketRule> = admin.get(&at("lifecycle")).await?;
    let (policy, _) = policy_of(&admin, &at("policy")).await?;
    let ownership: BucketOwnership = admin.get(&at("ownership")).await?;
    let cors: Rules<CorsRule> = admin.get(&at("cors")).await?;
    let events: Rules<NotificationRule> = admin.get(&at("notifications")).await?;
    Ok(html(&RulesPage {
        frame: Frame::new(&user, "buckets"),
        base: path(&["buckets", &name]),
        versioning: versioning.state,
        lock: admin.get(&at("lock")).await?,
        quota: QuotaView(admin.get(&at("quota")).await?),
        tags: tags::write(&tags.tags),
        lifecycle_text: lifecycle.text()?,
        lifecycle,
        policy,
        encryption: admin.get(&at("encryption")).await?,
        public: admin.get(&at("public-access")).await?,
        ownership: ownership.ownership,
        cors: cors.text()?,
        events: events.text()?,
        targets: targets(&app, &user).await?,
        bucket: name,
    }))
}

/// Returns the policy of a bucket; an empty text if there is none.
async fn policy_of(admin: &Backend<'_>, at: &str) -> Result<(String, Seen), Fault> {
    match admin.get_seen::<PolicyDocument>(at).await {
        Ok((policy, seen)) => Ok((policy.document, seen)),
        Err(fault) if fault.code == "NoSuchBucketPolicy" => Ok(Default::default()),
        Err(fault) => Err(fault),
    }
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

    /// Returns the mark of a text that a form shows.
    fn mark(&self, text: &str) -> String {
        mark(text)
    }

    /// Returns the name of a rule as forms carry it.
    fn field(&self, name: &str) -> String {
        encode(name)
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

    fn belongs(&self, to: &str) -> bool {
        matches!(
            (self.ownership, to),
            (ObjectOwnership::BucketOwnerEnforced, "BucketOwnerEnforced")
                | (
                    ObjectOwnership::BucketOwnerPreferred,
                    "BucketOwnerPreferred"
                )
                | (ObjectOwnership::ObjectWriter, "ObjectWriter")
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
