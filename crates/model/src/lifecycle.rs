//! Lifecycle rules as data, and when they make an object or an upload expire. Pure.
//!
//! Days count as in S3: the days are added to the time of the object, and the sum is rounded up to
//! the next midnight UTC. Source: AWS, "Lifecycle configuration elements" and "Expiring objects".
//!
//! A version is noncurrent since its successor was made. A delete marker is a version like any
//! other, and is removed when it is the only one: see [`Lifecycle::lone_marker`].

use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::object::{ObjectHead, Tags};

/// The longest stored form of a configuration, in bytes. Every node has all configurations in
/// memory.
pub(crate) const MAX_STORED_BYTES: usize = 256 << 10;

/// The length of a day in milliseconds, if no test makes days shorter.
pub const DAY_MS: u64 = 24 * 3600 * 1000;

/// The lifecycle configuration of a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The rules.
    #[serde(rename = "r")]
    pub rules: Vec<LifecycleRule>,
    /// True if the smallest size of a transition varies by storage class. There are no transitions,
    /// but clients expect to read back what they set.
    #[serde(rename = "v", default)]
    pub minimum_size_varies: bool,
}

impl Versioned for Lifecycle {
    const VERSION: u8 = 1;
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LifecycleRule {
    /// The rule's name, unique in the configuration.
    #[serde(rename = "i")]
    pub id: String,
    /// True if the rule is applied.
    #[serde(rename = "e")]
    pub enabled: bool,
    /// The objects that the rule is for.
    #[serde(rename = "f")]
    pub filter: LifecycleFilter,
    /// When an object expires.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Expiration>,
    /// When a noncurrent version expires.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub noncurrent: Option<NoncurrentExpiration>,
    /// The days after which an incomplete upload is aborted.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub abort_days: Option<u32>,
}

/// The objects that a rule is for: those that all parts of the filter match.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LifecycleFilter {
    /// True if the document had the prefix in the rule itself, which is S3's old form.
    #[serde(rename = "o", default, skip_serializing_if = "std::ops::Not::not")]
    pub old_form: bool,
    /// The beginning of the keys.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Tags that the object has, with these values.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
    /// The object has more bytes than this.
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub larger_than: Option<u64>,
    /// The object has fewer bytes than this.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub smaller_than: Option<u64>,
}

/// When an object expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Expiration {
    /// This many days after it was written.
    #[serde(rename = "d")]
    Days(u32),
    /// At this time, in milliseconds since 1970: a midnight.
    #[serde(rename = "t")]
    Date(u64),
    /// Never; if true, a delete marker without other versions does.
    #[serde(rename = "m")]
    DeleteMarkers(bool),
}

/// When a noncurrent version expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NoncurrentExpiration {
    /// The days after the version became noncurrent.
    #[serde(rename = "d")]
    pub days: u32,
    /// The number of newer noncurrent versions that stay.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
}

/// The time at which a rule takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due<'a> {
    /// The time in milliseconds since 1970.
    pub at_ms: u64,
    /// The rule.
    pub rule: &'a LifecycleRule,
}

