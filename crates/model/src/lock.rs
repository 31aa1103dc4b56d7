//! Object lock as data: who may delete a version, and who may change its protection. Pure.
//!
//! Source: AWS, "Locking objects with Object Lock" and "Object Lock considerations".

use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

/// The longest retention, in days: 100 years.
pub const MAX_RETENTION_DAYS: u32 = 36_500;

const DAY_MS: u64 = 24 * 3600 * 1000;
const DAYS_OF_A_YEAR: u32 = 365;

/// The strictness with which a retention protects a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RetentionMode {
    /// Those with the permission may bypass it.
    #[serde(rename = "g")]
    Governance,
    /// Nobody may bypass, shorten or remove it.
    #[serde(rename = "c")]
    Compliance,
}

/// Protects a version until a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Retention {
    /// Its strictness.
    #[serde(rename = "m")]
    pub mode: RetentionMode,
    /// Until when, in milliseconds since 1970.
    #[serde(rename = "u")]
    pub until_ms: u64,
}

impl Retention {
    /// Returns true if the retention still protects.
    fn is_active(&self, now_ms: u64) -> bool {
        self.until_ms > now_ms
    }

    /// Returns true if a bypass of governance lifts the retention.
    fn yields(&self, governance: Governance) -> bool {
        governance == Governance::Bypass && self.mode == RetentionMode::Governance
    }
}

/// The effect of retentions under governance on a caller. Its encoding is a boolean, true for a
/// bypass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Governance {
    /// They protect.
    Respect,
    /// The caller bypasses them, and may do so.
    Bypass,
}

impl From<bool> for Governance {
    fn from(bypasses: bool) -> Governance {
        match bypasses {
            true => Governance::Bypass,
            false => Governance::Respect,
        }
    }
}

impl From<Governance> for bool {
    fn from(governance: Governance) -> bool {
        governance == Governance::Bypass
    }
}

/// The protection of one version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectLock {
    /// The retention, if there is one.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// True for a legal hold, which protects until it is lifted; `None` if none was ever set.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub legal_hold: Option<bool>,
}

impl ObjectLock {
    /// Returns true if nothing was ever set.
    pub fn is_empty(&self) -> bool {
        *self == ObjectLock::default()
    }

    /// Returns true if the version must not be deleted now.
    pub fn protects(&self, now_ms: u64, governance: Governance) -> bool {
        let retained = self
            .retention
            .is_some_and(|retention| retention.is_active(now_ms) && !retention.yields(governance));
        retained || self.legal_hold == Some(true)
    }

    /// Returns true if the retention may be replaced by `new` now. Everybody may prolong a
    /// retention. Only a bypass of governance may shorten, remove or convert one.
    pub fn may_become(&self, new: Option<Retention>, now_ms: u64, governance: Governance) -> bool {
        let Some(old) = self.retention.filter(|old| old.is_active(now_ms)) else {
            return true;
        };
        let prolongs = new.is_some_and(|new| new.mode == old.mode && new.until_ms >= old.until_ms);
        prolongs || old.yields(governance)
    }
}

/// A thing that an operation would take from a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Taking {
    /// The version itself.
    #[serde(rename = "v")]
    Version {
        /// The effect of governance on the caller.
        #[serde(rename = "b")]
        governance: Governance,
    },
    /// The retention, for another one or none.
    #[serde(rename = "r")]
    Retention {
        /// The new retention.
        #[serde(rename = "n")]
        new: Option<Retention>,
        /// The effect of governance on the caller.
        #[serde(rename = "b")]
        governance: Governance,
    },
}

impl Versioned for Taking {
    const VERSION: u8 = 1;
}

/// The length of a default retention.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RetentionPeriod {
    /// Days.
    #[serde(rename = "d")]
    Days(u32),
    /// Years of 365 days.
    #[serde(rename = "y")]
    Years(u32),
}

impl RetentionPeriod {
    /// Returns the number of days.
    pub fn days(self) -> u32 {
        match self {
            RetentionPeriod::Days(days) => days,
            RetentionPeriod::Years(years) => years.saturating_mul(DAYS_OF_A_YEAR),
        }
    }
}

/// The retention of new versions for which the client asks for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DefaultRetention {
    /// Its strictness.
    #[serde(rename = "m")]
    pub mode: RetentionMode,
    /// For how long.
    #[serde(rename = "p")]
    pub period: RetentionPeriod,
}

/// The object lock configuration of a bucket. A bucket that has one keeps versioning enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BucketLock {
    /// The retention of new versions, if there is one.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultRetention>,
}

impl BucketLock {
    /// Returns the protection of a version that is written now, for which a client asked for
    /// `asked`.
    pub fn of_new(&self, asked: ObjectLock, now_ms: u64) -> ObjectLock {
        let default = self.default.map(|default| Retention {
            mode: default.mode,
            until_ms: now_ms.saturating_add(u64::from(default.period.days()) * DAY_MS),
        });
        ObjectLock {
            retention: asked.retention.or(default),
            ..asked
        }
    }
}

#[cfg(test)]
mod tests;
