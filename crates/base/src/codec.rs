//! Versioned MessagePack: how structures are stored and sent.
//!
//! One byte of version, then MessagePack with named fields. A reader skips fields that it does
//! not know and takes the default for those that are missing (`#[serde(default)]`), so two
//! adjacent releases read one another. The version changes only when that is not enough; a
//! reader then keeps a branch for the old one.

use rmp_serde::decode::Error as Malformed;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

/// Why bytes could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There is not even a version.
    #[error("empty")]
    Empty,
    /// A version that this program does not know, most likely of a later release.
    #[error("version {found} is not known (this release reads {known})")]
    Version {
        /// What the bytes say.
        found: u8,
        /// What this program reads.
        known: u8,
    },
    /// The bytes do not hold what is expected.
    #[error("malformed: {0}")]
    Malformed(String),
}

/// A structure with a version of its own.
pub trait Versioned: Serialize + DeserializeOwned {
    /// The version that is written, and the newest that is read.
    const VERSION: u8;
}

/// Encodes `value` with its version.
pub fn encode<T: Versioned>(value: &T) -> Vec<u8> {
    let mut bytes = vec![T::VERSION];
    // Writing to a Vec does not fail, and our types serialise (derived, no maps with odd keys).
    rmp_serde::encode::write_named(&mut bytes, value).expect("serialising to memory");
    bytes
}

/// Decodes what [`encode`] wrote. Trailing bytes are an error.
pub fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (&version, rest) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if version != T::VERSION {
        return Err(DecodeError::Version {
            found: version,
            known: T::VERSION,
        });
    }
    // Borrows names and strings from `rest`; a reader of a stream would copy each of them first.
    let mut reader = rmp_serde::Deserializer::from_read_ref(rest);
    let value = T::deserialize(&mut reader).map_err(|e| DecodeError::Malformed(e.to_string()))?;
    // It does not tell how far it is, but without one more byte nothing more begins.
    match IgnoredAny::deserialize(&mut reader) {
        Err(Malformed::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(DecodeError::Malformed("trailing bytes".into())),
    }
}
