//! The reference of metrics.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A metric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MetricInfo {
    /// The name. Counters have `_total` after it, histograms `_bucket`, `_count` and `_sum`, infos
    /// `_info`.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// The labels of its samples.
    pub labels: Vec<String>,
    /// The meaning.
    pub about: String,
}
