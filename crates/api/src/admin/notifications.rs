//! The event notifications of buckets. The rules of the S3 API apply: what is asked for is read
//! back from its document.

use std::sync::Arc;

use archipel_model::{Error, Notification, NotificationKind};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, NoContent, Query, Read, ReadRules, Refusal};
use super::buckets::find;
use super::precondition::{Precondition, Tag, Tagged};
use super::settings::{refused, same};
use super::types::{BucketNotifications, NotificationRule, NotificationStyle};
use crate::s3::notification;

/// Shows the event notifications of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/notifications", tag = "buckets",
    operation_id = "get_bucket_notifications",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The rules", body = BucketNotifications)),
)]
pub(super) async fn show(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<BucketNotifications>, Refusal> {
    let bucket = find(&admin, &name).await?;
    Ok(tagged(bucket.notification.as_ref()))
}

/// The query of a change of notifications.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SetNotifications {
    /// True to send no test message to the targets.
    #[serde(default)]
    #[param(required = false)]
    skip_test: bool,
}

/// Replaces the event notifications of a bucket. Each target must first take a test message. The rules
/// count for every write that begins after the answer.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/notifications", tag = "buckets",
    operation_id = "set_bucket_notifications",
    params(("name" = String, Path, description = "The bucket"), SetNotifications, Precondition),
    request_body = BucketNotifications,
    responses((status = 200, description = "The rules", body = BucketNotifications)),
)]
pub(super) async fn set(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<SetNotifications>,
    condition: Precondition,
    Read(set): ReadRules<BucketNotifications>,
) -> Result<Tagged<BucketNotifications>, Refusal> {
    let model = &admin.model;
    if set.rules.is_empty() {
        return Err(Refusal::invalid("rules: give at least one, or delete them"));
    }
    if set.rules.iter().any(|rule| rule.events.is_empty()) {
        return Err(Refusal::invalid("each rule needs at least one of events"));
    }
    let rules = set.rules.into_iter().map(|rule| asked(&admin, rule));
    let asked = Notification {
        rules: rules.collect::<Result<_, _>>()?,
    };
    let document = notification::document(Some(&asked)).finish();
    let known = |name: &str| model.event_target(name);
    let new_id = || model.cluster().random_id().to_string();
    let checked = notification::parse(&document, known, new_id);
    let checked = checked.map_err(|error| refused(&error))?;
    let read = checked.iter().flat_map(|all| &all.rules);
    for (asked, read) in asked.rules.iter().zip(read) {
        same(
            &(&asked.prefix, &asked.suffix),
            &(&read.prefix, &read.suffix),
        )?;
        if !asked.id.is_empty() {
            same(&asked.id, &read.id)?;
        }
    }
    let bucket = find(&admin, &name).await?;
    let test = test(&condition);
    if let Some(rules) = checked.as_ref().filter(|_| !how.skip_test) {
        // A change that is to be refused sends nothing. The cache may not know what the client saw.
        if condition.is_given() {
            let now = model.read_bucket(&bucket).await?;
            if !test(now.notification.as_ref()) {
                return Err(condition.refusal(Error::PreconditionFailed));
            }
        }
        let told = model.test_event_targets(&bucket.name, rules).await;
        told.map_err(|(arn, why)| {
            let message = format!(
                "{arn} does not take the test message: {why}; repair the target, or set skip_test"
            );
            Refusal::new(StatusCode::CONFLICT, "EventTargetFails", message)
        })?;
    }
    let changed = model.set_notification_if(&bucket, checked, test).await;
    let changed = changed.map_err(|error| condition.refusal(error))?;
    Ok(tagged(changed.notification.as_ref()))
}

/// Deletes the event notifications of a bucket. Events that wait are still delivered.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/notifications", tag = "buckets",
    operation_id = "delete_bucket_notifications",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    responses((status = 204, description = "The bucket has no rules")),
)]
pub(super) async fn delete(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    let test = test(&condition);
    let removed = admin.model.set_notification_if(&bucket, None, test).await;
    removed.map_err(|error| condition.refusal(error))?;
    Ok(NoContent)
}

/// Returns the test of the rules so far. A change of them outlives its request, and so does the test.
fn test(condition: &Precondition) -> impl Fn(Option<&Notification>) -> bool + Send + Sync + use<> {
    let condition = condition.clone();
    move |now: Option<&Notification>| condition.admits(now.map(Tag::of))
}

fn asked(
    admin: &Admin,
    rule: NotificationRule,
) -> Result<archipel_model::NotificationRule, Refusal> {
    let target = admin.model.event_target(&rule.target).ok_or_else(|| {
        let name = &rule.target;
        Refusal::invalid(format!(
            "target: this node declares no target {name:?}; GET /v1/event-targets lists them"
        ))
    })?;
    if rule.events.is_empty() {
        return Err(Refusal::invalid("events: give at least one"));
    }
    Ok(archipel_model::NotificationRule {
        id: rule.id,
        kind: match rule.style {
            NotificationStyle::Topic => NotificationKind::Topic,
            NotificationStyle::Queue => NotificationKind::Queue,
            NotificationStyle::Function => NotificationKind::Function,
        },
        arn: notification::arn(&target),
        target: target.name,
        events: rule.events,
        prefix: rule.prefix,
        suffix: rule.suffix,
    })
}

fn tagged(notification: Option<&Notification>) -> Tagged<BucketNotifications> {
    let rules = notification.iter().flat_map(|all| &all.rules);
    let rules = rules.cloned().map(|rule| NotificationRule {
        id: rule.id,
        target: rule.target,
        events: rule.events,
        prefix: rule.prefix,
        suffix: rule.suffix,
        style: match rule.kind {
            NotificationKind::Topic => NotificationStyle::Topic,
            NotificationKind::Queue => NotificationStyle::Queue,
            NotificationKind::Function => NotificationStyle::Function,
        },
    });
    let rules = BucketNotifications {
        rules: rules.collect(),
    };
    Tagged(rules, notification.map(Tag::of))
}
