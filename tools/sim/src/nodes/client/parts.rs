//! Uploads in parts.

use std::sync::Arc;

use archipel_model::{Bucket, Condition, Error, Model, PartMeta, Upload, UploadMeta};
use bytes::Bytes;

use super::{Order, meta, new_value, pieces};
use crate::nodes::content::{content, etag};

/// Uploads the same content in parts.
pub async fn upload(
    model: &Model,
    bucket: &Arc<Bucket>,
    order: &Order,
    condition: Condition,
) -> Result<(), Error> {
    let value = new_value(order.call);
    let upload = model
        .create_upload(bucket, order.key, None, UploadMeta::default())
        .await?;
    for part in parts_of(value) {
        send_part(model, bucket, &upload, part, order.piece).await?;
    }
    let (parts, _) = model.list_parts(bucket, &upload, 0, 10).await?;
    let completed = model.complete_upload(bucket, &upload, &parts, meta(value), condition);
    completed.await.map(drop)
}

/// A part as it is sent.
#[derive(Clone)]
pub struct Sent {
    /// Its number.
    pub number: u16,
    /// Its tag. Each attempt has another one.
    pub etag: String,
    content: Bytes,
}

/// Returns the content with this number in two parts, one of which is sent twice.
pub fn parts_of(value: u32) -> [Sent; 3] {
    let content = content(value);
    let middle = content.len() / 2;
    let part = |number, attempt: u8, content| Sent {
        number,
        etag: format!("{}-{attempt}", etag(value)),
        content,
    };
    [
        part(2, 0, content.slice(middle..)),
        part(1, 0, content.slice(..middle / 2)),
        part(1, 1, content.slice(..middle)),
    ]
}

/// Sends a part.
pub async fn send_part(
    model: &Model,
    bucket: &Arc<Bucket>,
    upload: &Upload,
    part: Sent,
    piece: usize,
) -> Result<(), Error> {
    let mut writer = model.begin_part(bucket, upload, part.number)?;
    for piece in pieces(part.content, piece) {
        writer.write(piece).await?;
    }
    let meta = PartMeta {
        etag: part.etag,
        checksum: None,
    };
    writer.finish(meta).await.map(drop)
}
