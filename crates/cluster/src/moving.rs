//! Moving what must move when the layout changes, and dropping the version that is no longer needed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use archipel_base::{NodeId, PartitionId};
use archipel_storage::{ListEntry, ListQuery, RowKey};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::{self, FuturesUnordered};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::group::Group;
use crate::layout::{Epoch, all_partitions};
use crate::list::ask;
use crate::register::epoch::Retirement;
use crate::register::{ReplicaSet, Rules};
use crate::throttle::UNIT_ROWS;

/// How many rows of a partition are moved at once.
const MOVES: usize = 32;
/// How many partitions.
const PARTITIONS_AT_ONCE: usize = 16;
/// How many keys are listed at once.
const PAGE: usize = 1000;
/// How often a node looks whether there is something to move.
const INTERVAL: Duration = Duration::from_secs(2);

/// What the mover knows of its work.
#[derive(Default)]
pub(crate) struct Moving(Mutex<Work>);

#[derive(Clone, Default)]
pub(crate) struct Work {
    pub epoch: u64,
    pub done: u32,
    pub rows: u64,
    pub trouble: Option<String>,
}

impl Moving {
    fn note(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn look(&self) -> Work {
        let work = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work.clone()
    }
}

impl Cluster {
    /// Moves data whenever the layout changes and this node is the one to do it. Run it in a task of its own.
    pub async fn move_forever(&self) {
        let mut epochs = self.epoch_changes();
        loop {
            let _ = tokio::time::timeout(INTERVAL, epochs.changed()).await;
            let Some(epoch) = self.epoch().filter(|epoch| epoch.is_changing()) else {
                continue;
            };
            if self.driver(&epoch) != Some(self.me().node) {
                continue;
            }
            if let Err(error) = self.retire_oldest(&epoch).await {
                tracing::warn!(%error, "the layout's change does not go on; it will be tried again");
                self.0
                    .moving
                    .note(|work| work.trouble = Some(error.to_string()));
            }
        }
    }

    /// The first storage node by id that seems to be there.
    pub(crate) fn driver(&self, epoch: &Epoch) -> Option<NodeId> {
        let me = self.me().node;
        let here = |node: &NodeId| {
            *node == me
                || self
                    .0
                    .peers
                    .as_ref()
                    .is_some_and(|p| !p.directory.is_suspected(node))
        };
        let nodes = epoch.newest().roles.iter().map(|role| role.store.node);
        nodes.filter(here).min()
    }

    /// Moves what must move before the oldest version may go, and drops it.
    async fn retire_oldest(&self, epoch: &Arc<Epoch>) -> Result<(), Error> {
        let partitions = moved(epoch);
        self.0.moving.note(|work| {
            // Why the last try ended is told until this one has gone further.
            let before = work.trouble.take();
            let trouble = before.filter(|_| work.epoch == epoch.number());
            *work = Work {
                epoch: epoch.number(),
                trouble,
                ..Work::default()
            }
        });
        let mut moves = stream::iter(partitions)
            .map(|partition| self.move_partition(epoch, partition))
            .buffer_unordered(PARTITIONS_AT_ONCE);
        while let Some(moved) = moves.next().await {
            moved?;
            self.0.moving.note(|work| work.done += 1);
        }
        drop(moves);
        let Some(proposal) = epoch.without_oldest() else {
            return Ok(());
        };
        self.succeed(epoch, proposal).await.map(|_| ())
    }

    /// Brings the rows of a partition to a quorum of all versions.
    async fn move_partition(&self, epoch: &Epoch, partition: PartitionId) -> Result<(), Error> {
        let group = self.0.group(partition)?;
        if group.epoch != epoch.number() {
            return Err(Error::Unavailable("the layout changed meanwhile".into()));
        }
        let all = group.oldest.iter();
        let oldest = all.fold(ReplicaSet::EMPTY, |all, set| all.union(*set));
        let mut retirement: Retirement<Bytes> = Retirement::of(group.oldest.clone());
        let mut why = None;
        let group = &group;
        let ask = |place| async move { (place, self.keys_at(group, place).await) };
        let mut lists: FuturesUnordered<_> = oldest.iter().map(ask).collect();
        // Who is away, or slow to say that it holds nothing any more, is not waited for.
        while let Some((place, keys)) = lists.next().await {
            match keys {
                Ok(keys) => retirement.on_listed(place, keys),
                Err(error) => why = Some(error),
            }
            if retirement.is_listed() {
                break;
            }
        }
        drop(lists);
        loop {
            let batch = retirement.open_keys(MOVES);
            if batch.is_empty() {
                break;
            }
            let units = batch.chunks(UNIT_ROWS).map(|keys| {
                let rows = keys.iter().map(|key| self.replicate_row(partition, key));
                self.0.throttle.run(try_join_all(rows))
            });
            try_join_all(units).await?;
            self.0.moving.note(|work| work.rows += batch.len() as u64);
            batch.into_iter().for_each(|key| retirement.on_read(key));
        }
        match retirement.is_complete(Rules::CORRECT) {
            true => Ok(()),
            false => Err(why.unwrap_or_else(|| {
                Error::Unavailable("too few replicas of the older layout answer".into())
            })),
        }
    }

    async fn replicate_row(&self, partition: PartitionId, key: &Bytes) -> Result<(), Error> {
        let key = key.clone();
        self.replicate(&RowKey { partition, key }).await
    }

    /// All keys that a replica holds, tombstones too.
    async fn keys_at(&self, group: &Group, place: usize) -> Result<Vec<Bytes>, Error> {
        let mut query = ListQuery::new(group.partition, Bytes::new());
        (query.tombstones, query.limit) = (true, PAGE);
        let mut keys = Vec::new();
        loop {
            let page = ask(&self.0, group, place, query.clone()).await?;
            let gone = || Error::Unavailable("the layout changed meanwhile".into());
            let page = Arc::unwrap_or_clone(page.ok_or_else(gone)?).listing;
            keys.extend(page.entries.into_iter().filter_map(|entry| match entry {
                ListEntry::Row { key, .. } => Some(key),
                _ => None,
            }));
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(keys),
            }
        }
    }
}

/// The partitions whose replicas differ between the oldest and a newer live version.
pub(crate) fn moved(epoch: &Epoch) -> Vec<PartitionId> {
    all_partitions()
        .filter(|partition| {
            let mut versions = epoch.replicas(*partition);
            versions
                .iter_mut()
                .for_each(|replicas| replicas.sort_unstable());
            versions.iter().any(|replicas| *replicas != versions[0])
        })
        .collect()
}
