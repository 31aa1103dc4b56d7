//! The reason why a request is allowed or denied.

use std::collections::BTreeMap;

use archipel_api::admin::types::{Explain, Explanation, KeyInfo};
use askama::Template;
use axum::extract::{Query, State};
use http::{Method, StatusCode};
use serde::Deserialize;

use crate::App;
use crate::buckets::offered_keys;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::html;
use crate::request::User;
use crate::tags;

/// Actions that the form offers. Others can be typed.
const ACTIONS: [&str; 10] = [
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:GetObjectVersion",
    "s3:DeleteObjectVersion",
    "s3:ListBucketVersions",
    "s3:PutBucketPolicy",
    "s3:PutObjectRetention",
    "s3:BypassGovernanceRetention",
];

/// An access check: may this key do this to that?
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct AccessCheck {
    key: String,
    action: String,
    resource: String,
    /// The resource with escapes, if its form had it so.
    escaped: String,
    /// Condition keys of the request: lines such as `aws:SourceIp=192.0.2.1`.
    context: String,
}

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage {
    frame: Frame,
    check: AccessCheck,
    keys: Vec<KeyInfo>,
    answer: Option<Result<Explanation, Fault>>,
}

impl AccessPage {
    fn actions(&self) -> [&'static str; 10] {
        ACTIONS
    }

    /// Returns the resource with escapes if a field cannot hold it: browsers drop the ends of lines.
    fn escaped(&self) -> Option<String> {
        let resource = &self.check.resource;
        let has_controls = resource.contains(char::is_control);
        has_controls.then(|| tags::encode(resource, false))
    }
}

/// Shows the form, and the answer once there is something to check. Nothing changes, so that a link to an answer
/// can be kept.
pub async fn show(
    State(app): State<App>,
    user: User,
    Query(mut check): Query<AccessCheck>,
) -> Shown {
    if !check.escaped.is_empty() {
        let wrong = || {
            Fault::invalid("the escapes of the resource are wrong: write %25 for a percent sign")
        };
        check.resource = tags::decode(&check.escaped).ok_or_else(wrong)?;
    }
    let needed = [&check.key, &check.action, &check.resource];
    let answer = match needed.iter().all(|part| !part.trim().is_empty()) {
        true => match ask(&app, &user, &check).await {
            Err(fault) if fault.status == StatusCode::UNAUTHORIZED => return Err(fault),
            answer => Some(answer),
        },
        false => None,
    };
    Ok(html(&AccessPage {
        frame: Frame::new(&user, "users"),
        keys: offered_keys(&app, &user).await,
        check,
        answer,
    }))
}

async fn ask(app: &App, user: &User, check: &AccessCheck) -> Result<Explanation, Fault> {
    let ask = Explain {
        key: check.key.trim().to_owned(),
        action: check.action.trim().to_owned(),
        resource: check.resource.trim_start().to_owned(),
        context: context(&check.context)?,
    };
    let admin = user.admin(app);
    admin.send(Method::POST, "/v1/access/explain", &ask).await
}

fn context(text: &str) -> Result<BTreeMap<String, String>, Fault> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let pair = line.split_once('=');
        let pair = pair.map(|(name, value)| (name.trim().into(), value.trim().into()));
        pair.ok_or_else(|| Fault::invalid(format!("{line:?}: write NAME=VALUE")))
    };
    lines.map(pair).collect()
}
