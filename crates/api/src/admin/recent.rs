//! The newest lines of the audit log, which the node keeps in memory.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{Json, Query, Refusal};
use super::page;
use super::types::{AuditLine, Page};

/// The lines of an answer if the request does not say how many.
const USUAL_LINES: usize = 100;

/// The endpoints and decisions of lines.
const ENDPOINTS: [&str; 4] = ["s3", "k2v", "web", "admin"];
const DECISIONS: [&str; 4] = ["allowed", "denied", "refused", "failed"];

/// The filters of the list of lines.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListLines {
    /// The most lines in the answer: 1 to 1000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only lines after the one with this number, the oldest ones of them. Without it, the answer holds
    /// the newest lines.
    after: Option<u64>,
    /// Only requests to this endpoint: `s3`, `k2v`, `web`, `admin`.
    endpoint: Option<String>,
    /// Only requests of this access key or token.
    who: Option<String>,
    /// Only requests for this action, in any case of letters: `PutObject`, for example.
    action: Option<String>,
    /// Only requests about this bucket.
    bucket: Option<String>,
    /// Only requests with this decision: `allowed`, `denied`, `refused`, `failed`.
    decision: Option<String>,
}

/// Lists the newest lines of the audit log of the node that is asked, oldest first. A node keeps up to
/// 1000 lines, and up to 1 MiB of them, since its start, also if the settings name no target of the log.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "list_audit_lines",
    params(ListLines),
    responses((status = 200, description = "Lines", body = Page<AuditLine>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListLines>,
) -> Result<Json<Page<AuditLine>>, Refusal> {
    let limit = page::size(query.limit, USUAL_LINES)?;
    one_of("endpoint", query.endpoint.as_deref(), &ENDPOINTS)?;
    one_of("decision", query.decision.as_deref(), &DECISIONS)?;
    let after = query.after.unwrap_or(0);
    let lines = admin.audit.recent().into_iter();
    let lines = lines.filter(|(number, _)| *number > after);
    let lines = lines.filter_map(|(number, line)| {
        let line = serde_json::from_slice::<AuditLine>(&line).ok()?;
        Some(AuditLine { number, ..line })
    });
    let mut items: Vec<AuditLine> = lines.filter(|line| is_asked_for(&query, line)).collect();
    let more = items.len().saturating_sub(limit);
    let mut next = None;
    if query.after.is_some() {
        items.truncate(limit);
        let last = items.last().filter(|_| more > 0);
        next = last.map(|line| line.number.to_string());
    } else {
        items.drain(..more);
    }
    Ok(Json(Page { items, next }))
}

/// Checks that a filter has one of the values that lines have. Another one would find nothing.
fn one_of(name: &str, value: Option<&str>, known: &[&str]) -> Result<(), Refusal> {
    match value {
        Some(value) if !known.contains(&value) => Err(Refusal::invalid(format!(
            "the query: {name} is {value:?}; it is one of {}",
            known.join(", ")
        ))),
        _ => Ok(()),
    }
}

fn is_asked_for(query: &ListLines, line: &AuditLine) -> bool {
    let is = |asked: &Option<String>, is: Option<&str>| asked.is_none() || asked.as_deref() == is;
    let is_action = |action: &str| {
        let asked = query.action.as_deref();
        asked.is_none_or(|asked| action.eq_ignore_ascii_case(asked))
    };
    is(&query.endpoint, Some(&line.endpoint))
        && is(&query.who, line.who.as_deref())
        && is_action(&line.action)
        && is(&query.bucket, line.bucket.as_deref())
        && is(&query.decision, Some(&line.decision))
}
