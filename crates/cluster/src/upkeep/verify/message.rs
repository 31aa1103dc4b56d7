//! The messages of verification.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::node::wire::Address;

/// The most findings that a node lists one by one.
pub(crate) const MAX_TOLD: usize = 100;

/// Asks a node to verify its data, or for its progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct VerifyCall {
    /// The name of the verification. The first call with a name begins it.
    #[serde(rename = "r")]
    pub run: Id,
    /// True if every block is read.
    #[serde(rename = "d")]
    pub deep: bool,
    /// True if a verification of this name shall end before it has verified everything. Nothing begins.
    #[serde(rename = "x", default)]
    pub stop: bool,
}

impl Versioned for VerifyCall {
    const VERSION: u8 = 1;
}

/// The progress of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct VerifyReply {
    #[serde(rename = "s")]
    pub step: Step,
    /// The findings, at the end.
    #[serde(rename = "f")]
    pub findings: Option<Findings>,
    /// True if another verification runs there, so that this one was not begun.
    #[serde(rename = "b", default)]
    pub busy: bool,
}

impl VerifyReply {
    /// Returns the reply of a node that knows nothing of a verification that is to be stopped.
    pub fn ended_early() -> VerifyReply {
        let findings = Findings {
            unchecked: vec!["everything: the verification was stopped".into()],
            ..Findings::default()
        };
        VerifyReply {
            findings: Some(findings),
            ..VerifyReply::default()
        }
    }
}

impl Versioned for VerifyReply {
    const VERSION: u8 = 1;
}

/// The current step of a node's verification.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// The step in words.
    #[serde(rename = "n")]
    pub name: String,
    /// The number of things that are done.
    #[serde(rename = "d")]
    pub done: u64,
    /// The number of all things; 0 if it is not known.
    #[serde(rename = "a")]
    pub all: u64,
}

/// The findings of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Rows that it looked at.
    #[serde(rename = "r")]
    pub rows: u64,
    /// The digest of these rows: the same on two nodes that hold the same rows.
    #[serde(rename = "g", default)]
    pub digest: u64,
    /// Blocks in its index.
    #[serde(rename = "b")]
    pub blocks: u64,
    /// Blocks that were read and verified.
    #[serde(rename = "v")]
    pub verified: u64,
    /// Partitions that were compared with other replicas, counted once for each replica.
    #[serde(rename = "c")]
    pub compared: u64,
    /// The number of problems.
    #[serde(rename = "p")]
    pub problems: u64,
    /// The first hundred problems, in words.
    #[serde(rename = "t")]
    pub told: Vec<String>,
    /// The parts that could not be checked, each with the reason.
    #[serde(rename = "u")]
    pub unchecked: Vec<String>,
}

impl Findings {
    /// Notes a problem.
    pub(crate) fn problem(&mut self, what: String) {
        self.problems += 1;
        if self.told.len() < MAX_TOLD {
            self.told.push(what);
        }
    }
}

/// Asks for the digests of partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DigestCall {
    #[serde(rename = "a")]
    pub replicas: Vec<Address>,
}

impl Versioned for DigestCall {
    const VERSION: u8 = 1;
}

/// The digests, in the order of the request; `None` for a partition that is not held there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DigestReply(pub Vec<Option<Digest>>);

impl Versioned for DigestReply {
    const VERSION: u8 = 1;
}

/// The digest of all written rows of a partition, tombstones included: their number, and the XOR of
/// their hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Digest {
    #[serde(rename = "r")]
    pub rows: u64,
    #[serde(rename = "f")]
    pub digest: [u8; 32],
}
