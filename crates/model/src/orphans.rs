//! Search for orphans: extents and parts whose owner does not refer to them and for which no GC
//! task is queued. The task was in the queue of a node that is gone for good, or the writer crashed
//! before it queued the task.
//!
//! The replicas of a partition take turns to look through its extents and parts. They queue a
//! [GC](crate::gc) task for each tail or upload whose owner does not refer to it.
//!
//! # Invariants
//! - The search drops nothing. GC asks the owner again, and settles the owner's row first.
//! - The search skips an extent while the store of its writer is in a live layout, because the
//!   queue of that store has the task and the writer may not have finished.
//! - The search skips rows that were written recently.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId, boxed};
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::{RowMetadata, RowReader};
use bytes::Bytes;

use crate::Model;
use crate::error::Error;
use crate::form::ExtentHead;
use crate::gc::{self, GcTask};
use crate::owner::{Owner, UploadName};
use crate::rowkeys;
use crate::upload::Part;

/// The pause between two rounds of the search.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// The lowest age of an orphan's row.
const AGE: Duration = Duration::from_secs(24 * 3600);
/// The number of rows in one read.
const PAGE: usize = 1000;
/// The pause after each read of an owner's row.
const PAUSE: Duration = Duration::from_millis(50);

/// An extent or a part that may be an orphan.
struct Candidate {
    /// The task to queue if it is an orphan.
    task: GcTask,
    /// The attempt, if it is a part.
    attempt: Option<Id>,
}

/// Answers of owners in one search, so that it asks each owner once.
#[derive(Default)]
struct Answers {
    /// Tails and uploads whose owner need not be asked again.
    done: BTreeSet<Id>,
    /// The needed parts of the last upload; `None` if all are needed.
    upload: Option<(Id, Option<HashSet<Id>>)>,
    /// The content of the tasks that wait in this node's queue, once they were read.
    queued: Option<HashSet<Id>>,
}