impl Lifecycle {
    /// Returns when an object expires, and by which rule: the one that takes effect first. Days are
    /// `day_ms` long.
    pub fn expiry(&self, key: &str, object: &ObjectHead, day_ms: u64) -> Option<Due<'_>> {
        self.first(|rule| {
            let due = match rule.expiration? {
                Expiration::Days(days) => after_days(object.modified_ms, days, day_ms),
                Expiration::Date(at_ms) => at_ms,
                Expiration::DeleteMarkers(_) => return None,
            };
            rule.filter.matches(key, object).then_some(due)
        })
    }

    /// Returns how many noncurrent versions must be newer than this one so that a rule removes it
    /// at `now_ms`; `None` if no rule does. Noncurrent since `since_ms`.
    pub(crate) fn noncurrent(
        &self,
        key: &str,
        version: &ObjectHead,
        since_ms: u64,
        now_ms: u64,
        day_ms: u64,
    ) -> Option<u32> {
        let enabled = self.rules.iter().filter(|rule| rule.enabled);
        let due = enabled.filter_map(|rule| {
            let noncurrent = rule.noncurrent?;
            let is_due = after_days(since_ms, noncurrent.days, day_ms) <= now_ms;
            let acts = is_due && rule.filter.matches(key, version);
            acts.then_some(noncurrent.keep.unwrap_or_default())
        });
        due.min()
    }

    /// Returns when a delete marker is removed that is the only version of its key, and by which
    /// rule. A rule with days counts, too, as in S3. A marker has neither tags nor a size.
    pub(crate) fn lone_marker(
        &self,
        key: &str,
        marker: &ObjectHead,
        day_ms: u64,
    ) -> Option<Due<'_>> {
        self.first(|rule| {
            let due = match rule.expiration? {
                Expiration::DeleteMarkers(true) => marker.modified_ms,
                Expiration::Days(days) => after_days(marker.modified_ms, days, day_ms),
                Expiration::DeleteMarkers(false) | Expiration::Date(_) => return None,
            };
            let has_prefix = rule.filter.has_prefix_of(key) && rule.filter.is_prefix();
            has_prefix.then_some(due)
        })
    }

    /// Returns true if an enabled rule removes noncurrent versions.
    pub(crate) fn has_noncurrent(&self) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.enabled && rule.noncurrent.is_some())
    }

    /// Returns when an incomplete upload is aborted, and by which rule.
    pub fn abort(&self, key: &str, initiated_ms: u64, day_ms: u64) -> Option<Due<'_>> {
        self.first(|rule| {
            let due = after_days(initiated_ms, rule.abort_days?, day_ms);
            rule.filter.has_prefix_of(key).then_some(due)
        })
    }

    /// Returns true if an enabled rule may remove something.
    pub fn is_active(&self) -> bool {
        let acts = |rule: &LifecycleRule| {
            let expires = rule.expiration.is_some() || rule.noncurrent.is_some();
            rule.enabled && (expires || rule.abort_days.is_some())
        };
        self.rules.iter().any(acts)
    }

    fn first(&self, due: impl Fn(&LifecycleRule) -> Option<u64>) -> Option<Due<'_>> {
        let enabled = self.rules.iter().filter(|rule| rule.enabled);
        let all = enabled.filter_map(|rule| {
            let at_ms = due(rule)?;
            Some(Due { at_ms, rule })
        });
        all.min_by_key(|due| due.at_ms)
    }
}

impl LifecycleFilter {
    fn matches(&self, key: &str, object: &ObjectHead) -> bool {
        self.has_prefix_of(key)
            && self.tags.iter().all(|tag| object.tags.contains(tag))
            && self.larger_than.is_none_or(|size| object.size > size)
            && self.smaller_than.is_none_or(|size| object.size < size)
    }

    fn has_prefix_of(&self, key: &str) -> bool {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        key.starts_with(prefix)
    }

    /// Returns true if the filter has no part but a prefix.
    fn is_prefix(&self) -> bool {
        self.parts() == usize::from(self.prefix.is_some())
    }

    /// Returns the number of parts that the filter has.
    pub fn parts(&self) -> usize {
        usize::from(self.prefix.is_some())
            + self.tags.len()
            + usize::from(self.larger_than.is_some())
            + usize::from(self.smaller_than.is_some())
    }
}

/// Returns the midnight at which this many days have passed since a time.
fn after_days(since_ms: u64, days: u32, day_ms: u64) -> u64 {
    let day_ms = day_ms.max(1);
    let passed = since_ms.saturating_add(u64::from(days).saturating_mul(day_ms));
    passed.div_ceil(day_ms).saturating_mul(day_ms)
}

#[cfg(test)]
mod tests;
