//! Listing: what to list, and a page of it.

use crate::object::ObjectHead;

/// What to list of the objects of a bucket.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that hold it behind the prefix are rolled up to a common prefix.
    pub delimiter: Option<String>,
    /// Keys and common prefixes at or below it are left out.
    pub after: Option<String>,
    /// At most so many entries.
    pub limit: usize,
}

/// An entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListEntry {
    /// An object.
    Object {
        /// Its key.
        key: String,
        /// What is known of it.
        head: ObjectHead,
    },
    /// All keys that begin so (it ends with the delimiter).
    Prefix(String),
}

impl ListEntry {
    /// The key or the prefix: what entries are sorted by, bytewise.
    pub fn name(&self) -> &str {
        match self {
            ListEntry::Object { key, .. } => key,
            ListEntry::Prefix(prefix) => prefix,
        }
    }
}

/// A page of a listing, sorted bytewise by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<ListEntry>,
    /// Whether there is more behind the last one.
    pub truncated: bool,
}
