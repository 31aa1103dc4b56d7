//! The messages of rollback detection. Their fields have names; unknown fields are skipped.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::node::history::{History, Run};

/// A request for what is remembered of the caller's store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PastCall {
    #[serde(rename = "s")]
    pub store: Id,
    #[serde(rename = "l")]
    pub history: History,
    /// True if the end of this history is to be remembered from now on, unless something
    /// contradicts it.
    #[serde(rename = "r", default)]
    pub remember: bool,
}

impl Versioned for PastCall {
    const VERSION: u8 = 1;
}

/// The remembered state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PastReply {
    #[serde(rename = "s", default)]
    pub seen: Option<Run>,
    /// True if the history was to be remembered, and is.
    #[serde(rename = "r", default)]
    pub remembered: bool,
}

impl Versioned for PastReply {
    const VERSION: u8 = 1;
}
