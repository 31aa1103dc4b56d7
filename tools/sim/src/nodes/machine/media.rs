//! The disks of a machine, and copies of them.

use std::sync::Arc;

use archipel_cluster::layout::StoreName;
use archipel_storage::disk::MemoryDisk;
use archipel_storage::engine::memory::MemoryEngine;

/// The state that survives a power cut.
#[derive(Clone, Default)]
pub(super) struct Media {
    pub engine: Arc<MemoryEngine>,
    pub disk: Arc<MemoryDisk>,
}

/// A copy of a machine's disks.
pub struct Backup {
    pub(super) media: Media,
    /// The store that was copied.
    pub store: StoreName,
    /// Its run, and the last mark of that run.
    pub mark: (u64, u64),
}

impl Media {
    pub fn copy(&self) -> Media {
        Media {
            engine: Arc::new(self.engine.copy()),
            disk: Arc::new(self.disk.copy()),
        }
    }
}
