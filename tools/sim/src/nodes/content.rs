//! The content of objects: bytes that follow from a number, so that a reader can check all of them.

use archipel_model::BLOCK_BYTES;
use bytes::Bytes;

use crate::rng::Rng;

/// The bits of a number that tell apart the completions of one upload.
const ATTEMPT: u32 = 28;

/// Returns the number of the object that a completion of an upload makes.
pub fn attempt(base: u32, attempt: u32) -> u32 {
    base | attempt << ATTEMPT
}

/// Returns the number of the content of the object with this number.
pub fn content_of(value: u32) -> u32 {
    value & ((1 << ATTEMPT) - 1)
}

/// Returns the content of the object with this number. Most are small, some take blocks.
pub fn content(value: u32) -> Bytes {
    let mut rng = Rng::new(u64::from(content_of(value)));
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
