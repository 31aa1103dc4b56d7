//! Pages of listings of uploads.

use std::collections::VecDeque;

use archipel_base::{Id, PartitionId, boxed, codec};
use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::{Error, damaged_row};
use crate::intents;
use crate::objects::MAX_KEY_BYTES;
use crate::rowkeys;
use crate::upload::{Upload, UploadPage, UploadQuery};

/// The number of intents that a listing of uploads resolves at once.
pub const AT_ONCE: usize = 16;
/// The fewest rows that a listing of uploads asks a partition for at once.
const LEAST_ROWS: usize = 8;
/// The most entries of a page for which rows are fetched at once.
const MOST_ROWS: usize = 1000;

impl Model {
    /// Returns a page of the uploads in progress. It holds a few pages of each partition in memory,
    /// whatever the number of uploads.
    #[boxed]
    pub async fn list_uploads(
        &self,
        bucket: &Bucket,
        query: &UploadQuery,
    ) -> Result<UploadPage, Error> {
        let mut page = UploadPage::default();
        // No key is that long, and none has NUL, which comes behind a key in the rows.
        if query.prefix.len() > MAX_KEY_BYTES || query.prefix.contains('\0') {
            return Ok(page);
        }
        let mut walk = Walk::new(self, bucket, query);
        while let Some(upload) = walk.next().await? {
            let prefix = rolled_up(&upload.key, query);
            if !is_after(&upload, prefix, query) {
                continue;
            }
            if page.uploads.len() + page.prefixes.len() >= query.limit {
                page.truncated = true;
                break;
            }
            match prefix {
                Some(prefix) => {
                    walk.pass_over(prefix);
                    page.prefixes.push(prefix.to_owned());
                }
                None => page.uploads.push(upload),
            }
        }
        Ok(page)
    }
}

/// The uploads of a bucket in order: all partitions at once, a few rows of each in memory.
struct Walk<'a> {
    model: &'a Model,
    bucket: Id,
    /// The beginning of the keys of the wanted rows.
    prefix: Bytes,
    /// The rows that a partition is asked for at once.
    rows: usize,
    sources: Vec<Source>,
}

/// A partition in a walk.
struct Source {
    partition: PartitionId,
    /// The uploads that were fetched and not taken yet.
    fetched: VecDeque<Upload>,
    /// The key of the row after which the next rows are fetched.
    after: Option<Bytes>,
    is_over: bool,
}

impl<'a> Walk<'a> {
    fn new(model: &'a Model, bucket: &Bucket, query: &UploadQuery) -> Walk<'a> {
        let partitions = rowkeys::bucket_partitions(model.cluster(), &bucket.id);
        let share = query.limit.min(MOST_ROWS) / partitions.len().max(1);
        let mut walk = Walk {
            model,
            bucket: bucket.id,
            prefix: row_key(&bucket.id, &[query.prefix.as_bytes()]),
            rows: share + share / 4 + LEAST_ROWS,
            sources: partitions
                .into_iter()
                .map(|partition| Source {
                    partition,
                    fetched: VecDeque::new(),
                    after: None,
                    is_over: false,
                })
                .collect(),
        };
        if let Some(after) = query.after_key.as_deref() {
            let key = after.as_bytes();
            // No key is longer, so a longer marker is behind the key that it begins with.
            let key = &key[..key.len().min(MAX_KEY_BYTES)];
            let group = after
                .starts_with(&query.prefix)
                .then(|| rolled_up(after, query));
            match (group.flatten(), query.after_id) {
                (Some(group), _) => walk.pass_over(group),
                (None, Some(id)) if key.len() == after.len() => {
                    walk.go_behind(&[key, &[0], id.as_bytes()])
                }
                // Behind all ids.
                (None, _) => walk.go_behind(&[key, &[0], &[0xff; 17]]),
            }
        }
        walk
    }

    /// Passes over all uploads of keys that begin with this.
    fn pass_over(&mut self, prefix: &str) {
        for source in &mut self.sources {
            let is_behind = |upload: &Upload| !upload.key.starts_with(prefix);
            let passed = source.fetched.iter().position(is_behind);
            source
                .fetched
                .drain(..passed.unwrap_or(source.fetched.len()));
        }
        // No key has this byte, which is not of UTF-8.
        self.go_behind(&[prefix.as_bytes(), &[0xff]]);
    }

    /// Lets the next rows be fetched behind this one, where they are not further already.
    fn go_behind(&mut self, key: &[&[u8]]) {
        let key = Some(row_key(&self.bucket, key)).filter(|key| *key > self.prefix);
        for source in &mut self.sources {
            source.after = source.after.take().max(key.clone());
        }
    }

    /// Returns the next upload.
    async fn next(&mut self) -> Result<Option<Upload>, Error> {
        loop {
            let empty = self.sources.iter_mut();
            let empty = empty.filter(|source| source.fetched.is_empty() && !source.is_over);
            let (model, prefix, rows) = (self.model, &self.prefix, self.rows);
            let fetches: Vec<_> = empty
                .map(|source| source.fetch(model, &self.bucket, prefix, rows))
                .collect();
            if fetches.is_empty() {
                break;
            }
            try_join_all(fetches).await?;
        }
        let firsts = self.sources.iter_mut();
        let firsts = firsts.filter(|source| !source.fetched.is_empty());
        let lowest = firsts.min_by(|a, b| a.first().cmp(&b.first()));
        Ok(lowest.and_then(|source| source.fetched.pop_front()))
    }

    /// Returns how many uploads are in memory.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.sources.iter().map(|source| source.fetched.len()).sum()
    }
}

