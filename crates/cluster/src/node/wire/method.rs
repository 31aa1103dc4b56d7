//! The methods that a node answers: all names of calls and streams between nodes.

/// [`RowCall`](super::RowCall), [`RowReply`](super::RowReply).
pub const ROW: &str = "row";
/// [`RowsCall`](crate::data::bundle::RowsCall), [`RowsReply`](crate::data::bundle::RowsReply).
pub const ROWS: &str = "rows";
/// A stream: [`UploadOpen`](super::UploadOpen), then blocks and row calls.
pub const UPLOAD: &str = "upload";
/// A stream: [`FetchCall`](super::FetchCall), then [`FetchReply`](super::FetchReply) and
/// blocks.
pub const FETCH: &str = "fetch";
/// [`ListCall`](super::ListCall), [`ListReply`](super::ListReply).
pub const LIST: &str = "list";
/// [`CountersCall`](super::CountersCall), [`CountersReply`](super::CountersReply).
pub const COUNTERS: &str = "counters";
/// [`FeedCall`](super::FeedCall), [`FeedReply`](super::FeedReply).
pub const FEED: &str = "feed";
/// [`RelayCall`](super::RelayCall), [`RelayReply`](super::RelayReply).
pub const RELAY: &str = "relay";
/// The number of the epoch that the caller knows, or nothing; an encoded epoch.
pub const EPOCH: &str = "epoch";
/// An encoded epoch, the first of a cluster; nothing if the node promises to be part of it.
pub const PROPOSE: &str = "propose";
/// [`FateCall`](crate::node::epochs::FateCall), [`FateReply`](crate::node::epochs::FateReply).
pub const FATE: &str = "fate";
/// Gossip of the membership.
pub const GOSSIP: &str = "gossip";
/// [`VerifyCall`](crate::upkeep::verify::VerifyCall),
/// [`VerifyReply`](crate::upkeep::verify::VerifyReply).
pub const VERIFY: &str = "verify";
/// [`DigestCall`](crate::upkeep::verify::DigestCall),
/// [`DigestReply`](crate::upkeep::verify::DigestReply).
pub const DIGEST: &str = "digest";
/// [`MaintenanceCall`](crate::upkeep::repair::MaintenanceCall),
/// [`MaintenanceStatus`](crate::upkeep::repair::MaintenanceStatus).
pub const MAINTENANCE: &str = "maintenance";
/// [`ProgressCall`](crate::reconfigure::rebalance::ProgressCall),
/// [`Shown`](crate::reconfigure::rebalance::Shown).
pub const PROGRESS: &str = "progress";
/// A notice of the model to all nodes.
pub const NOTICE: &str = "notice";
/// The model asks whether a node reads or writes some content. The answer is one byte, not 0
/// for yes.
pub const IN_USE: &str = "in_use";

/// [`PastCall`](crate::upkeep::rollback::wire::PastCall),
/// [`PastReply`](crate::upkeep::rollback::wire::PastReply).
pub const PAST: &str = "rollback.past";
/// [`CompareCall`](crate::upkeep::anti_entropy::wire::CompareCall),
/// [`CompareReply`](crate::upkeep::anti_entropy::wire::CompareReply).
pub const COMPARE: &str = "anti_entropy.compare";
/// [`WindowsCall`](crate::upkeep::anti_entropy::wire::WindowsCall),
/// [`WindowsReply`](crate::upkeep::anti_entropy::wire::WindowsReply).
pub const WINDOWS: &str = "anti_entropy.windows";
/// [`StampsCall`](crate::upkeep::anti_entropy::wire::StampsCall),
/// [`StampsReply`](crate::upkeep::anti_entropy::wire::StampsReply).
pub const STAMPS: &str = "anti_entropy.stamps";
/// [`RowsCall`](crate::upkeep::anti_entropy::wire::RowsCall),
/// [`RowsReply`](crate::upkeep::anti_entropy::wire::RowsReply).
pub const PULL: &str = "anti_entropy.rows";
/// The called node may lack rows of the caller, or
/// [of other nodes](crate::upkeep::anti_entropy::wire::WakeCall). The answer is empty.
pub const WAKE: &str = "anti_entropy.wake";
/// [`FloorCall`](crate::upkeep::anti_entropy::wire::FloorCall),
/// [`FloorReply`](crate::upkeep::anti_entropy::wire::FloorReply).
pub const FLOOR: &str = "tombstone_gc.floor";
/// [`PurgedCall`](crate::upkeep::anti_entropy::wire::PurgedCall), which comes back once the store
/// is purged.
pub const PURGED: &str = "tombstone_gc.purged";
