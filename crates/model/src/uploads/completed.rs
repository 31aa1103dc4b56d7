//! The object that a completed upload becomes.

use archipel_base::codec;
use archipel_cluster::Intent;
use archipel_storage::{Payload, RowKey};

use crate::Model;
use crate::form::{ContentForm, PartInfo, PartList};
use crate::object::{ObjectHead, ObjectMeta};
use crate::objects::NewObject;
use crate::upload::{Part, Upload};
use crate::version::VersionId;

impl Model {
    /// Returns the metadata of an object of these parts.
    pub(super) fn completed_head(
        &self,
        row: &RowKey,
        upload: &Upload,
        parts: &[Part],
        meta: ObjectMeta,
    ) -> ObjectHead {
        ObjectHead {
            version: self.random_id(),
            size: parts.iter().map(|part| part.size).sum(),
            etag: meta.etag,
            modified_ms: self.now_ms(),
            headers: meta.headers,
            checksum: meta.checksum,
            parts: parts.len() as u32,
            tags: meta.tags,
            acl: meta.acl,
            lock: meta.lock,
            id: VersionId::Null,
            is_marker: false,
            encryption: self.freshened(row, upload.meta.encryption.clone()),
            form: ContentForm::Parts,
        }
    }
}

/// Returns the object that the write of this intent makes.
pub(super) fn object(
    head: &ObjectHead,
    upload: &Upload,
    parts: &[Part],
    intent: Intent,
) -> NewObject {
    let list = PartList {
        upload: upload.id,
        parts: parts.iter().map(part_info).collect(),
        write: Some(intent),
    };
    NewObject {
        head: head.clone(),
        payload: Payload::Inline(codec::encode(&list).into()),
    }
}

fn part_info(part: &Part) -> PartInfo {
    PartInfo {
        number: part.number,
        size: part.size,
        checksum: part.checksum.clone(),
        attempt: part.attempt,
    }
}
