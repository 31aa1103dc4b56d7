//! Moving the rows of one partition.

use archipel_base::PartitionId;
use archipel_storage::{ListQuery, RowKey};
use bytes::Bytes;
use futures_util::future::join_all;

use super::ranges::{Listed, too_few};
use super::work::Failed;
use crate::error::Error;
use crate::layout::Epoch;
use crate::reconfigure::LayoutChanges;
use crate::register::epoch::Retirement;
use crate::register::{ReplicaSet, Rules, versions};

impl LayoutChanges {
    /// Brings the rows of a partition to all reachable replicas of all live versions, and to a
    /// quorum at least. Returns the partition with the result.
    pub(super) async fn move_partition(
        &self,
        epoch: &Epoch,
        partition: PartitionId,
    ) -> (PartitionId, Result<(), Failed>) {
        let moved = match self.move_failed(partition).await {
            Ok(()) => self.move_all(epoch, partition).await,
            Err(failed) => Err(failed),
        };
        (partition, moved)
    }

    /// Tries the rows that could not be moved in the last try. As long as one of them fails, the
    /// others are not listed and read again: there may be millions of them.
    async fn move_failed(&self, partition: PartitionId) -> Result<(), Failed> {
        let before = self.rebalance.note(|work| work.failed_in(partition));
        let mut failed = Failed {
            is_partial: before.is_partial,
            ..Failed::default()
        };
        let moved = self.move_rows(partition, &before.rows).await;
        for (row, moved) in before.rows.iter().zip(moved) {
            if let Err(error) = moved {
                failed.add(row, &error);
            }
        }
        if failed.rows.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// Lists one range of keys after another and moves their rows, so that it holds a page of each
    /// replica at most. It passes over a few rows that cannot be moved.
    ///
    /// Only replicas that have listed all ranges count. A version that another one displaces moves
    /// to a later key within a replica. So a replica that lists all keys in order shows it, and two
    /// that each list a part may not.
    async fn move_all(&self, epoch: &Epoch, partition: PartitionId) -> Result<(), Failed> {
        let group = self.group(partition)?;
        if group.epoch != epoch.number() {
            let why = "the layout changed meanwhile";
            return Err(Error::Unavailable(why.into()).into());
        }
        let (mut failed, mut looked_at) = (Failed::default(), 0);
        let all = group.oldest.iter();
        let mut listing = all.fold(ReplicaSet::EMPTY, |all, set| all.union(*set));
        let mut start = Some(ListQuery::new(partition, Bytes::new()).start);
        while let Some(from) = start {
            let range = match self.list_range(&group, listing, from).await {
                Ok(range) => range,
                Err(error) => return Err(failed.ended_by(&error)),
            };
            let mut retirement: Retirement<Listed> = Retirement::of(group.oldest.clone());
            listing = ReplicaSet::EMPTY;
            for (index, rows) in range.pages {
                listing.insert(index);
                retirement.on_listed(index, rows);
            }
            #[cfg(test)]
            self.rebalance
                .note(|work| work.most_held = work.most_held.max(range.held));
            loop {
                let most = self.options.sizes.moved_rows;
                // Rows that have failed stay open.
                let open = retirement.open_keys(most + failed.rows.len());
                let untried = open.into_iter().filter(|row| !failed.rows.contains(row));
                let batch: Vec<Listed> = untried.take(most).collect();
                if batch.is_empty() {
                    break;
                }
                looked_at += batch.len() as u64;
                let moved = self.move_rows(partition, &batch).await;
                for (row, moved) in batch.into_iter().zip(moved) {
                    match moved {
                        Ok(()) => retirement.on_read(row),
                        Err(error) => failed.add(&row, &error),
                    }
                }
                self.rebalance
                    .note(|work| work.looked_at(partition, looked_at));
                if failed.is_full() {
                    failed.is_partial = true;
                    return Err(failed);
                }
            }
            if failed.rows.is_empty() && !retirement.is_complete(Rules::CORRECT) {
                return Err(too_few().into());
            }
            start = range.next;
        }
        if failed.rows.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// Moves rows, a few at once. Returns a result for each.
    async fn move_rows(&self, partition: PartitionId, rows: &[Listed]) -> Vec<Result<(), Error>> {
        let units = rows.chunks(self.options.sizes.unit_rows).map(|unit| {
            let moves = unit.iter().map(|listed| self.move_row(partition, listed));
            self.throttle.run(join_all(moves))
        });
        let moved = join_all(units).await;
        moved.into_iter().flatten().collect()
    }

    /// Brings a row to the replicas of all live versions, and the version of an object that was
    /// listed in it.
    async fn move_row(&self, partition: PartitionId, (key, name): &Listed) -> Result<(), Error> {
        let key = key.clone();
        let row = RowKey { partition, key };
        if let Some((object, name)) = (self.replica.hooks().kept_in)(&row) {
            return self.replicate_version(&object, name).await;
        }
        let newest = self.replicate_soon(&row).await?;
        let rules = *self.rebalance.rules.lock();
        if versions::moves_apart(rules, *name, newest.name) {
            self.replicate_version(&row, *name).await?;
        }
        Ok(())
    }
}
