//! What is in use: content in rows of its own that somebody writes or reads here is not swept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use archipel_base::Id;

/// What is being written or read in this process, by the name of the content (an extent group or an upload).
#[derive(Debug, Default)]
pub(crate) struct Active(Mutex<HashMap<Id, usize>>);

/// Keeps content from being swept while it lives.
#[derive(Debug)]
pub(crate) struct ActiveGuard {
    active: Arc<Active>,
    content: Id,
}

impl Active {
    /// Marks `content` as in use.
    pub fn enter(self: &Arc<Active>, content: Id) -> ActiveGuard {
        let mut in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *in_use.entry(content).or_default() += 1;
        ActiveGuard {
            active: self.clone(),
            content,
        }
    }

    /// Whether it is in use here.
    pub fn contains(&self, content: &Id) -> bool {
        let in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.contains_key(content)
    }
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        let mut in_use = self.active.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_use.get_mut(&self.content) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(&self.content);
            }
        }
    }
}
