//! Queues of updates, one for each row that is being updated here. Rows must not share a queue: in
//! a batch of a thousand updates, many would wait for others that do not concern them.

use std::collections::HashMap;
use std::sync::Arc;

use archipel_storage::RowKey;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

/// The queues.
#[derive(Default)]
pub(crate) struct Queues(Mutex<HashMap<RowKey, Arc<Queue<()>>>>);

/// A turn, or a place in the queue.
pub(crate) struct Turn<'a> {
    queues: &'a Queues,
    key: &'a RowKey,
    held: Option<OwnedMutexGuard<()>>,
}

impl Queues {
    /// Waits for the turn of an update of a row. Turns come in the order of the calls.
    pub(crate) async fn turn<'a>(&'a self, key: &'a RowKey) -> Turn<'a> {
        let queue = {
            let mut queues = self.0.lock();
            queues.entry(key.clone()).or_default().clone()
        };
        let mut turn = Turn {
            queues: self,
            key,
            held: None,
        };
        turn.held = Some(queue.lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut queues = self.queues.0.lock();
        // All who wait hold the queue, too.
        if queues
            .get(self.key)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            queues.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use archipel_base::PartitionId;
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn turns_come_one_after_another_and_leave_nothing() {
        let queues = Queues::default();
        let key = |name: &'static str| RowKey {
            partition: PartitionId(1),
            key: Bytes::from_static(name.as_bytes()),
        };
        let (a, b) = (key("a"), key("b"));
        let first = queues.turn(&a).await;
        let _other = queues.turn(&b).await;
        let mut second = Box::pin(queues.turn(&a));
        let mut gives_up = Box::pin(queues.turn(&a));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut gives_up).is_pending());
        drop(first);
        drop(gives_up);
        drop(second.await);
        assert_eq!(queues.0.lock().len(), 1);
    }
}
