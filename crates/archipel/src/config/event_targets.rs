//! The targets of event notifications.

use http::Uri;

use super::secret::Secret;

/// A webhook that gets the events of buckets.
#[derive(Clone, Debug)]
pub struct EventTarget {
    /// The name by which buckets' rules name it.
    pub name: String,
    /// The address to which events are posted.
    pub url: Uri,
    /// The token that the requests carry.
    pub token: Option<Secret>,
    /// The most events that wait for it in the partitions of one bucket.
    pub backlog: u64,
    /// True if writes are refused while that many wait.
    pub refuses: bool,
}