impl Source {
    fn first(&self) -> Option<(&str, Id)> {
        let first = self.fetched.front()?;
        Some((&first.key, first.id))
    }

    /// Fetches the next uploads. There may be none among the next rows: uploads that are over.
    async fn fetch(
        &mut self,
        model: &Model,
        bucket: &Id,
        prefix: &Bytes,
        limit: usize,
    ) -> Result<(), Error> {
        let cluster = model.cluster();
        let after = self.after.clone();
        let scan = cluster.scan_readable(self.partition, prefix, after, limit);
        let rows = scan.await?;
        self.is_over = rows.len() < limit;
        if let Some(last) = rows.last() {
            self.after = Some(last.key.key.clone());
        }
        for some in rows.chunks(AT_ONCE) {
            let uploads = some.iter().map(async |row| {
                let upload: Upload = codec::decode(&row.metadata).map_err(damaged_row)?;
                match upload.intent {
                    None => Ok(Some(upload)),
                    Some(_) => intents::progress_of(cluster, &upload.name_in(bucket)).await,
                }
            });
            self.fetched
                .extend(try_join_all(uploads).await?.into_iter().flatten());
        }
        Ok(())
    }
}

/// Returns the key of a row of a bucket's uploads, or its beginning.
fn row_key(bucket: &Id, fields: &[&[u8]]) -> Bytes {
    [&rowkeys::uploads(bucket)[..], &fields.concat()]
        .concat()
        .into()
}

/// Returns the common prefix that a key is rolled up to.
fn rolled_up<'k>(key: &'k str, query: &UploadQuery) -> Option<&'k str> {
    let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty())?;
    let at = key.get(query.prefix.len()..)?.find(delimiter)?;
    key.get(..query.prefix.len() + at + delimiter.len())
}

/// Returns true if an upload, or the prefix that stands for it, is behind the marker. A marker with
/// NUL is in no key: it is behind all uploads of the key that it begins with, and before all others.
fn is_after(upload: &Upload, prefix: Option<&str>, query: &UploadQuery) -> bool {
    let Some(after) = query.after_key.as_deref() else {
        return true;
    };
    match (prefix, query.after_id) {
        (Some(prefix), _) => prefix > after,
        (None, Some(id)) => (upload.key.as_str(), upload.id) > (after, id),
        (None, None) => upload.key.as_str() > after,
    }
}

#[cfg(test)]
mod tests {
    use archipel_cluster::Cluster;

    use super::*;
    use crate::upload::UploadMeta;

    #[tokio::test]
    async fn a_walk_holds_a_few_uploads_of_each_partition() {
        const UPLOADS: usize = 900;
        let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let bucket = model.create_bucket("bucket", None).await.unwrap();
        for n in 0..UPLOADS {
            let key = format!("k{n:03}");
            let begun = model.create_upload(&bucket, &key, None, UploadMeta::default());
            begun.await.unwrap();
        }
        let query = UploadQuery {
            limit: 5,
            ..UploadQuery::default()
        };
        let mut walk = Walk::new(&model, &bucket, &query);
        let most = walk.sources.len() * walk.rows;
        assert!(most < UPLOADS / 4, "{most}");
        for n in 0..UPLOADS {
            let upload = walk.next().await.unwrap().unwrap();
            assert_eq!(upload.key, format!("k{n:03}"));
            assert!(walk.held() < most);
        }
        assert_eq!(walk.next().await.unwrap(), None);
    }

    /// The row key of an upload is its key, NUL and its id. A listing of one such prefix used to
    /// panic.
    #[tokio::test]
    async fn nul_in_a_prefix_or_a_marker_is_in_no_key() {
        let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let bucket = model.create_bucket("bucket", None).await.unwrap();
        let mut ids = Vec::new();
        for key in ["a", "a/b", "b"] {
            let begun = model.create_upload(&bucket, key, None, UploadMeta::default());
            ids.push(begun.await.unwrap().id);
        }
        let listed = async |query: UploadQuery| -> Vec<String> {
            let limit = 10;
            let query = UploadQuery { limit, ..query };
            let page = model.list_uploads(&bucket, &query).await.unwrap();
            let keys = page.uploads.into_iter().map(|upload| upload.key);
            keys.chain(page.prefixes).collect()
        };
        for delimiter in [None, Some("/".to_owned())] {
            let prefixed = UploadQuery {
                prefix: "a\0".into(),
                delimiter,
                ..UploadQuery::default()
            };
            assert_eq!(listed(prefixed).await, Vec::<String>::new());
        }
        for after_id in [None, Some(ids[0]), Some(Id::default())] {
            let behind = UploadQuery {
                after_key: Some("a\0a".into()),
                after_id,
                ..UploadQuery::default()
            };
            assert_eq!(listed(behind).await, ["a/b", "b"]);
        }
    }
}
