//! Names of rows for people.

use archipel_base::{Id, boxed, codec};
use archipel_storage::RowKey;
use bytes::Bytes;

use crate::Model;
use crate::form::ExtentHead;
use crate::identity;
use crate::owner::{Owner, UploadName};
use crate::rowkeys::{self, Kind};
use crate::upload::Part;

impl Model {
    /// Returns what a row of this node holds, in an operator's terms: `object photos/cat.jpg`. Asks
    /// no other node.
    #[boxed]
    pub async fn name_of_row(&self, row: &RowKey) -> String {
        if let Some(owner) = rowkeys::owner_of(&row.key) {
            return self.name_of_owner(&owner).await;
        }
        if rowkeys::is_extent(&row.key)
            && let Some(metadata) = self.local_metadata(row).await
            && let Ok(ExtentHead { owner, .. }) = codec::decode(&metadata)
        {
            return self.name_of_owner(&owner).await;
        }
        match (rowkeys::kind(&row.key), rowkeys::name_of(&row.key)) {
            (Kind::Bucket, Some(name)) => format!("bucket {name}"),
            (Kind::AccessKey, Some(name)) => format!("access key {name}"),
            (Kind::AdminToken, Some(id)) => format!("admin token {id}"),
            (Kind::Identity, _) => match rowkeys::identity_of(&row.key) {
                Some((kind, name)) => format!("{} {name}", identity::what(kind)),
                None => escaped(row),
            },
            (Kind::Upload, _) => match rowkeys::upload_of(&row.key) {
                Some(upload) => self.name_of_upload(&upload),
                None => escaped(row),
            },
            (Kind::Item, _) => self.name_of_item(row),
            (Kind::Event, _) => match rowkeys::object_of_event(row) {
                Some(object) => match rowkeys::owner_of(&object.key) {
                    Some(owner) => format!("event of {}", self.name_of_owner(&owner).await),
                    None => escaped(row),
                },
                None => escaped(row),
            },
            _ => escaped(row),
        }
    }

    fn name_of_item(&self, row: &RowKey) -> String {
        let (Some(bucket), Some(length)) = (row.key.get(1..17), rowkeys::item_prefix(&row.key))
        else {
            return escaped(row);
        };
        let bucket = bucket.try_into().map_or(Id::default(), Id);
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        // The prefix has an end after the bucket, before the NUL.
        let (pk, sk) = (text(&row.key[17..length - 1]), text(&row.key[length..]));
        format!("K2V item {}/{pk}/{sk}", self.name_of_bucket(&bucket))
    }

    async fn local_metadata(&self, row: &RowKey) -> Option<Bytes> {
        let row = row.clone();
        let metadata = self.cluster().store().read(move |rows| rows.metadata(&row));
        metadata.await.ok()??.metadata
    }

    async fn name_of_owner(&self, owner: &Owner) -> String {
        match owner {
            Owner::Object { bucket, key } => {
                format!("object {}/{key}", self.name_of_bucket(bucket))
            }
            Owner::Part { number, .. } => {
                // Only the row itself names its upload.
                let metadata = self
                    .local_metadata(&rowkeys::owner(self.cluster(), owner))
                    .await;
                match metadata.and_then(|metadata| codec::decode::<Part>(&metadata).ok()) {
                    Some(part) => format!("part {number} of {}", self.name_of_upload(&part.of)),
                    None => format!("part {number} of an upload"),
                }
            }
        }
    }

    fn name_of_upload(&self, upload: &UploadName) -> String {
        let bucket = self.name_of_bucket(&upload.bucket);
        format!("upload of {bucket}/{}", upload.key)
    }

    fn name_of_bucket(&self, id: &Id) -> String {
        // The id stands for a name that is not known here.
        let buckets = self.buckets().unwrap_or_default();
        let known = buckets.into_iter().find(|bucket| bucket.id == *id);
        known.map_or_else(|| id.to_string(), |bucket| bucket.name.clone())
    }
}

fn escaped(row: &RowKey) -> String {
    format!("row {}/{}", row.partition, row.key.escape_ascii())
}
