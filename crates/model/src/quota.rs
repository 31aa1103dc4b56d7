//! Quotas as data: the most objects and bytes that a bucket or the buckets of a user may hold, and
//! how partitions and buckets share them. Pure. [`room`](crate::room) has the operations.

mod lend;

use archipel_storage::RowKey;
use serde::{Deserialize, Serialize};

pub(crate) use lend::{Lent, lend};

/// The exact number of objects and bytes in a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The number of objects.
    pub objects: u64,
    /// The bytes of content.
    pub bytes: u64,
}

/// The most that a bucket, or all buckets of a user, may hold. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quota {
    /// The most objects, versions included.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// The most bytes of content.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Quota {
    /// Returns the quota unless it limits nothing.
    pub(crate) fn if_any(self) -> Option<Quota> {
        (self != Quota::default()).then_some(self)
    }

    /// Returns the quota that allows nothing of what this one limits.
    pub(crate) fn nothing(self) -> Quota {
        Quota {
            objects: self.objects.map(|_| 0),
            bytes: self.bytes.map(|_| 0),
        }
    }

    /// Returns the lower limits of both.
    pub(crate) fn min(self, other: Quota) -> Quota {
        let lower = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Quota {
            objects: lower(self.objects, other.objects),
            bytes: lower(self.bytes, other.bytes),
        }
    }

    /// Returns true if this much may be added to a bucket that holds `used`. Nothing
    /// always fits.
    pub(crate) fn fits(&self, used: Usage, adding: Usage) -> bool {
        let fits = |limit: Option<u64>, used: u64, adding: u64| {
            adding == 0 || limit.is_none_or(|limit| used.saturating_add(adding) <= limit)
        };
        fits(self.objects, used.objects, adding.objects)
            && fits(self.bytes, used.bytes, adding.bytes)
    }

    /// Returns the share of each partition. `wanted` tells the place of the partition that needs
    /// room, and how much.
    pub(crate) fn shares(&self, used: &[Usage], wanted: Option<(usize, Usage)>) -> Vec<Share> {
        let of = |limit, what: fn(&Usage) -> u64| {
            let used: Vec<u64> = used.iter().map(what).collect();
            divided(limit, &used, wanted.map(|(at, usage)| (at, what(&usage))))
        };
        let objects = of(self.objects, |usage| usage.objects);
        let bytes = of(self.bytes, |usage| usage.bytes);
        let both = objects.into_iter().zip(bytes);
        both.map(|(objects, bytes)| Share { objects, bytes })
            .collect()
    }
}

/// Divides a limit among partitions that use this much of it. Each gets what it uses, the one that
/// wants more gets that first, and the rest is divided equally. Where nothing is left, nobody gets
/// anything: what is deleted in one partition must not be filled up while all hold too much.
fn divided(limit: Option<u64>, used: &[u64], wanted: Option<(usize, u64)>) -> Vec<u64> {
    let Some(limit) = limit else {
        return vec![u64::MAX; used.len()];
    };
    let total = used
        .iter()
        .fold(0, |sum: u64, used| sum.saturating_add(*used));
    let free = limit.saturating_sub(total);
    if free == 0 {
        return vec![0; used.len()];
    }
    let (at, wanted) = wanted.unwrap_or_default();
    let wanted = wanted.min(free);
    let rest = free - wanted;
    let (each, left) = (rest / used.len() as u64, rest % used.len() as u64);
    let mut shares: Vec<u64> = used.iter().map(|used| used + each).collect();
    if let Some(share) = shares.get_mut(at) {
        *share += wanted + left;
    }
    shares
}

/// The part of a quota that a partition may fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Share {
    #[serde(rename = "o")]
    pub objects: u64,
    #[serde(rename = "b")]
    pub bytes: u64,
}

impl Share {
    /// The share that nothing can be added to.
    pub const NONE: Share = Share {
        objects: 0,
        bytes: 0,
    };
}

/// An object that a commit adds to a bucket.
#[derive(Clone, Copy)]
pub(crate) struct Adding<'a> {
    /// The object's row.
    pub row: &'a RowKey,
    /// The bytes of its content.
    pub bytes: u64,
}

impl Adding<'_> {
    pub fn of(row: &RowKey, bytes: u64) -> Adding<'_> {
        Adding { row, bytes }
    }
}

#[cfg(test)]
mod tests;
