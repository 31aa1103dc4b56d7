//! Intents: an upload's row points to the write of the object that completes or aborts the upload.
//!
//! The object's row decides. An upload with an intent is neither in progress nor over. An operation
//! that meets one asks the object's row what became of the write, and then writes the upload's row
//! ([`progress_of`]). If the write took effect, the upload is over. If it never will, the upload
//! is in progress. If nobody can know any more, the upload is over.
//! [`intent`](archipel_cluster::register::intent) has the rules.

use archipel_base::{Stamp, boxed, codec};
use archipel_cluster::register::intent::Fate;
use archipel_cluster::{Cluster, Decision, Intent, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};

use crate::error::{Error, damaged_row};
use crate::form::{ContentForm, decode_parts};
use crate::object::ObjectHead;
use crate::owner::{Owner, UploadName};
use crate::rowkeys;
use crate::upload::Upload;

/// The number of intents of one upload that are resolved in a row.
const TRIES: u32 = 10;

/// Returns the row of the upload that became the object, and the write that completed it.
pub fn points(key: &RowKey, value: &Value) -> Option<(RowKey, Intent)> {
    let Some(Owner::Object {
        bucket,
        key: object,
    }) = rowkeys::owner_of(&key.key)
    else {
        return None;
    };
    let metadata: ObjectHead = codec::decode(&value.metadata).ok()?;
    if metadata.form != ContentForm::Parts {
        return None;
    }
    let list = decode_parts(&value.payload).ok()?;
    let name = UploadName::new(&bucket, &object, &list.upload);
    let intent = Intent {
        name: value.version_name(),
        ..list.write?
    };
    Some((rowkeys::upload_in(key.partition, &name), intent))
}

/// Returns the write that an upload's row points to.
pub fn intent(metadata: &[u8]) -> Option<Intent> {
    codec::decode::<Upload>(metadata).ok()?.intent
}

/// Returns the value of an upload's row once it points to a write.
pub fn with_intent(value: &Value, intent: Intent) -> Option<Value> {
    with(value, Some(intent))
}

fn with(value: &Value, intent: Option<Intent>) -> Option<Value> {
    let upload: Upload = codec::decode(&value.metadata).ok()?;
    let upload = Upload { intent, ..upload };
    Some(Value {
        metadata: codec::encode(&upload).into(),
        ..value.clone()
    })
}

/// Returns the upload if it is in progress. Resolves its intent first.
#[boxed]
pub async fn progress_of(cluster: &Cluster, name: &UploadName) -> Result<Option<Upload>, Error> {
    let row = rowkeys::upload(cluster, name);
    for _ in 0..TRIES {
        let version = cluster.read_stamped(&row).await?;
        let Some(value) = version.value else {
            return Ok(None);
        };
        let upload: Upload = codec::decode(&value.metadata).map_err(damaged_row)?;
        let Some(intent) = upload.intent else {
            return Ok(Some(upload));
        };
        let object = rowkeys::object(cluster, &name.bucket, &name.key);
        let fate = cluster.resolve(&object, &intent, version.stamp).await?;
        let is_over = fate.ends();
        tracing::debug!(?fate, upload = %name.id, "a completion or an abort was met");
        if finish(cluster, &row, &intent, is_over).await? {
            let upload = Upload {
                intent: None,
                ..upload
            };
            return Ok((!is_over).then_some(upload));
        }
    }
    let why = "too many completions of the upload are in progress";
    Err(Error::Unavailable(why.into()))
}

/// Writes the upload's row once the fate of its intent is known. Returns false if the row does not
/// point to that write any more.
#[boxed]
pub async fn finish(
    cluster: &Cluster,
    row: &RowKey,
    intent: &Intent,
    is_over: bool,
) -> Result<bool, Error> {
    let how = WriteOptions::durable(Durability::Fsync);
    // The attempt counts, too: a write that was announced under another ballot may be under way. A
    // write that took effect ends the upload in any case.
    let is_same = |of: Intent| of.write == intent.write && (is_over || of.name == intent.name);
    let decide = |current: Option<&Value>| match current {
        Some(value) if self::intent(&value.metadata).is_some_and(is_same) => {
            Decision::Write(with(value, None).filter(|_| !is_over))
        }
        _ => Decision::Abort(()),
    };
    Ok(cluster.update(row, how, decide).await?.is_ok())
}

/// Makes an upload live again after a write that took no effect and never will. A replica may still
/// hold its mark, so the row is written again although it shows none.
///
/// # Errors
/// [`Error::Unavailable`] also if the write was sent and the upload ended meanwhile, because
/// another operation could not find out what became of the write.
#[boxed]
pub async fn undo(
    cluster: &Cluster,
    row: &RowKey,
    intent: &Intent,
    is_sent: bool,
) -> Result<(), Error> {
    let how = WriteOptions::durable(Durability::Fsync);
    let decide = |current: Option<&Value>| match current {
        None => Decision::Abort(()),
        Some(value) if self::intent(&value.metadata).map(|i| i.write) == Some(intent.write) => {
            Decision::Write(with(value, None))
        }
        Some(value) => Decision::Write(Some(value.clone())),
    };
    match cluster.update(row, how, decide).await? {
        Err(()) if is_sent => Err(Error::Unavailable("the upload ended meanwhile".into())),
        Ok(()) | Err(()) => Ok(()),
    }
}

/// Makes sure that a write of the null version, which took no effect, is not kept as an older
/// version either.
///
/// # Errors
/// [`Error::Unavailable`] if a minority may keep it.
#[boxed]
pub async fn check_undone(
    cluster: &Cluster,
    object: &RowKey,
    intent: &Intent,
) -> Result<(), Error> {
    match cluster.resolve(object, intent, Stamp::ZERO).await? {
        Fate::Never => Ok(()),
        Fate::Chosen | Fate::Unknown => {
            let why = "it is not known whether the upload was completed";
            Err(Error::Unavailable(why.into()))
        }
    }
}
