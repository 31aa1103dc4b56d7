//! The content of objects: bytes that follow from a number, so that a reader can check all of them.

use archipel_model::BLOCK_BYTES;
use bytes::Bytes;

use crate::rng::Rng;

/// Returns the content of the object with this number. Most are small, some take blocks.
pub fn content(value: u32) -> Bytes {
    let mut rng = Rng::new(u64::from(value));
    let size = match rng.below(100) {
        0..60 => rng.between(0, 100),
        60..90 => rng.between(3000, 40_000),
        90..98 => rng.between(100_000, 300_000),
        _ => rng.between(BLOCK_BYTES as u64 - 10, 2 * BLOCK_BYTES as u64 + 10),
    };
    let words = (0..size.div_ceil(8)).flat_map(|_| rng.number().to_le_bytes());
    words.take(size as usize).collect()
}

/// Returns the entity tag of that object.
pub fn etag(value: u32) -> String {
    format!("{value:08}")
}

/// Returns the number of the object with this entity tag.
pub fn value_of(etag: &str) -> Option<u32> {
    etag.parse().ok()
}
