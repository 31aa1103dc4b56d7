//! Pages of listings of uploads and of parts.

use archipel_base::{boxed, codec};
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::{Error, damaged_row};
use crate::intents;
use crate::rowkeys;
use crate::upload::{Part, Upload, UploadPage, UploadQuery};

/// The number of intents that a listing of uploads resolves at once.
pub const AT_ONCE: usize = 16;

impl Model {
    /// Returns at most `limit` parts of an upload with numbers above `after`, in order, and true if
    /// more parts follow. Of a part that was sent several times, returns the newest attempt.
    #[boxed]
    pub async fn list_parts(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), Error> {
        let mut parts = self.sent_parts(bucket, &upload.key, &upload.id).await?;
        parts.retain(|part| part.number > after);
        parts.dedup_by_key(|part| part.number);
        let truncated = parts.len() > limit;
        parts.truncate(limit);
        Ok((parts, truncated))
    }

    /// Returns a page of the uploads in progress.
    #[boxed]
    pub async fn list_uploads(
        &self,
        bucket: &Bucket,
        query: &UploadQuery,
    ) -> Result<UploadPage, Error> {
        let prefix = rowkeys::uploads(&bucket.id);
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id);
        let scans = partitions
            .into_iter()
            .map(|partition| self.cluster().scan_all(partition, &prefix));
        let (mut uploads, mut open) = (Vec::new(), Vec::new());
        for row in try_join_all(scans).await?.into_iter().flatten() {
            let upload: Upload = codec::decode(&row.metadata).map_err(damaged_row)?;
            if !upload.key.starts_with(&query.prefix) {
                continue;
            }
            match upload.intent {
                None => uploads.push(upload),
                Some(_) => open.push(upload.name_in(&bucket.id)),
            }
        }
        for names in open.chunks(AT_ONCE) {
            let known = names.iter();
            let known = known.map(|name| intents::progress_of(self.cluster(), name));
            uploads.extend(try_join_all(known).await?.into_iter().flatten());
        }
        uploads.sort_by(|a, b| (&a.key, a.id).cmp(&(&b.key, b.id)));
        Ok(of(uploads, query))
    }
}

/// Returns the common prefix that a key is rolled up to.
fn rolled_up<'k>(key: &'k str, query: &UploadQuery) -> Option<&'k str> {
    let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty())?;
    let at = key[query.prefix.len()..].find(delimiter)?;
    Some(&key[..query.prefix.len() + at + delimiter.len()])
}

/// Returns the page of sorted uploads that a query asks for.
pub fn of(sorted: Vec<Upload>, query: &UploadQuery) -> UploadPage {
    let mut page = UploadPage::default();
    for upload in sorted {
        let prefix = rolled_up(&upload.key, query);
        if !is_after(&upload, prefix, query) {
            continue;
        }
        if prefix.is_some() && page.prefixes.last().map(String::as_str) == prefix {
            continue;
        }
        if page.uploads.len() + page.prefixes.len() >= query.limit {
            page.truncated = true;
            break;
        }
        match prefix {
            Some(prefix) => page.prefixes.push(prefix.to_owned()),
            None => page.uploads.push(upload),
        }
    }
    page
}

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
