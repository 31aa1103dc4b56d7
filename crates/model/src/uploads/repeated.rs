//! Completions that are repeated, because their clients got no answer.

use archipel_base::{Id, Stamp, boxed};
use archipel_cluster::{Decision, Intent, State, WriteOptions};
use archipel_storage::{RowKey, Value};

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::events::{Happening, Trigger};
use crate::form::{ContentForm, decode_parts};
use crate::object::ObjectHead;
use crate::objects::check_key;
use crate::rowkeys;
use crate::versions::{self, HeadTest};

impl Model {
    /// Returns the object if this upload became it, and if it passes the test. Its event is at a
    /// quorum then, or was sent: another node may have brought the completion to effect.
    ///
    /// # Errors
    /// Those of reading the object; those of writing it, if its event is not found.
    #[boxed]
    pub async fn completed_by(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: &Id,
        test: HeadTest<'_>,
    ) -> Result<Option<ObjectHead>, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let made = self.cluster().read_stamped(&row).await?;
        let completed = completed(made.value.as_ref(), upload)?;
        let Some((head, intent)) = completed.filter(|(head, _)| test(head).is_ok()) else {
            return Ok(None);
        };
        let happening = Happening::Completed(&head);
        let events = self.events_of(bucket, &row, happening, Trigger::Other);
        // Later writes of the row brought events of their own.
        let is_last = intent.is_some_and(|intent| intent.write == made.write);
        let write = is_last.then_some((made.stamp, made.write));
        if events.is_empty() || self.has_event(&row, write).await? {
            return Ok(Some(head));
        }
        // The row is written again, as it is, for the event that the write brings.
        let how = WriteOptions {
            companions: events,
            frees: true,
            ..WriteOptions::durable(self.durability(bucket))
        };
        let again = |current: Option<&Value>| match completed_again(current, upload) {
            Ok(true) => Decision::Write(current.cloned()),
            Ok(false) => Decision::Abort(Ok(None)),
            Err(error) => Decision::Abort(Err(error)),
        };
        match self.cluster().update(&row, how, again).await? {
            Ok(()) => Ok(Some(head)),
            Err(gone) => gone,
        }
    }

    /// Returns true if the event of a write of an object's row is at a quorum, or was sent.
    async fn has_event(&self, object: &RowKey, write: Option<(Stamp, Id)>) -> Result<bool, Error> {
        let (Some((stamp, write)), Some(prefix)) = (write, rowkeys::events_prefix(object)) else {
            return Ok(false);
        };
        let key = [&prefix[..], &stamp.to_bytes(), write.as_bytes()].concat();
        let event = RowKey {
            partition: object.partition,
            key: key.into(),
        };
        let found = self.cluster().find_companion(&event).await?;
        Ok(matches!(found, Some(State::Live | State::Tombstone)))
    }
}

/// Returns the object that an upload became, and the write that completed it; `None` if the row
/// holds another object, or none.
fn completed(
    value: Option<&Value>,
    upload: &Id,
) -> Result<Option<(ObjectHead, Option<Intent>)>, Error> {
    let Some(value) = value else {
        return Ok(None);
    };
    let head = versions::head_of(value)?;
    let Some(head) = head.filter(|head| head.form == ContentForm::Parts) else {
        return Ok(None);
    };
    let parts = decode_parts(&value.payload)?;
    Ok((parts.upload == *upload).then_some((head, parts.write)))
}

fn completed_again(value: Option<&Value>, upload: &Id) -> Result<bool, Error> {
    Ok(completed(value, upload)?.is_some())
}
