//! Deletions, and their dry runs.

use axum::response::IntoResponse;
use serde::Deserialize;
use utoipa::{IntoParams, IntoResponses};

use super::answer::{Answer, Json, NoContent};
use super::types::DeletionPlan;

/// The query of a deletion.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DryRun {
    /// True to delete nothing, and to get the obstacles and the things that would be deleted with it.
    #[serde(default)]
    #[param(required = false)]
    pub dry_run: bool,
}

/// The answer to a deletion.
#[derive(IntoResponses)]
pub(super) enum Deletion {
    /// It is deleted.
    #[response(status = 204, description = "It is deleted")]
    Done,
    /// A dry run: nothing is deleted.
    #[response(status = 200, description = "With `dry_run`: what would happen")]
    Plan(DeletionPlan),
}

impl IntoResponse for Deletion {
    fn into_response(self) -> Answer {
        match self {
            Deletion::Done => NoContent.into_response(),
            Deletion::Plan(plan) => Json(plan).into_response(),
        }
    }
}

/// Collects the effects of a deletion.
#[derive(Default)]
pub(super) struct Plan(DeletionPlan);

impl Plan {
    /// Notes the names of obstacles, if there are any.
    pub(super) fn blocked_by(mut self, what: &str, names: &[String]) -> Plan {
        self.0.obstacles.extend(told(what, names));
        self
    }

    /// Notes a reason why it is not possible, if there is one.
    pub(super) fn blocked(mut self, why: Option<String>) -> Plan {
        self.0.obstacles.extend(why);
        self
    }

    /// Notes the names of things that are deleted with it, if there are any.
    pub(super) fn takes(mut self, what: &str, names: &[String]) -> Plan {
        self.0.goes.extend(told(what, names));
        self
    }

    pub(super) fn finish(mut self) -> Deletion {
        self.0.possible = self.0.obstacles.is_empty();
        Deletion::Plan(self.0)
    }
}

fn told(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}
