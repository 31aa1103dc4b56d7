//! `ReadIndex`.

use archipel_model::Bucket;
use archipel_model::k2v::{Counts, IndexQuery};
use http::StatusCode;
use serde::Serialize;

use super::answer::json;
use super::route::{flag, limit, number};
use crate::s3::call::Call;
use crate::s3::error::S3Result;
use crate::s3::respond::Answer;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IndexText {
    prefix: Option<String>,
    start: Option<String>,
    end: Option<String>,
    limit: Option<u64>,
    reverse: bool,
    partition_keys: Vec<PartitionKeyText>,
    more: bool,
    next_start: Option<String>,
}

#[derive(Serialize)]
struct PartitionKeyText {
    pk: String,
    entries: u64,
    conflicts: u64,
    values: u64,
    bytes: u64,
}

impl PartitionKeyText {
    fn new((pk, counts): (String, Counts)) -> PartitionKeyText {
        PartitionKeyText {
            pk,
            entries: counts.entries,
            conflicts: counts.conflicts,
            values: counts.values,
            bytes: counts.bytes,
        }
    }
}

/// Answers `ReadIndex`.
pub async fn read(call: &mut Call<'_>, bucket: &Bucket) -> S3Result<Answer> {
    let query = &call.target.query;
    let text = |name: &str| query.single(name).map(|text| text.map(str::to_owned));
    let asked = number(query, "limit")?;
    let wanted = IndexQuery {
        prefix: text("prefix")?,
        start: text("start")?,
        end: text("end")?,
        limit: limit(asked)?,
        reverse: flag(query, "reverse")?,
    };
    call.check_unread_body().await?;
    let found = call.model.read_index(bucket, &wanted).await?;
    let keys = found.partition_keys.into_iter();
    let document = IndexText {
        prefix: wanted.prefix,
        start: wanted.start,
        end: wanted.end,
        limit: asked,
        reverse: wanted.reverse,
        partition_keys: keys.map(PartitionKeyText::new).collect(),
        more: found.next.is_some(),
        next_start: found.next,
    };
    json(StatusCode::OK, &document)
}
