//! Marks of content that this process writes or reads. GC does not drop content that is in use.

use std::collections::HashMap;
use std::sync::Arc;

use archipel_base::Id;
use parking_lot::Mutex;

/// The content that this process writes or reads, by name: an extent group or an upload's parts.
#[derive(Debug, Default)]
pub(crate) struct InUse(Mutex<HashMap<Id, usize>>);

/// A mark that keeps GC from dropping content while it lives.
#[derive(Debug)]
pub(crate) struct InUseMark {
    all: Arc<InUse>,
    content: Id,
}

impl InUse {
    /// Marks `content` as in use.
    pub fn mark(self: &Arc<InUse>, content: Id) -> InUseMark {
        *self.0.lock().entry(content).or_default() += 1;
        InUseMark {
            all: self.clone(),
            content,
        }
    }

    /// Returns true if `content` is in use in this process.
    pub fn contains(&self, content: &Id) -> bool {
        self.0.lock().contains_key(content)
    }
}

impl Drop for InUseMark {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock();
        if let Some(count) = counts.get_mut(&self.content) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.content);
            }
        }
    }
}
