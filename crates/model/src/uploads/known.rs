//! Uploads that this node has seen, so that writing a part needs not ask for them first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use archipel_base::Id;

use crate::upload::Upload;

/// How many are remembered; then all are forgotten at once.
const MOST: usize = 512;

/// What never changes of uploads: that one is known says nothing of whether it still is there.
#[derive(Debug, Default)]
pub(crate) struct KnownUploads(Mutex<BTreeMap<Id, Upload>>);

impl KnownUploads {
    pub fn get(&self, id: &Id) -> Option<Upload> {
        self.lock().get(id).cloned()
    }

    pub fn keep(&self, upload: &Upload) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(upload.id, upload.clone());
    }

    /// It has ended, as far as this node knows.
    pub fn forget(&self, id: &Id) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Upload>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
