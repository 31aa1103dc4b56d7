//! The parts of an upload. Each attempt at a part is a row of its own until the upload is over. So
//! they are read a few rows at a time, and of each part the newest attempt is kept.

use std::collections::VecDeque;

use archipel_base::{Id, PartitionId, boxed, codec};
use archipel_cluster::{Cluster, Scanned};
use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::{Error, damaged_row};
use crate::owner::{PartsId, UploadName};
use crate::rowkeys;
use crate::upload::{Part, Upload};

/// The most rows that a partition is asked for at once.
const MOST_ROWS: usize = 1000;
/// The fewest rows that a listing of parts asks a partition for at once.
const LEAST_ROWS: usize = 8;

/// Tells if an attempt counts.
pub type IsMeant<'a> = &'a (dyn Fn(&Part) -> bool + Sync);

impl Model {
    /// Returns of each part of an upload the newest attempt that `is_meant` accepts, sorted by
    /// number.
    #[boxed]
    pub async fn sent_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: &Id,
        is_meant: IsMeant<'_>,
    ) -> Result<Vec<Part>, Error> {
        let parts = UploadName::new(&bucket.id, key, upload).parts();
        let partitions = partitions(self.cluster(), &parts, 0, MOST_ROWS);
        let found = partitions
            .into_iter()
            .map(|attempts| attempts.all(self.cluster(), is_meant));
        let mut found: Vec<Part> = try_join_all(found).await?.into_iter().flatten().collect();
        found.sort_unstable_by_key(|part| part.number);
        Ok(found)
    }

    /// Returns at most `limit` parts of an upload with numbers above `after`, in order, and true if
    /// more parts follow. Of a part that was sent several times, returns the newest attempt. Holds
    /// a few rows of each partition in memory, whatever the number of attempts.
    #[boxed]
    pub async fn list_parts(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), Error> {
        let of = upload.name_in(&bucket.id).parts();
        let share = limit.min(MOST_ROWS) / usize::from(rowkeys::PART_SHARDS);
        let rows = share + share / 4 + LEAST_ROWS;
        let mut partitions = partitions(self.cluster(), &of, after, rows);
        let mut parts = Vec::new();
        while let Some(part) = next(self.cluster(), &mut partitions).await? {
            if parts.len() == limit {
                return Ok((parts, true));
            }
            parts.push(part);
        }
        Ok((parts, false))
    }
}

/// Returns the partitions of an upload's parts, to read those with numbers above `after`. Each is
/// asked for so many rows at once.
fn partitions(cluster: &Cluster, parts: &PartsId, after: u16, rows: usize) -> Vec<Attempts> {
    let (prefix, partitions) = rowkeys::parts(cluster, parts);
    // Behind all attempts at that part.
    let behind = [&prefix[..], &after.to_be_bytes(), &[0xff; 16]].concat();
    let behind = Bytes::from(behind);
    let partitions = partitions.into_iter().map(|partition| Attempts {
        partition,
        prefix: prefix.clone(),
        after: behind.clone(),
        rows,
        newest: VecDeque::new(),
        last: None,
        is_over: false,
    });
    partitions.collect()
}

/// Takes the part with the lowest number of all partitions.
async fn next(cluster: &Cluster, partitions: &mut [Attempts]) -> Result<Option<Part>, Error> {
    let empty = partitions.iter_mut();
    let empty = empty.filter(|attempts| attempts.newest.is_empty() && !attempts.is_over);
    try_join_all(empty.map(|attempts| attempts.fill(cluster))).await?;
    let firsts = partitions.iter_mut();
    let firsts = firsts.filter(|attempts| !attempts.newest.is_empty());
    let lowest = firsts.min_by_key(|attempts| attempts.newest.front().map(|part| part.number));
    Ok(lowest.and_then(|attempts| attempts.newest.pop_front()))
}

/// The parts of one partition, in the order of their numbers.
struct Attempts {
    partition: PartitionId,
    /// The beginning of the keys of all rows of the upload's parts.
    prefix: Bytes,
    /// The key after which the next rows are fetched.
    after: Bytes,
    /// The rows that are asked for at once.
    rows: usize,
    /// The newest attempts at the parts whose rows were all fetched, and that were not taken yet.
    newest: VecDeque<Part>,
    /// The newest attempt so far at the part that was fetched last. More of its rows may follow.
    last: Option<Part>,
    is_over: bool,
}

impl Attempts {
    /// Fetches rows until a part can be taken, or none is left.
    async fn fill(&mut self, cluster: &Cluster) -> Result<(), Error> {
        while self.newest.is_empty() && !self.is_over {
            self.fetch(cluster, &|_: &Part| true).await?;
            if self.newest.is_empty() {
                // There are many attempts at one part.
                self.rows = (self.rows * 2).min(MOST_ROWS);
            }
        }
        Ok(())
    }

    /// Returns all parts of the partition of which an attempt is meant.
    async fn all(
        mut self,
        cluster: &Cluster,
        is_meant: IsMeant<'_>,
    ) -> Result<VecDeque<Part>, Error> {
        while !self.is_over {
            self.fetch(cluster, is_meant).await?;
        }
        Ok(self.newest)
    }

    /// Fetches the next rows.
    async fn fetch(&mut self, cluster: &Cluster, is_meant: IsMeant<'_>) -> Result<(), Error> {
        let (prefix, after) = (&self.prefix, Some(self.after.clone()));
        let scan = cluster.scan_readable(self.partition, prefix, after, self.rows);
        let rows = scan.await?;
        self.is_over = rows.len() < self.rows;
        if let Some(last) = rows.last() {
            self.after = last.key.key.clone();
        }
        for row in rows {
            let part = decoded(row)?;
            if is_meant(&part) {
                self.note(part);
            }
        }
        if self.is_over {
            self.newest.extend(self.last.take());
        }
        Ok(())
    }

