//! Targets of event notifications.

use std::sync::Arc;

use archipel_model::TargetStatus;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{Json, Query, Refusal};
use super::page::page;
use super::types::{EventTargetInfo, EventTargetState, Page};

/// The filters of the list of targets.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListTargets {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only targets after this name: the `next` of the former page.
    after: Option<String>,
    /// Only targets in this state.
    state: Option<EventTargetState>,
}

/// Lists the targets of event notifications that this node declares or has met in rules, by name,
/// and the state of its own deliveries to them.
#[utoipa::path(
    get, path = "/v1/event-targets", tag = "events", operation_id = "list_event_targets",
    params(ListTargets),
    responses((status = 200, description = "Targets", body = Page<EventTargetInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListTargets>,
) -> Result<Json<Page<EventTargetInfo>>, Refusal> {
    let mut targets: Vec<_> = admin.model.event_status().into_iter().map(info).collect();
    targets.retain(|one| query.state.is_none_or(|state| one.state == state));
    let after = query.after.as_deref();
    page(targets, |one| &one.name, query.limit, after).map(Json)
}

/// Returns a warning for each target that takes no events now, or that lacks some for good.
pub(super) fn warnings(admin: &Admin) -> Vec<String> {
    let targets = admin.model.event_status().into_iter();
    targets.filter_map(|status| warning(&status)).collect()
}

fn warning(status: &TargetStatus) -> Option<String> {
    let (name, waiting, dropped) = (&status.name, status.backlog, status.dropped);
    // Another scope than that of the status shows the reason.
    let why = match &status.error {
        Some(_) => format!("deliveries fail (waiting: {waiting}, dropped: {dropped})"),
        None if dropped > 0 => format!("{dropped} of its events were dropped since the start"),
        None => return None,
    };
    Some(format!(
        "event target {name}: {why}; archipel event targets says more"
    ))
}

fn info(status: TargetStatus) -> EventTargetInfo {
    EventTargetInfo {
        state: match (&status.error, status.backlog) {
            (Some(_), _) => EventTargetState::Failing,
            (None, 0) => EventTargetState::Idle,
            (None, _) => EventTargetState::Waiting,
        },
        name: status.name,
        kind: Some(status.kind).filter(|kind| !kind.is_empty()),
        waiting: status.backlog,
        delivered: status.delivered,
        failed: status.failed,
        dropped: status.dropped,
        error: status.error,
        retry_ms: status.retry_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_fails_or_lacks_events_is_warned_of() {
        let fine = TargetStatus {
            name: "hook".into(),
            backlog: 7,
            ..TargetStatus::default()
        };
        assert_eq!(warning(&fine), None);
        let failing = TargetStatus {
            error: Some("503".into()),
            ..fine.clone()
        };
        let told = "event target hook: deliveries fail (waiting: 7, dropped: 0); ";
        assert!(warning(&failing).is_some_and(|line| line.starts_with(told)));
        let lacking = TargetStatus { dropped: 2, ..fine };
        let told = "event target hook: 2 of its events were dropped";
        assert!(warning(&lacking).is_some_and(|line| line.starts_with(told)));
    }

    #[test]
    fn state_says_what_a_target_does() {
        let state = |error: Option<&str>, backlog| {
            let status = TargetStatus {
                error: error.map(str::to_owned),
                backlog,
                ..TargetStatus::default()
            };
            info(status).state
        };
        assert_eq!(state(None, 0), EventTargetState::Idle);
        assert_eq!(state(None, 1), EventTargetState::Waiting);
        assert_eq!(state(Some("503"), 1), EventTargetState::Failing);
        assert_eq!(info(TargetStatus::default()).kind, None);
    }
}
