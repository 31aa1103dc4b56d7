//! Ids of uploads, which sort as the uploads began.

use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::Id;

/// Makes ids of uploads. Each begins with the time and a count, so that the uploads of a key that
/// one node begins sort in their order, also within a millisecond.
#[derive(Debug, Default)]
pub(crate) struct UploadIds {
    /// The first eight bytes of the last id.
    last: AtomicU64,
}

impl UploadIds {
    /// Returns an id for an upload that begins now. Its end is that of a random id, which keeps the
    /// ids of different nodes apart.
    pub fn next(&self, random: Id, now_ms: u64) -> Id {
        let next = |last: u64| (now_ms << 16).max(last.wrapping_add(1));
        let order = Ordering::Relaxed;
        let last = self
            .last
            .fetch_update(order, order, |last| Some(next(last)));
        let mut id = random;
        id.0[..8].copy_from_slice(&next(last.unwrap_or_default()).to_be_bytes());
        id
    }
}

#[cfg(test)]
mod tests {
    use archipel_base::Id;

    use super::UploadIds;

    #[test]
    fn ids_sort_as_they_were_made() {
        let ids = UploadIds::default();
        // The clock stands still, goes on, and is set back.
        let times = [7, 7, 8, 8, 5, 9];
        let ends = [9, 1, 7, 3, 8, 2].map(|byte| Id([byte; 16]));
        let made: Vec<Id> = (times.into_iter().zip(ends))
            .map(|(now_ms, end)| ids.next(end, now_ms))
            .collect();
        assert!(made.is_sorted() && made.iter().all(|id| id.0[8..] != [0; 8]));
        assert_eq!(made[5].0[..8], [0, 0, 0, 0, 0, 9, 0, 0]);
    }
}
