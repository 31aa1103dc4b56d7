//! The keys that seal the tokens of sessions: one row, and a new key each day.
//!
//! A key stays for as long as a session that it sealed can last. Every node has the row in its
//! cache, so checking a token asks no other node. In the row the keyring seals the keys.

use archipel_base::Id;
use archipel_base::codec::{self, DecodeError, Versioned};
use serde::{Deserialize, Serialize};

use super::session::MAX_SESSION_S;
use crate::cipher::sealed::{OpenSecrets, Purpose, Sealed, Sealer};
use crate::error::Error;
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
    /// The key, if it is known. Rows hold it only if nothing seals secrets.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<[u8; 32]>,
    /// The key, sealed by the keyring.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    sealed: Option<Sealed>,
    /// The time of creation in milliseconds since 1970.
    #[serde(rename = "c", default)]
    created_ms: u64,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey {}", self.number)
    }
}

impl TokenKey {
    /// Returns the key if this node can open it.
    pub(crate) fn checked(self) -> Result<TokenKey, Error> {
        match self.secret {
            Some(_) => Ok(self),
            None => {
                let number = self.number;
                let why = format!("key {number} of session tokens cannot be opened by this node");
                Err(Error::NoMasterKey(why))
            }
        }
    }

    fn seal(&mut self, sealer: &Sealer) -> Result<(), Error> {
        let Some(secret) = &self.secret else {
            return Ok(());
        };
        let name = self.number.to_string();
        let sealed = sealer.seal(Purpose::TokenKey, &name, secret);
        self.sealed = Some(sealed.ok_or_else(Error::not_sealed)?);
        Ok(())
    }

    fn open(&mut self, ring: &dyn OpenSecrets) {
        let name = self.number.to_string();
        let sealed = self.sealed.as_ref();
        let opened = sealed.and_then(|sealed| ring.open(Purpose::TokenKey, &name, sealed));
        let opened = opened.and_then(|secret| secret[..].try_into().ok());
        self.secret = opened.or(self.secret);
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

    /// Returns the metadata of the row. It holds no key in plain text that is sealed.
    pub(crate) fn row(&self) -> Vec<u8> {
        let mut row = self.clone();
        let sealed = row.keys.iter_mut().filter(|key| key.sealed.is_some());
        sealed.for_each(|key| key.secret = None);
        codec::encode(&row)
    }

    /// Reads a row. Leaves out the keys themselves where this node cannot open them.
    pub(crate) fn of_row(row: &[u8], ring: &dyn OpenSecrets) -> Result<TokenKeys, DecodeError> {
        let mut keys: TokenKeys = codec::decode(row)?;
        keys.keys.iter_mut().for_each(|key| key.open(ring));
        Ok(keys)
    }

    /// Returns the keys of the ring that seal them; `None` for one that nothing seals.
    pub(crate) fn sealed_by(&self) -> impl Iterator<Item = Option<Id>> {
        let sealed = self.keys.iter().map(|key| key.sealed.as_ref());
        sealed.map(|sealed| sealed.map(|sealed| sealed.by))
    }

    /// Returns the number of keys that this node cannot open.
    pub(crate) fn closed(&self) -> usize {
        self.keys.iter().filter(|key| key.secret.is_none()).count()
    }

    /// Seals the newest key.
    pub(crate) fn seal_newest(&mut self, sealer: &Sealer) -> Result<(), Error> {
        self.keys.last_mut().map_or(Ok(()), |key| key.seal(sealer))
    }

    /// Seals the keys that another key of the ring seals, or none.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if one of them does not open.
    pub(crate) fn reseal(&mut self, sealer: &Sealer) -> Result<(), Error> {
        for key in &mut self.keys {
            if key.sealed.as_ref().is_some_and(|s| s.by == sealer.by()) {
                continue;
            }
            if key.secret.is_none() {
                let why = format!("key {} of session tokens does not open", key.number);
                return Err(Error::NoMasterKey(why));
            }
            key.seal(sealer)?;
        }
        Ok(())
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
            secret: Some(secret),
            sealed: None,
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
