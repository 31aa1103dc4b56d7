//! Orphans: extents and parts for which nobody will ask any more, as the question stood in the queue of a node that is gone
//! for good, or had not been put there yet when its writer crashed.
//!
//! Each replica looks through the extents and parts that it holds, now and then, and puts a question to the
//! [sweep](crate::sweep) for what its owner's row does not refer to.
//!
//! # Invariants
//! - Nothing is dropped here: the sweep asks again, and settles the owner's row first.
//! - An extent is left alone while the store of its writer is in a live layout: that one's queue holds the question, and it may still write.
//! - What was written lately is left alone.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId};
use archipel_cluster::layout::PARTITIONS;
use archipel_storage::engine::{Durability, Flow};
use archipel_storage::{RowHead, RowReader};
use bytes::Bytes;

use crate::Model;
use crate::content::ExtentHead;
use crate::error::Error;
use crate::rowkeys::{self, Owner};
use crate::sweep::{self, Check};
use crate::upload::Part;

/// How often a node looks through what it holds.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// How old a row must be.
const AGE: Duration = Duration::from_secs(24 * 3600);
/// Rows looked at in one read.
const PAGE: usize = 1000;
/// A pause after each owner that was asked.
const PAUSE: Duration = Duration::from_millis(50);

/// An extent or a part, and whom to ask for it.
struct Held {
    question: Check,
    /// Which of an upload's parts it is.
    attempt: Option<Id>,
}

/// What is known already in one search.
#[derive(Default)]
struct Known {
    /// Tails and uploads that need not be asked for again.
    done: BTreeSet<Id>,
    /// The parts that are needed of the upload that was looked at last; `None` for all.
    last: Option<(Id, Option<HashSet<Id>>)>,
}

impl Model {
    /// Looks for orphans once a day, until it is dropped. Run it in a task of its own.
    pub async fn find_orphans_forever(&self) {
        for round in 0.. {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.find_orphans(AGE, Some(round)).await {
                tracing::warn!(%error, "content that nobody needs cannot be looked for");
            }
        }
    }

    /// Looks once for orphans that are so old at least, and has the sweep ask for them; tells for how many. With a
    /// `round`, only in those partitions in which it is this replica's turn.
    pub async fn find_orphans(&self, age: Duration, round: Option<usize>) -> Result<u64, Error> {
        let Some(epoch) = self.cluster().epoch() else {
            return Ok(0);
        };
        let me = self.cluster().me();
        let mut found = 0;
        let mut known = Known::default();
        for partition in (0..PARTITIONS).map(PartitionId) {
            let replicas: Vec<_> = epoch.replicas(partition).into_iter().flatten().collect();
            let rank = self.cluster().rank(partition);
            let turn = round.is_none_or(|round| round % replicas.len().max(1) == rank);
            if turn && replicas.iter().any(|member| member.node == me) {
                found += self.find_orphans_of(partition, age, &mut known).await?;
            }
        }
        if found > 0 {
            tracing::info!(found, "content was found that nobody needs");
            self.wake_sweep();
        }
        Ok(found)
    }

    async fn find_orphans_of(
        &self,
        partition: PartitionId,
        age: Duration,
        known: &mut Known,
    ) -> Result<u64, Error> {
        let before_ms = self.now_ms().saturating_sub(age.as_millis() as u64);
        let mut found = 0;
        for prefix in [rowkeys::ALL_EXTENTS, rowkeys::ALL_PARTS] {
            let mut after = None;
            loop {
                let (rows, last) = self.page(partition, prefix.clone(), after).await?;
                for (key, head) in rows {
                    let old = head.stamp.millis() <= before_ms;
                    let Some(held) = self.question_of(&key, &head).filter(|_| old) else {
                        continue;
                    };
                    if self.is_needed(&held, known).await? {
                        continue;
                    }
                    known.done.insert(held.question.content());
                    let work = codec::encode(&held.question).into();
                    self.cluster()
                        .queue_push(work, Durability::Buffered)
                        .await?;
                    found += 1;
                }
                match last {
                    Some(last) => after = Some(last),
                    None => break,
                }
            }
        }
        Ok(found)
    }

