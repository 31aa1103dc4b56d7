//! Uploads that this node remembers, so that a write of a part does not first read the upload's
//! row; and parts that take no more attempts.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use crate::owner::{PartsId, UploadName};
use crate::upload::Upload;

/// The largest number of remembered uploads, and of remembered parts. When it is reached, all
/// uploads are removed at once, but only the oldest part: the others must not take attempts again.
const MOST: usize = 512;

/// Remembered uploads and parts.
#[derive(Debug, Default)]
pub(crate) struct KnownUploads {
    /// Uploads by bucket, key and id together. Only data that never changes is remembered: a
    /// remembered upload may have ended.
    uploads: Mutex<BTreeMap<PartsId, Upload>>,
    /// The parts, by upload and number, that were sent as often as is allowed, the oldest first.
    full: Mutex<VecDeque<(PartsId, u16)>>,
}

impl KnownUploads {
    pub fn get(&self, name: &UploadName) -> Option<Upload> {
        self.uploads.lock().get(&name.parts()).cloned()
    }

    pub fn insert(&self, name: &UploadName, upload: &Upload) {
        let mut known = self.uploads.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.parts(), upload.clone());
    }

    /// Removes an upload that has ended.
    pub fn remove(&self, name: &UploadName) {
        self.uploads.lock().remove(&name.parts());
    }

    /// Notes that a part takes no more attempts.
    pub fn fill(&self, parts: PartsId, number: u16) {
        let mut full = self.full.lock();
        if full.contains(&(parts, number)) {
            return;
        }
        if full.len() >= MOST {
            full.pop_front();
        }
        full.push_back((parts, number));
    }

    /// Returns true if a part is known to take no more attempts.
    pub fn is_full(&self, parts: PartsId, number: u16) -> bool {
        self.full.lock().contains(&(parts, number))
    }
}

#[cfg(test)]
mod tests {
    use archipel_base::Id;

    use super::*;

    /// All were forgotten at once, so a client that filled many parts could send all of them on and
    /// on.
    #[test]
    fn one_full_part_too_many_lets_only_the_oldest_go() {
        let known = KnownUploads::default();
        let parts = PartsId(Id([1; 16]));
        let most = MOST as u16;
        for number in 1..=most {
            known.fill(parts, number);
            // Known already.
            known.fill(parts, 1);
        }
        assert!((1..=most).all(|number| known.is_full(parts, number)));
        known.fill(parts, most + 1);
        assert!(!known.is_full(parts, 1));
        assert!((2..=most + 1).all(|number| known.is_full(parts, number)));
    }
}
