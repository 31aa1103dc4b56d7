//! Identifiers: random 128-bit names and partition numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::random::Random;

/// A random 128-bit name of a bucket, an upload, a version or an extent group.
///
/// Any node can make one without asking another. The text form has 32 lower-case hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// Returns a new random name.
    pub fn random(random: &dyn Random) -> Id {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Id(bytes)
    }

    /// Returns the bytes, which sort like the names.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The error for a text that is not an [`Id`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier: expected 32 hexadecimal digits")]
pub struct ParseIdError;

impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Id, ParseIdError> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseIdError)?;
        Ok(Id(bytes))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?
                .parse()
                .map_err(serde::de::Error::custom)
        } else {
            let bytes = serde_bytes::ByteArray::<16>::deserialize(deserializer)?;
            Ok(Id(*bytes))
        }
    }
}

/// The number of a slice of the hash space: `0..P` with P a power of two, or
/// [`CONTROL`](PartitionId::CONTROL).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// The partition of buckets, access keys and the layout. The control group holds it.
    pub const CONTROL: PartitionId = PartitionId(u16::MAX);
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == PartitionId::CONTROL {
            f.write_str("control")
        } else {
            write!(f, "{}", self.0)
        }
    }
}
