//! What rows are called, for people.

use archipel_base::{Id, codec};
use archipel_storage::RowKey;
use bytes::Bytes;

use crate::Model;
use crate::content::ExtentHead;
use crate::rowkeys::{self, Kind, Owner};

impl Model {
    /// What a row of this node holds, in words that an operator knows: `object photos/cat.jpg`. Asks no other node.
    pub async fn name_of_row(&self, row: &RowKey) -> String {
        if let Some(owner) = rowkeys::owner_of(&row.key) {
            return self.name_of_owner(&owner);
        }
        if rowkeys::is_extent(&row.key)
            && let Some(head) = self.local_head(row).await
            && let Ok(ExtentHead { owner, .. }) = codec::decode(&head)
        {
            return self.name_of_owner(&owner);
        }
        match (rowkeys::kind(&row.key), rowkeys::name_of(&row.key)) {
            (Kind::Bucket, Some(name)) => format!("bucket {name}"),
            (Kind::AccessKey, Some(name)) => format!("access key {name}"),
            (Kind::Upload, _) => match rowkeys::upload_of(&row.key) {
                Some((bucket, key, _)) => {
                    format!("upload of {}/{key}", self.name_of_bucket(&bucket))
                }
                None => escaped(row),
            },
            _ => escaped(row),
        }
    }

    async fn local_head(&self, row: &RowKey) -> Option<Bytes> {
        let row = row.clone();
        let head = self.cluster().store().read(move |rows| rows.head(&row));
        head.await.ok()??.head
    }

    pub(crate) fn name_of_owner(&self, owner: &Owner) -> String {
        match owner {
            Owner::Object { bucket, key } => {
                format!("object {}/{key}", self.name_of_bucket(bucket))
            }
            Owner::Part { upload, number, .. } => format!("part {number} of upload {upload}"),
        }
    }

    fn name_of_bucket(&self, id: &Id) -> String {
        let known = self.buckets().into_iter().find(|bucket| bucket.id == *id);
        known.map_or_else(|| id.to_string(), |bucket| bucket.name.clone())
    }
}

fn escaped(row: &RowKey) -> String {
    format!("row {}/{}", row.partition, row.key.escape_ascii())
}
