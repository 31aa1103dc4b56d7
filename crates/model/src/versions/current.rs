//! The current version of a key whose object's row was deleted by old settings.

use archipel_base::boxed;
use archipel_cluster::{Current, Decision, WriteOptions};
use archipel_storage::{RowKey, VersionKind};

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::events::{Happening, Trigger};
use crate::version_rows;

impl Model {
    /// Makes sure that a key with living versions has a current one. Returns false if its row says
    /// that all of its versions were deleted: what lives is a write without an answer.
    ///
    /// A node that has not heard of versions deletes the row, which leaves no delete marker. Most
    /// replicas refuse that. But a reader has to complete what it finds at one of them, and the row
    /// is deleted while older versions live. The deletion was of the key. So the delete marker is
    /// written that it lacks.
    #[boxed]
    pub(crate) async fn settle_current(
        &self,
        bucket: &Bucket,
        row: &RowKey,
    ) -> Result<bool, Error> {
        let seen = self.cluster().head_stamped(row).await?;
        if let Some(value) = seen.value {
            return Ok(value.kind() != VersionKind::Void);
        }
        // The client that lists the versions did not delete the key, so the event does not name it.
        // And no lifecycle rule did.
        let server = Model {
            cause: None,
            ..self.clone()
        };
        let server = &server;
        let commit = |newer: Option<std::sync::Arc<Bucket>>| async move {
            let bucket = newer.as_deref().unwrap_or(bucket);
            if !bucket.versioning.has_versions() {
                return Ok(false);
            }
            let how = WriteOptions {
                guards: vec![self.fence_of(bucket, row).unlimited()],
                companions: server.events_of(bucket, row, Happening::Marked, Trigger::Other),
                background: true,
                ..WriteOptions::durable(self.durability(bucket))
            };
            // A newer row may say that its versions were deleted.
            let decide = |current: Current<'_>| match current.stamp == seen.stamp {
                true => Decision::Write(Some(self.new_marker())),
                false => Decision::Abort(()),
            };
            let making = bucket.versioning.of_writes();
            let written = version_rows::update(self.cluster(), row, how, making, decide);
            // In either case the row is another one now.
            Box::pin(written).await?.unwrap_or_default();
            Ok(true)
        };
        let marked = self.commit_by_settings(bucket, None, commit).await?;
        self.wake_gc();
        Ok(marked)
    }
}
