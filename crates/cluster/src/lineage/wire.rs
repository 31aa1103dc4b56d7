//! What stores ask one another about their past. Named fields; what is not known is skipped.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use super::{Lineage, Run};

/// [`PastCall`], [`PastReply`].
pub(crate) const METHOD: &str = "heal.past";

/// What is remembered of the store of whoever asks?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PastCall {
    #[serde(rename = "s")]
    pub store: Id,
    #[serde(rename = "l")]
    pub lineage: Lineage,
    /// Remember this lineage's end from now on, if nothing speaks against it.
    #[serde(rename = "r", default)]
    pub remember: bool,
}

impl Versioned for PastCall {
    const VERSION: u8 = 1;
}

/// This was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PastReply {
    #[serde(rename = "s", default)]
    pub seen: Option<Run>,
    /// It was to be remembered, and is.
    #[serde(rename = "r", default)]
    pub remembered: bool,
}

impl Versioned for PastReply {
    const VERSION: u8 = 1;
}
