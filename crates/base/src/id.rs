//! Names of things: random 128-bit identifiers and partition numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::random::Random;

/// A 128-bit name: of a bucket, an upload, a version, an extent group.
///
/// Random, so that any node may make one without asking another. Shown as 32 lower-case
/// hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// A fresh name.
    pub fn random(random: &dyn Random) -> Id {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Id(bytes)
    }

    /// The bytes, in the order in which names sort.
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

/// A string that is not an [`Id`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier: 32 hexadecimal digits are expected")]
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

/// The number of one slice of the hash space: `0..P` with P a power of two, or [`CONTROL`](PartitionId::CONTROL).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// Where buckets, access keys and the layout are kept: a partition of its own, on the control group.
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