    /// Takes an attempt. All attempts at a part come one after another.
    fn note(&mut self, part: Part) {
        match &mut self.last {
            Some(last) if last.number == part.number => {
                if part.stamp > last.stamp {
                    *last = part;
                }
            }
            last => self.newest.extend(last.replace(part)),
        }
    }
}

/// Returns the attempt that a row holds.
fn decoded(row: Scanned) -> Result<Part, Error> {
    let part: Part = codec::decode(&row.metadata).map_err(damaged_row)?;
    Ok(Part {
        stamp: row.stamp,
        is_settled: row.is_settled,
        ..part
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archipel_cluster::WriteOptions;
    use archipel_storage::Value;
    use archipel_storage::engine::Durability;

    use super::*;
    use crate::upload::{PartMeta, UploadMeta};
    use crate::uploads::part::MOST_ATTEMPTS;

    async fn begun() -> (Model, Arc<Bucket>, Upload) {
        let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let bucket = model.create_bucket("bucket", None).await.unwrap();
        let begun = model.create_upload(&bucket, "key", None, UploadMeta::default());
        let upload = begun.await.unwrap();
        (model, bucket, upload)
    }

    async fn send(model: &Model, bucket: &Arc<Bucket>, upload: &Upload, number: u16) -> Part {
        let writer = model.begin_part(bucket, upload, number).unwrap();
        writer.finish(PartMeta::default()).await.unwrap()
    }

    /// Writes further attempts at a part, which other nodes may have taken.
    async fn repeat(model: &Model, part: &Part, times: usize) {
        for _ in 0..times {
            let attempt = model.random_id();
            let again = Part {
                attempt,
                ..part.clone()
            };
            let value = Value {
                metadata: codec::encode(&again).into(),
                ..Value::default()
            };
            let row = rowkeys::part(model.cluster(), &part.of.parts(), part.number, &attempt);
            let how = WriteOptions::durable(Durability::Fsync);
            let written = model.cluster().write(&row, Some(value), how);
            written.await.unwrap();
        }
    }

    /// They used to be held all at once, for a page of one part.
    #[tokio::test]
    async fn a_listing_of_parts_holds_few_of_many_attempts() {
        const ATTEMPTS: usize = 900;
        let (model, bucket, upload) = begun().await;
        let first = send(&model, &bucket, &upload, 1).await;
        repeat(&model, &first, ATTEMPTS).await;
        // In the same partition as the first.
        let other = 1 + rowkeys::PART_SHARDS;
        let newest = send(&model, &bucket, &upload, 1).await;
        for number in [2, other] {
            send(&model, &bucket, &upload, number).await;
        }

        let of = upload.name_in(&bucket.id).parts();
        let mut all = partitions(model.cluster(), &of, 0, LEAST_ROWS);
        let mut taken = Vec::new();
        loop {
            // `next` would fill these first. Filled here, they can be counted before it takes a part.
            for one in all.iter_mut().filter(|one| one.newest.is_empty()) {
                one.fill(model.cluster()).await.unwrap();
            }
            let held = |one: &Attempts| one.newest.len() + usize::from(one.last.is_some());
            let held: usize = all.iter().map(held).sum();
            assert!(held <= 3, "{held} of {ATTEMPTS} attempts are in memory");
            let Some(part) = next(model.cluster(), &mut all).await.unwrap() else {
                break;
            };
            taken.push(part.number);
        }
        assert_eq!(taken, [1, 2, other]);

        let page = model.list_parts(&bucket, &upload, 0, 1).await.unwrap();
        let attempts: Vec<_> = page.0.iter().map(|part| part.attempt).collect();
        assert_eq!((attempts, page.1), (vec![newest.attempt], true));
        let page = model.list_parts(&bucket, &upload, 2, 1).await.unwrap();
        let numbers: Vec<_> = page.0.iter().map(|part| part.number).collect();
        assert_eq!((numbers, page.1), (vec![other], false));
        let none = model.list_parts(&bucket, &upload, u16::MAX, 1).await;
        assert_eq!(none, Ok((Vec::new(), false)));
    }

    #[tokio::test]
    async fn of_several_attempts_the_newest_one_that_is_meant_is_found() {
        let (model, bucket, upload) = begun().await;
        let mut attempts = Vec::new();
        for _ in 0..5 {
            attempts.push(send(&model, &bucket, &upload, 3).await.attempt);
        }
        for meant in [&attempts[..], &attempts[1..3], &attempts[..1], &[]] {
            let is_meant = |part: &Part| meant.contains(&part.attempt);
            let found = model
                .sent_parts(&bucket, "key", &upload.id, &is_meant)
                .await;
            let found: Vec<_> = found.unwrap().iter().map(|part| part.attempt).collect();
            assert_eq!(found, meant.last().copied().into_iter().collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_part_takes_a_limited_number_of_attempts() {
        let (model, bucket, upload) = begun().await;
        let first = send(&model, &bucket, &upload, 1).await;
        repeat(&model, &first, MOST_ATTEMPTS - 2).await;
        let last = send(&model, &bucket, &upload, 1).await;
        let refused = model.begin_part(&bucket, &upload, 1);
        assert!(matches!(refused, Err(Error::LimitExceeded(_))));
        send(&model, &bucket, &upload, 2).await;
        let is_last = |part: &Part| part.attempt == last.attempt;
        let found = model.sent_parts(&bucket, "key", &upload.id, &is_last).await;
        assert_eq!(found.map(|found| found.len()), Ok(1));
    }
}
