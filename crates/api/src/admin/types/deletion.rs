//! The effects of deletions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The effect of a deletion: the answer to a `DELETE` with `dry_run`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DeletionPlan {
    /// True if there are no obstacles now.
    pub possible: bool,
    /// The reasons why the deletion would be refused.
    pub obstacles: Vec<String>,
    /// The things that are deleted with it.
    pub goes: Vec<String>,
}
