//! Uploads that this node remembers, so that a write of a part does not first read the upload's
//! row.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::owner::{PartsId, UploadName};
use crate::upload::Upload;

/// The largest number of remembered uploads. When it is reached, all are removed at once.
const MOST: usize = 512;

/// Remembered uploads, by bucket, key and id together. Only data that never changes is remembered:
/// a remembered upload may have ended.
#[derive(Debug, Default)]
pub(crate) struct KnownUploads(Mutex<BTreeMap<PartsId, Upload>>);

impl KnownUploads {
    pub fn get(&self, name: &UploadName) -> Option<Upload> {
        self.0.lock().get(&name.parts()).cloned()
    }

    pub fn insert(&self, name: &UploadName, upload: &Upload) {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.parts(), upload.clone());
    }

    /// Removes an upload that has ended.
    pub fn remove(&self, name: &UploadName) {
        self.0.lock().remove(&name.parts());
    }
}