    /// Live rows behind a key, and the last that was looked at if there may be more.
    async fn page(
        &self,
        partition: PartitionId,
        prefix: Bytes,
        after: Option<Bytes>,
    ) -> Result<(Vec<(Bytes, RowHead)>, Option<Bytes>), Error> {
        let look = move |rows: &RowReader<'_>| {
            let (mut found, mut seen, mut last) = (Vec::new(), 0, None);
            let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            rows.scan_heads(partition, &prefix, start, &mut |key, head| {
                seen += 1;
                let key = Bytes::copy_from_slice(key);
                if seen == PAGE {
                    last = Some(key.clone());
                }
                if head.is_live() {
                    found.push((key, head));
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

    /// What to ask for a row that may be an orphan.
    fn question_of(&self, key: &[u8], head: &RowHead) -> Option<Held> {
        let bytes = head.head.as_ref()?;
        if let Some(group) = rowkeys::group_of(key) {
            let extent: ExtentHead = decoded(bytes)?;
            let writer = extent.store?;
            return (!self.is_in_a_layout(writer)).then_some(Held {
                question: Check::Tail {
                    owner: extent.owner,
                    group,
                },
                attempt: None,
            });
        }
        let Owner::Part {
            upload, attempt, ..
        } = rowkeys::owner_of(key)?
        else {
            return None;
        };
        let part: Part = decoded(bytes)?;
        let (bucket, key) = part.of?;
        Some(Held {
            question: Check::Upload {
                bucket,
                key,
                upload,
            },
            attempt: Some(attempt),
        })
    }

    fn is_in_a_layout(&self, store: Id) -> bool {
        let epoch = self.cluster().epoch();
        epoch.is_none_or(|epoch| {
            let mut members = epoch.config.members().into_iter();
            members.any(|member| member.node.store == store)
        })
    }

    /// Whether the owner refers to it, an upload goes on to which it belongs, or it was asked for already.
    async fn is_needed(&self, held: &Held, known: &mut Known) -> Result<bool, Error> {
        let content = held.question.content();
        if known.done.contains(&content) {
            return Ok(true);
        }
        match &held.question {
            Check::Tail { owner, group } => {
                let value = self.cluster().read(&owner.row(self.cluster())).await?;
                tokio::time::sleep(PAUSE).await;
                let needed = sweep::tail_in(owner, value)? == Some(*group);
                if needed {
                    known.done.insert(content);
                }
                Ok(needed)
            }
            Check::Upload { bucket, key, .. } => {
                if known.last.as_ref().is_none_or(|(last, _)| *last != content) {
                    known.last = Some((content, self.parts_needed(bucket, key, &content).await?));
                }
                let needed = known.last.as_ref().and_then(|(_, parts)| parts.as_ref());
                let attempt = held.attempt.as_ref();
                Ok(needed.is_none_or(|parts| attempt.is_some_and(|one| parts.contains(one))))
            }
            Check::Bucket { .. } => Ok(true),
        }
    }

    /// The parts of an upload that an object lists; `None` while the upload goes on, and all of them are needed.
    async fn parts_needed(
        &self,
        bucket: &Id,
        key: &str,
        upload: &Id,
    ) -> Result<Option<HashSet<Id>>, Error> {
        let cluster = self.cluster();
        tokio::time::sleep(PAUSE).await;
        let row = rowkeys::upload(cluster, bucket, key, upload);
        if cluster.head(&row).await?.is_some() {
            return Ok(None);
        }
        let object = rowkeys::object(cluster, bucket, key);
        Ok(Some(sweep::parts_in(cluster.read(&object).await?, upload)?))
    }
}

/// What another release wrote is left alone.
fn decoded<T: Versioned>(bytes: &[u8]) -> Option<T> {
    codec::decode(bytes).ok()
}

#[cfg(test)]
mod tests;
