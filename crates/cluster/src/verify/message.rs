//! What nodes say to one another about verification.

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::wire::Address;

/// How many findings a node tells one by one.
pub(crate) const MAX_TOLD: usize = 100;

/// Asks a node to verify what it holds, or how far it is with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct VerifyCall {
    /// Names the verification: the first call of a name begins it.
    #[serde(rename = "r")]
    pub run: Id,
    /// Whether every block is read.
    #[serde(rename = "d")]
    pub deep: bool,
}

impl Versioned for VerifyCall {
    const VERSION: u8 = 1;
}

/// How far it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct VerifyReply {
    #[serde(rename = "s")]
    pub step: Step,
    /// What was found, at the end.
    #[serde(rename = "f")]
    pub findings: Option<Findings>,
    /// Another verification is under way there; this one was not begun.
    #[serde(rename = "b", default)]
    pub busy: bool,
}

impl Versioned for VerifyReply {
    const VERSION: u8 = 1;
}

/// What a node's verification does now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// In words.
    #[serde(rename = "n")]
    pub name: String,
    /// How many are done,
    #[serde(rename = "d")]
    pub done: u64,
    /// of how many; 0 if that is not known.
    #[serde(rename = "a")]
    pub all: u64,
}

/// What a node found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Rows that it looked at.
    #[serde(rename = "r")]
    pub rows: u64,
    /// Blocks that its index has.
    #[serde(rename = "b")]
    pub blocks: u64,
    /// Blocks that were read and verified.
    #[serde(rename = "v")]
    pub verified: u64,
    /// Partitions that were compared with other replicas, counted once for each.
    #[serde(rename = "c")]
    pub compared: u64,
    /// How many things are wrong.
    #[serde(rename = "p")]
    pub problems: u64,
    /// The first hundred of them, in words.
    #[serde(rename = "t")]
    pub told: Vec<String>,
    /// What could not be checked, and why.
    #[serde(rename = "u")]
    pub unchecked: Vec<String>,
}

impl Findings {
    /// Something is wrong.
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

/// The digests, in the order asked for; `None` for what is not kept there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DigestReply(pub Vec<Option<Digest>>);

impl Versioned for DigestReply {
    const VERSION: u8 = 1;
}

/// All written rows of a partition, tombstones too: how many, and the XOR of their fingerprints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Digest {
    #[serde(rename = "r")]
    pub rows: u64,
    #[serde(rename = "f")]
    pub fingerprint: [u8; 32],
}
