//! Uploads in parts.

use std::sync::Arc;

use archipel_model::{Bucket, Condition, Error, Model, PartMeta, Upload, UploadMeta};

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
    send_parts(model, bucket, &upload, value, order.piece).await?;
    let (parts, _) = model.list_parts(bucket, &upload, 0, 10).await?;
    let completed = model.complete_upload(bucket, &upload, &parts, meta(value), condition);
    completed.await.map(drop)
}

/// Sends the content with this number in two parts, one of which is sent twice.
pub async fn send_parts(
    model: &Model,
    bucket: &Arc<Bucket>,
    upload: &Upload,
    value: u32,
    piece: usize,
) -> Result<(), Error> {
    let content = content(value);
    let middle = content.len() / 2;
    for (number, part) in [
        (2, content.slice(middle..)),
        (1, content.slice(..middle / 2)),
        (1, content.slice(..middle)),
    ] {
        let mut writer = model.begin_part(bucket, upload, number)?;
        for piece in pieces(part, piece) {
            writer.write(piece).await?;
        }
        writer
            .finish(PartMeta {
                etag: etag(value),
                checksum: None,
            })
            .await?;
    }
    Ok(())
}
