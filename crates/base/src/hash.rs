//! Hashes: the names of blocks and the placement of keys.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{Id, PartitionId};

/// The BLAKE3 hash of a block's content before compression. It is the block's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub [u8; 32]);

impl BlockHash {
    /// Returns the name of `content`.
    pub fn of(content: &[u8]) -> BlockHash {
        BlockHash(*blake3::hash(content).as_bytes())
    }

    /// Returns the bytes, which sort like the hashes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", hex::encode(&self.0[..6]))
    }
}

impl Serialize for BlockHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for BlockHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BlockHash, D::Error> {
        let bytes = serde_bytes::ByteArray::<32>::deserialize(deserializer)?;
        Ok(BlockHash(*bytes))
    }
}

/// Returns a 64-bit hash of a sequence of fields. Each field is preceded by its length, so that
/// different sequences feed different bytes. The result must never change, because placement
/// depends on it.
pub fn placement_hash(fields: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for field in fields {
        hasher.update(&(field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_be_bytes(first)
}

/// Returns an id that follows from `fields`, each preceded by its length. `purpose` keeps the ids
/// of one use apart from those of another. It is not feasible to find other fields with a given id.
pub fn derived_id(purpose: &str, fields: &[&[u8]]) -> Id {
    let mut hasher = blake3::Hasher::new_derive_key(purpose);
    for field in fields {
        hasher.update(&(field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Id(id)
}

/// Returns the partition of a placement hash, out of `partitions` (a power of two, at most 2^15).
pub fn partition_of(hash: u64, partitions: u16) -> PartitionId {
    debug_assert!(partitions.is_power_of_two() && partitions <= 1 << 15);
    PartitionId((hash >> 48) as u16 & (partitions - 1))
}
