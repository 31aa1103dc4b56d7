//! The memory of accepted writes.

use std::collections::HashMap;

use archipel_storage::RowKey;

use crate::register::Recent;

/// Accepted writes that are remembered, by row. There are two generations, so that dropping old
/// ones is cheap and recently used ones stay.
pub(super) struct Remembered {
    /// The number of rows at most.
    most: usize,
    /// The store's era. Writes of an earlier era may belong to transactions that were undone, or to
    /// rows that were purged.
    era: u64,
    pub young: HashMap<RowKey, Recent>,
    pub old: HashMap<RowKey, Recent>,
}

impl Remembered {
    pub fn new(most: usize) -> Remembered {
        Remembered {
            most,
            era: 0,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub fn take(&mut self, key: &RowKey, era: u64) -> Option<Recent> {
        if self.era != era {
            *self = Remembered {
                era,
                ..Remembered::new(self.most)
            };
        }
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    pub fn put(&mut self, key: RowKey, recent: Recent) {
        if self.young.len() >= self.most / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, recent);
    }
}
