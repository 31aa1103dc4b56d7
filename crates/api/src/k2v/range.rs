//! `PollRange`.

use archipel_model::Bucket;
use archipel_model::k2v::Range;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::answer::{ItemText, json, parse, token, token_text};
use super::items::poll_time;
use super::service::Permit;
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Result};
use crate::s3::respond::Answer;

/// The longest document: most of it is the marker.
const MAX_DOCUMENT_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PollText {
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    start: Option<String>,
    #[serde(default)]
    end: Option<String>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    seen_marker: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PolledText {
    seen_marker: String,
    items: Vec<ItemText>,
}

/// Answers `PollRange`.
pub async fn poll(call: &mut Call<'_>, bucket: &Bucket, permit: &Permit<'_>) -> S3Result<Answer> {
    let poll: PollText = {
        let document = call.document(MAX_DOCUMENT_BYTES).await?;
        let _place = permit.batch().await;
        parse(&document)?
    };
    let marker = poll.seen_marker.as_deref().map(token).transpose()?;
    let time = poll_time(poll.timeout)?;
    let range = Range {
        pk: call.target.key.clone().unwrap_or_default(),
        prefix: poll.prefix,
        start: poll.start,
        end: poll.end,
        ..Range::default()
    };
    let model = call.model;
    let polled = model.poll_range(bucket, &range, marker.as_deref(), time);
    let polled = permit.poll(bucket, polled).await?;
    let polled = polled.ok_or(Code::NotModified)?;
    let document = PolledText {
        seen_marker: token_text(&polled.marker),
        items: polled.items.into_iter().map(ItemText::new).collect(),
    };
    json(StatusCode::OK, &document)
}
