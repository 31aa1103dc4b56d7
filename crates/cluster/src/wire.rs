//! What nodes say to one another about rows and blocks. Named fields; what is not known is skipped.

use archipel_base::codec::Versioned;
use archipel_base::{BlockHash, Id, PartitionId};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, RowKey, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::register::{Answer, Request};

/// The methods of a node.
pub(crate) mod method {
    /// [`RowCall`](super::RowCall), [`RowReply`](super::RowReply).
    pub const ROW: &str = "row";
    /// A stream: [`UploadOpen`](super::UploadOpen), then blocks and row calls.
    pub const UPLOAD: &str = "upload";
    /// A stream: [`FetchCall`](super::FetchCall), then [`FetchReply`](super::FetchReply) and blocks.
    pub const FETCH: &str = "fetch";
    /// [`ListCall`](super::ListCall), [`ListReply`](super::ListReply).
    pub const LIST: &str = "list";
    /// [`CounterCall`](super::CounterCall), [`CounterReply`](super::CounterReply).
    pub const COUNTER: &str = "counter";
    /// The number of the epoch that the caller knows, or nothing; an encoded epoch.
    pub const EPOCH: &str = "epoch";
    /// What the membership says.
    pub const GOSSIP: &str = "gossip";
    /// [`VerifyCall`](crate::verify::VerifyCall), [`VerifyReply`](crate::verify::VerifyReply).
    pub const VERIFY: &str = "verify";
    /// [`DigestCall`](crate::verify::DigestCall), [`DigestReply`](crate::verify::DigestReply).
    pub const DIGEST: &str = "digest";
    /// [`CareCall`](crate::mend::CareCall), [`Care`](crate::mend::Care).
    pub const CARE: &str = "care";
    /// What the model tells all nodes.
    pub const NOTICE: &str = "notice";
    /// What the model asks all nodes: one byte, which is not 0 for yes.
    pub const QUESTION: &str = "question";
}

/// Who is meant, in which epoch. Whoever is not refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Address {
    #[serde(rename = "e")]
    pub epoch: u64,
    #[serde(rename = "i")]
    pub incarnation: u64,
    #[serde(rename = "p")]
    pub partition: PartitionId,
}

/// A request to a replica about a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RowCall {
    #[serde(rename = "a")]
    pub address: Address,
    #[serde(rename = "k")]
    pub key: Bytes,
    /// Rows of the same partition that must hold.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Bytes>,
    #[serde(rename = "b", default)]
    pub buffered: bool,
    /// Whether the body is wanted, too.
    #[serde(rename = "w", default)]
    pub with_body: bool,
    /// Nobody waits for it: it says nothing of how clients fare.
    #[serde(rename = "n", default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    #[serde(rename = "r")]
    pub request: Request<Value>,
}

impl Versioned for RowCall {
    const VERSION: u8 = 1;
}

impl RowCall {
    pub fn row_key(&self) -> RowKey {
        self.within(&self.key)
    }

    pub fn guard_keys(&self) -> impl Iterator<Item = RowKey> {
        self.guards.iter().map(|key| self.within(key))
    }

    fn within(&self, key: &Bytes) -> RowKey {
        RowKey {
            partition: self.address.partition,
            key: key.clone(),
        }
    }

    pub fn durability(&self) -> Durability {
        match self.buffered {
            true => Durability::Buffered,
            false => Durability::Fsync,
        }
    }
}

/// What a replica answers to a [`RowCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RowReply(pub Result<Answer<Value>, Refusal>);

impl Versioned for RowReply {
    const VERSION: u8 = 1;
}

/// Why a replica cannot do what it was asked, in a form that tells what to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// No room.
    Full(String),
    /// Too much is waiting.
    Busy(String),
    /// The call itself is wrong.
    Refused(String),
    /// Anything else.
    Failed(String),
}

impl From<storage::Error> for Refusal {
    fn from(error: storage::Error) -> Refusal {
        match error {
            storage::Error::Full(why) => Refusal::Full(why),
            storage::Error::Busy(why) => Refusal::Busy(why),
            storage::Error::Refused(why) => Refusal::Refused(why),
            other => Refusal::Failed(other.to_string()),
        }
    }
}

impl From<Refusal> for storage::Error {
    fn from(refusal: Refusal) -> storage::Error {
        match refusal {
            Refusal::Full(why) => storage::Error::Full(why),
            Refusal::Busy(why) => storage::Error::Busy(why),
            Refusal::Refused(why) => storage::Error::Refused(why),
            Refusal::Failed(why) => storage::Error::Io(why),
        }
    }
}

/// Begins an upload: blocks, and the row calls that make them real.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct UploadOpen {
    #[serde(rename = "a")]
    pub address: Address,
}

impl Versioned for UploadOpen {
    const VERSION: u8 = 1;
}

/// The first byte of a frame of an upload.
pub(crate) mod frame {
    /// A block's content follows.
    pub const BLOCK: u8 = b'b';
    /// A row call follows.
    pub const CALL: u8 = b'c';
}

/// Asks for a row and the blocks of its body, or for blocks that a row is known to hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FetchCall {
    #[serde(rename = "p")]
    pub partition: PartitionId,
    /// The blocks, in the order in which they are wanted.
    #[serde(rename = "b", default)]
    pub blocks: Vec<BlockRef>,
    /// Instead: a row to read. The first frame is its [`RowReply`], and the blocks of its body follow.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub row: Option<RowCall>,
    /// Blocks in pieces that can be verified one by one: instead of a block, an empty frame, one with the
    /// [`values`](archipel_base::pieces::values) of its pieces, and the pieces; no frame reaches into two of them. A block
    /// of one piece comes as it is, and so may any.
    #[serde(rename = "i", default, skip_serializing_if = "is_false")]
    pub in_pieces: bool,
    /// Of the first block, in pieces: those that end here or before are not wanted.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub from: u32,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Versioned for FetchCall {
    const VERSION: u8 = 1;
}

/// A page of the rows that one replica holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ListQuestion {
    #[serde(rename = "a")]
    pub address: Address,
    /// Encoded as [`merge::wire`](crate::merge) does.
    #[serde(rename = "q")]
    pub query: Bytes,
    /// The [digest](crate::merge::wire::digest) of the page that the asking node has itself: the same page is not sent.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub known: Option<BlockHash>,
}

/// Pages of several partitions; how many at most, says [who answers](crate::list).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ListCall(pub Vec<ListQuestion>);

impl Versioned for ListCall {
    const VERSION: u8 = 1;
}

/// What a node answers to a [`ListCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum ListReply {
    /// What the first questions ask for: at least one, and as many as have room.
    Pages(Vec<PageReply>),
    /// A newer epoch is known.
    Superseded(u64),
}

/// What a replica answers to a [`ListQuestion`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum PageReply {
    /// A page, encoded as [`merge::wire`](crate::merge) does.
    Page(Bytes),
    /// The page is the one that is [known](ListQuestion::known).
    Same,
}

impl Versioned for ListReply {
    const VERSION: u8 = 1;
}

/// Asks for a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CounterCall {
    #[serde(rename = "p")]
    pub partition: PartitionId,
    #[serde(rename = "g")]
    pub group: Id,
}

impl Versioned for CounterCall {
    const VERSION: u8 = 1;
}

/// Objects and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CounterReply(pub u64, pub u64);

impl Versioned for CounterReply {
    const VERSION: u8 = 1;
}
