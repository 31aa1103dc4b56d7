//! The keys that seal the tokens of sessions: one row, and a new key each day.
//!
//! A key stays for as long as a session that it sealed can last. Every node has the row in its cache,
//! so checking a token asks no other node.

use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use super::session::MAX_SESSION_S;
use crate::rowkeys;

/// The time for which new tokens are sealed with one key.
const ROTATION_MS: u64 = 24 * 3600 * 1000;

/// The differences of clocks that are allowed for when a key is dropped.
const SKEW_MS: u64 = 3600 * 1000;

/// A key that seals tokens. Debug output does not show it.
#[derive(Clone, Serialize, Deserialize)]
pub struct TokenKey {
    /// The number, which tokens name.
    #[serde(rename = "n")]
    pub(super) number: u32,
    /// The key.
    #[serde(rename = "k")]
    pub(super) secret: [u8; 32],
    /// The time of creation in milliseconds since 1970.
    #[serde(rename = "c", default)]
    created_ms: u64,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey {}", self.number)
    }
}

/// All keys that seal or have sealed tokens, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TokenKeys {
    #[serde(default)]
    keys: Vec<TokenKey>,
}

impl Versioned for TokenKeys {
    const VERSION: u8 = 1;
}

impl TokenKeys {
    /// The kind in the key of the row.
    pub(crate) const KIND: u8 = rowkeys::TOKEN_KEYS;

    /// Returns the key of that number.
    pub(crate) fn of_number(&self, number: u32) -> Option<&TokenKey> {
        self.keys.iter().find(|key| key.number == number)
    }

    /// Returns the key that seals at this time.
    pub(crate) fn sealing(&self, now_ms: u64) -> Option<&TokenKey> {
        let newest = self.keys.last()?;
        // A clock that is behind must not make a key of its own.
        (now_ms < newest.created_ms.saturating_add(ROTATION_MS)).then_some(newest)
    }

    /// Adds a key, unless there is one that seals at this time. Drops keys whose tokens are over.
    pub(crate) fn rotated(&self, secret: [u8; 32], now_ms: u64) -> Option<TokenKeys> {
        if self.sealing(now_ms).is_some() {
            return None;
        }
        let over = |key: &TokenKey| {
            let last = key.created_ms + ROTATION_MS + MAX_SESSION_S * 1000 + SKEW_MS;
            last < now_ms
        };
        let mut keys: Vec<_> = self.keys.iter().filter(|key| !over(key)).cloned().collect();
        keys.push(TokenKey {
            number: self.keys.last().map_or(1, |key| key.number.wrapping_add(1)),
            secret,
            created_ms: now_ms,
        });
        Some(TokenKeys { keys })
    }
}

#[cfg(test)]
mod tests {
    use super::{ROTATION_MS, TokenKeys};

    #[test]
    fn keys_rotate_and_stay_as_long_as_their_tokens() {
        let first = TokenKeys::default().rotated([1; 32], 1000).unwrap();
        assert!(first.rotated([2; 32], 1000 + ROTATION_MS - 1).is_none());
        let second = first.rotated([2; 32], 1000 + ROTATION_MS).unwrap();
        assert!(second.of_number(1).is_some());
        assert_eq!(second.sealing(1000 + ROTATION_MS).unwrap().number, 2);
        let third = second.rotated([3; 32], 1000 + 3 * ROTATION_MS).unwrap();
        assert!(third.of_number(1).is_none());
        assert!(third.of_number(2).is_some());
        assert!(!format!("{third:?}").contains("[3, 3"));
    }
}
