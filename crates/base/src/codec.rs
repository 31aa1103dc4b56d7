//! Versioned MessagePack, the encoding of all structures that are stored or sent.
//!
//! One byte of version, then MessagePack with named fields. A reader skips unknown fields and uses
//! the default for missing ones (`#[serde(default)]`), so that two adjacent releases can read each
//! other's data. The version changes only when that is not enough; a reader then keeps a branch for
//! the old version.

mod decoder;

use serde::Serialize;
use serde::de::DeserializeOwned;

use decoder::Decoder;

/// The reason why bytes could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are empty, without even a version.
    #[error("empty")]
    Empty,
    /// The version is unknown. A later release has probably written it.
    #[error("unknown version {found} (this release reads {known})")]
    Version {
        /// The version in the bytes.
        found: u8,
        /// The version that this release reads.
        known: u8,
    },
    /// The bytes do not hold the expected structure.
    #[error("malformed: {0}")]
    Malformed(String),
}

/// A structure with its own version number.
pub trait Versioned: Serialize + DeserializeOwned {
    /// The version that is written, and the newest version that is read.
    const VERSION: u8;
}

/// Encodes `value` with its version.
pub fn encode<T: Versioned>(value: &T) -> Vec<u8> {
    let mut bytes = vec![T::VERSION];
    // Writing to a `Vec` cannot fail, and the derived serialisers use no maps with unusual keys.
    rmp_serde::encode::write_named(&mut bytes, value).expect("serialising to memory");
    bytes
}

/// Decodes the result of [`encode`]. Trailing bytes are an error.
pub fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (&version, rest) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if version != T::VERSION {
        return Err(DecodeError::Version {
            found: version,
            known: T::VERSION,
        });
    }
    // Names and strings are borrowed from `rest`.
    let mut decoder = Decoder::new(rest);
    let value = T::deserialize(&mut decoder).map_err(|e| DecodeError::Malformed(e.to_string()))?;
    match decoder.is_at_end() {
        true => Ok(value),
        false => Err(DecodeError::Malformed("trailing bytes".into())),
    }
}
