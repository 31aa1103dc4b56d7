//! Checks of keys and bounds that all engines share, so that no engine meets the odd ones.

use std::ops::Bound;

use super::{KeyRange, MAX_KEY_BYTES, Result};
use crate::error::Error;

/// Returns true if an engine can hold `key` at all.
pub(super) fn is_possible(key: &[u8]) -> bool {
    !key.is_empty() && key.len() <= MAX_KEY_BYTES
}

/// Refuses a key that no engine can hold.
pub(super) fn check(key: &[u8]) -> Result<()> {
    if is_possible(key) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "a key of {} bytes; keys are 1 to {MAX_KEY_BYTES} bytes long",
        key.len()
    )))
}

/// Normalizes a range: removes empty keys as bounds, and returns `None` if nothing can be in the
/// range. Engines react differently to such ranges (an error, a panic, nothing), so they never get
/// one.
pub(super) fn possible_range(range: KeyRange<'_>) -> Option<KeyRange<'_>> {
    let lower = match range.0 {
        // No key is empty, so every key is above the bound.
        Bound::Included(key) | Bound::Excluded(key) if key.is_empty() => Bound::Unbounded,
        other => other,
    };
    let nothing = match (lower, range.1) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b))
        | (Bound::Excluded(a), Bound::Included(b)) => a >= b,
        (Bound::Unbounded, Bound::Included(b) | Bound::Excluded(b)) => b.is_empty(),
        (_, Bound::Unbounded) => false,
    };
    (!nothing).then_some((lower, range.1))
}
