//! What deletions would do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a deletion would do: the answer to a `DELETE` with `dry_run`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DeletionPlan {
    /// True if nothing stands in the way now.
    pub possible: bool,
    /// What stands in the way.
    pub obstacles: Vec<String>,
    /// What goes with it.
    pub goes: Vec<String>,
}
