//! Messages between nodes about rows and blocks. Their fields have names; unknown fields are
//! skipped.

use archipel_base::codec::Versioned;
use archipel_base::{BlockHash, Id, PartitionId};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, RowKey, Value, VersionName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::node::companions::CompanionRow;
use crate::node::options::{Taking, Topics};
use crate::register::{Answer, Intent, Request};

pub(crate) mod method;
mod relay;

pub(crate) use relay::{RelayCall, RelayReply};

/// The replica that a request is for, and the epoch. Any other replica refuses.
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
    pub guards: Vec<GuardKey>,
    /// The row of the same partition that points to the write.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub pointing: Option<Pointer>,
    #[serde(rename = "b", default)]
    pub buffered: bool,
    /// True if the payload is wanted, too.
    #[serde(rename = "w", default)]
    pub with_payload: bool,
    /// True if no client waits for the answer, so that its time says nothing about clients.
    #[serde(rename = "n", default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// True if the write lets space become free: it is stored even while the disk is nearly full.
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub frees: bool,
    /// The versions of the object that the answer tells about.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// The thing that the operation would take from a version. A replica that refuses it does not
    /// promise.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub taking: Option<Taking>,
    /// Rows that a `Write` brings with it.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub companions: Vec<CompanionRow>,
    #[serde(rename = "r")]
    pub request: Request<Value>,
}

/// Versions of an object that a request asks about.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct About {
    /// These, with their payloads.
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<VersionName>,
    /// True if the newest ones are wanted, too.
    #[serde(rename = "l", default, skip_serializing_if = "std::ops::Not::not")]
    pub newest: bool,
    /// With `newest`: only those older than this one.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub below: VersionName,
}

/// A guard: see [`Guard`](crate::Guard).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct GuardKey {
    #[serde(rename = "k")]
    pub key: Bytes,
    #[serde(rename = "x", default, skip_serializing_if = "Bytes::is_empty")]
    pub expects: Bytes,
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unlimited: bool,
}

/// A row that points to a write.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Pointer {
    #[serde(rename = "k")]
    pub key: Bytes,
    #[serde(rename = "i")]
    pub intent: Intent,
    /// True if the row points to the write from the `Prepare` on.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_announced: bool,
}

impl Versioned for RowCall {
    const VERSION: u8 = 1;
}

impl RowCall {
    /// Returns a durable request without guards, companions or a row that points to a write. The
    /// answer has the payload, and tells of no versions. A client may wait for it.
    pub fn plain(address: Address, key: Bytes, request: Request<Value>) -> RowCall {
        RowCall {
            address,
            key,
            guards: Vec::new(),
            pointing: None,
            buffered: false,
            with_payload: true,
            background: false,
            frees: false,
            about: None,
            taking: None,
            companions: Vec::new(),
            request,
        }
    }

    pub fn row_key(&self) -> RowKey {
        self.within(&self.key)
    }

    /// Returns the guards' rows, each with what the request expects of it.
    pub fn guard_rows(&self) -> impl Iterator<Item = (RowKey, &Bytes)> {
        let row = |guard: &GuardKey| self.within(&guard.key);
        self.guards
            .iter()
            .map(move |guard| (row(guard), &guard.expects))
    }

    /// Returns the guards' rows whose limits concern the request.
    pub fn limiting_rows(&self) -> impl Iterator<Item = RowKey> {
        let guards = self.guards.iter().filter(|guard| !guard.is_unlimited);
        guards.map(|guard| self.within(&guard.key))
    }

    /// Returns the row that points to the write, and the write.
    pub fn pointing(&self) -> Option<(RowKey, Intent)> {
        let pointing = self.pointing.as_ref()?;
        Some((self.within(&pointing.key), pointing.intent))
    }

    /// Returns true if that row points to the write from the `Prepare` on.
    pub fn announces(&self) -> bool {
        let pointing = self.pointing.as_ref();
        pointing.is_some_and(|pointing| pointing.is_announced)
    }

    /// Returns the value of the row that it writes; `None` if it deletes the row or writes nothing.
    pub fn value(&self) -> Option<&Value> {
        match &self.request {
            Request::Write { version, .. } => version.value.as_ref(),
            Request::Read { .. } | Request::Prepare { .. } => None,
        }
    }