impl Model {
    /// Searches for orphans once a day, until it is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn find_orphans_forever(&self) {
        for round in 0.. {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.find_orphans(AGE, Some(round)).await {
                tracing::warn!(%error, "the search for orphans left partitions out; next try in a day");
            }
        }
    }

    /// Searches once for orphans of at least this age and queues a GC task for each. Returns the
    /// number of queued tasks. With a `round`, searches only the partitions in which it is this
    /// node's turn.
    ///
    /// # Errors
    /// The first error of a partition. The others are searched all the same.
    #[boxed]
    pub async fn find_orphans(&self, age: Duration, round: Option<usize>) -> Result<u64, Error> {
        let mut found = 0;
        let mut failed = None;
        let mut answers = Answers::default();
        for partition in self.cluster().local_partitions(round) {
            let search = self.find_orphans_of(partition, age, &mut answers, &mut found);
            if let Err(error) = search.await {
                tracing::debug!(%error, %partition, "the search for orphans left a partition");
                failed.get_or_insert(error);
            }
        }
        if found > 0 {
            tracing::info!(found, "the search for orphans has queued GC tasks");
            self.wake_gc();
        }
        failed.map_or(Ok(found), Err)
    }

    async fn find_orphans_of(
        &self,
        partition: PartitionId,
        age: Duration,
        answers: &mut Answers,
        found: &mut u64,
    ) -> Result<(), Error> {
        let before_ms = self.now_ms().saturating_sub(age.as_millis() as u64);
        for prefix in [rowkeys::ALL_EXTENTS, rowkeys::ALL_PARTS] {
            let mut after = None;
            loop {
                let (rows, last) = self.page(partition, prefix.clone(), after).await?;
                for (key, metadata) in rows {
                    let old = metadata.stamp.millis() <= before_ms;
                    let Some(candidate) = self.candidate(&key, &metadata).filter(|_| old) else {
                        continue;
                    };
                    if self.is_needed(&candidate, answers).await?
                        || self.is_queued(&candidate, answers).await?
                    {
                        continue;
                    }
                    answers.done.insert(candidate.task.content());
                    let task = codec::encode(&candidate.task).into();
                    self.cluster()
                        .queue_push(task, Durability::Buffered)
                        .await?;
                    *found += 1;
                }
                match last {
                    Some(last) => after = Some(last),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Returns live rows after a key, and the key of the last row that was read if more may follow.
    pub(crate) async fn page(
        &self,
        partition: PartitionId,
        prefix: Bytes,
        after: Option<Bytes>,
    ) -> Result<(Vec<(Bytes, RowMetadata)>, Option<Bytes>), Error> {
        let look = move |rows: &RowReader<'_>| {
            let (mut found, mut seen, mut last) = (Vec::new(), 0, None);
            let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            rows.scan_metadata(partition, &prefix, start, &mut |key, metadata| {
                seen += 1;
                let key = Bytes::copy_from_slice(key);
                if seen == PAGE {
                    last = Some(key.clone());
                }
                match metadata {
                    Some(metadata) if metadata.is_live() => found.push((key, metadata)),
                    Some(_) => {}
                    None => {
                        tracing::error!(%partition, key = %key.escape_ascii(), "a damaged row may be an orphan");
                    }
                }
                Ok(if seen < PAGE {
                    Flow::Continue
                } else {
                    Flow::Stop
                })
            })?;
            Ok((found, last))
        };
        let read = self.cluster().store().read(look).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }

    /// Returns a row as a candidate, if it may be an orphan.
    fn candidate(&self, key: &[u8], metadata: &RowMetadata) -> Option<Candidate> {
        let bytes = metadata.metadata.as_ref()?;
        if let Some(group) = rowkeys::group_of(key) {
            let extent: ExtentHead = decoded(bytes)?;
            let writer = extent.store?;
            return (!self.cluster().is_store_in_layout(writer)).then_some(Candidate {
                task: GcTask::Tail {
                    owner: extent.owner,
                    group,
                },
                attempt: None,
            });
        }
        let Owner::Part { parts, attempt, .. } = rowkeys::owner_of(key)? else {
            return None;
        };
        let part: Part = decoded(bytes)?;
        // The row's key decides which upload the part belongs to.
        (part.of.parts() == parts).then_some(Candidate {
            task: GcTask::Upload(part.of),
            attempt: Some(attempt),
        })
    }

    /// Returns true if a task for the candidate waits in this node's queue. It may wait for long:
    /// until a store that is gone is back, or has another one in its place.
    async fn is_queued(&self, candidate: &Candidate, answers: &mut Answers) -> Result<bool, Error> {
        if answers.queued.is_none() {
            answers.queued = Some(gc::queued_content(self.cluster()).await?);
        }
        let content = candidate.task.content();
        Ok(answers
            .queued
            .as_ref()
            .is_some_and(|queued| queued.contains(&content)))
    }

    /// Returns true if the candidate's owner refers to it, if its upload is in progress, or if this
    /// search has queued a task for it.
    async fn is_needed(&self, candidate: &Candidate, answers: &mut Answers) -> Result<bool, Error> {
        let content = candidate.task.content();
        if answers.done.contains(&content) {
            return Ok(true);
        }
        match &candidate.task {
            GcTask::Tail { owner, group } => {
                tokio::time::sleep(PAUSE).await;
                let needed = gc::has_tail(self.cluster(), owner, group).await?;
                if needed {
                    answers.done.insert(content);
                }
                Ok(needed)
            }
            GcTask::Upload(upload) => {
                if answers
                    .upload
                    .as_ref()
                    .is_none_or(|(last, _)| *last != content)
                {
                    answers.upload = Some((content, self.parts_needed(upload).await?));
                }
                let needed = answers
                    .upload
                    .as_ref()
                    .and_then(|(_, parts)| parts.as_ref());
                let attempt = candidate.attempt.as_ref();
                Ok(needed.is_none_or(|parts| attempt.is_some_and(|one| parts.contains(one))))
            }
            GcTask::Bucket { .. } => Ok(true),
        }
    }

    /// Returns the parts of an upload that the object or a kept version of it lists. Returns `None`
    /// while the upload is in progress, because all of its parts are needed.
    async fn parts_needed(&self, upload: &UploadName) -> Result<Option<HashSet<Id>>, Error> {
        let cluster = self.cluster();
        tokio::time::sleep(PAUSE).await;
        let row = rowkeys::upload(cluster, upload);
        if cluster.metadata(&row).await?.is_some() {
            return Ok(None);
        }
        let mut needed = gc::listed_parts(cluster, upload).await?;
        needed.extend(gc::listed_parts_of_kept(cluster, upload).await?);
        Ok(Some(needed))
    }
}

/// Decodes metadata. Returns `None` if another release wrote it in a way that this one cannot read.
fn decoded<T: Versioned>(bytes: &[u8]) -> Option<T> {
    codec::decode(bytes).ok()
}

#[cfg(test)]
mod tests;