    fn within(&self, key: &Bytes) -> RowKey {
        RowKey {
            partition: self.address.partition,
            key: key.clone(),
        }
    }

    pub fn durability(&self) -> Durability {
        if self.buffered {
            Durability::Buffered
        } else {
            Durability::Fsync
        }
    }
}

/// The answer to a [`RowCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RowReply(pub Result<Answer<Value>, Refusal>);

impl Versioned for RowReply {
    const VERSION: u8 = 1;
}

/// The reason why a replica cannot do what it was asked, in a form that tells what to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The disk is full.
    Full(String),
    /// Too many requests are waiting.
    Busy(String),
    /// The call itself is wrong.
    Refused(String),
    /// Any other failure.
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

/// Begins an upload: blocks, and the row calls that refer to them.
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

/// Asks for a row and the blocks of its payload, or for blocks of a row that is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FetchCall {
    #[serde(rename = "p")]
    pub partition: PartitionId,
    /// The wanted blocks, in this order.
    #[serde(rename = "b", default)]
    pub blocks: Vec<BlockRef>,
    /// The row to read instead. The first frame is its [`RowReply`]; the blocks of its payload
    /// follow.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub row: Option<RowCall>,
    /// True if the blocks are wanted in pieces that can be verified one by one. Instead of a block
    /// come an empty frame, a frame with the [`values`](archipel_base::pieces::values) of its
    /// pieces, and the pieces. No frame contains parts of two pieces. A block of one piece comes as
    /// it is, and any other block may.
    #[serde(rename = "i", default, skip_serializing_if = "is_false")]
    pub in_pieces: bool,
    /// The first wanted byte of the first block. Pieces that end at or before it are not sent.
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
pub(crate) struct PageCall {
    #[serde(rename = "a")]
    pub address: Address,
    /// The query, in the encoding of [`merge::wire`](crate::merge).
    #[serde(rename = "q")]
    pub query: Bytes,
    /// The [digest](crate::merge::wire::digest) of the page that the asking node has itself. The
    /// same page is not sent.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub known: Option<BlockHash>,
    /// A row of the same partition that must be a closed write fence in the transaction that reads
    /// the page: see [`Data::has_rows_fenced`](crate::Data::has_rows_fenced).
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Bytes>,
}

/// Pages of several partitions. The [answering node](crate::data::list) decides how many it sends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ListCall(pub Vec<PageCall>);

impl Versioned for ListCall {
    const VERSION: u8 = 1;
}

/// The answer to a [`ListCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum ListReply {
    /// The pages of the first requests: at least one, and as many as fit.
    Pages(Vec<PageReply>),
    /// The node knows a newer epoch.
    Superseded(u64),
}

/// A replica's answer to a [`PageCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum PageReply {
    /// A page, in the encoding of [`merge::wire`](crate::merge).
    Page(Bytes),
    /// The page is the [known](PageCall::known) one.
    Same,
}

impl Versioned for ListReply {
    const VERSION: u8 = 1;
}

/// Asks for counters of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CountersCall {
    #[serde(rename = "p")]
    pub partition: PartitionId,
    #[serde(rename = "g")]
    pub groups: Vec<Id>,
}

impl Versioned for CountersCall {
    const VERSION: u8 = 1;
}

/// Objects and bytes of each counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CountersReply(pub Vec<(u64, u64)>);

impl Versioned for CountersReply {
    const VERSION: u8 = 1;
}

/// Asks for the changes that a node's replicas have accepted. The answer comes at once if there are
/// some, and otherwise after the next one, or after a few seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FeedCall {
    /// The position up to which the caller has them; `None` asks for the present position.
    #[serde(rename = "a", default)]
    pub after: Option<Position>,
}

/// A position in the feed of one run of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Position {
    #[serde(rename = "r")]
    pub run: Id,
    #[serde(rename = "n")]
    pub number: u64,
}

impl Versioned for FeedCall {
    const VERSION: u8 = 1;
}

/// The answer to a [`FeedCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FeedReply {
    /// The changes; `None` if those after the position are not known any more.
    #[serde(rename = "c")]
    pub changes: Option<Vec<Topics>>,
    /// The position after them.
    #[serde(rename = "n")]
    pub next: Position,
    /// The epoch that the node knows.
    #[serde(rename = "e")]
    pub epoch: u64,
}

impl Versioned for FeedReply {
    const VERSION: u8 = 1;
}
