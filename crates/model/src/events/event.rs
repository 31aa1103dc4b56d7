//! Events: what happened to an object, as the row that waits for delivery holds it.

use std::sync::OnceLock;

use archipel_base::codec::{self, Versioned};
use archipel_base::hash::placement_hash;
use archipel_base::{Id, Stamp};
use archipel_cluster::{Bringer, Companion};
use archipel_storage::{RowKey, RowMetadata, VersionName};
use serde::{Deserialize, Serialize};

use super::targets::EventTarget;
use crate::bucket::Bucket;
use crate::object::ObjectHead;
use crate::owner::Owner;
use crate::rowkeys;
use crate::version::VersionId;

/// The kind of request by which an object came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Creation {
    /// PutObject.
    #[default]
    Put,
    /// A form.
    Post,
    /// CopyObject.
    Copy,
}

/// The cause of changes of objects: the client that asked for it, and its request. Events tell it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cause {
    /// The kind of request by which new objects come to be.
    pub creation: Creation,
    /// The unique id of the user or role. It stays empty for an anonymous client.
    pub principal: OnceLock<String>,
    /// The client's address.
    pub address: Option<String>,
    /// The name of the request.
    pub request_id: String,
    /// The name of the process that answers the request.
    pub host_id: String,
}

/// The origin of a change, as far as the names of events tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trigger {
    /// A rule of the bucket's lifecycle.
    LifecycleRule,
    /// A client's request, or the work of a node.
    Other,
}

impl Trigger {
    /// Returns the origin of a change. Those in the background are made by lifecycle rules.
    pub fn of_change(background: bool) -> Trigger {
        match background {
            true => Trigger::LifecycleRule,
            false => Trigger::Other,
        }
    }
}

/// A change of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening<'a> {
    /// A new object by PutObject, a form or CopyObject.
    Created(&'a ObjectHead),
    /// An upload was completed.
    Completed(&'a ObjectHead),
    /// The object, or a version of it, is gone.
    Deleted(Option<VersionId>),
    /// A delete marker became the current version.
    Marked,
    /// The tags of a version with this entity tag, if it is known, changed: true if there are some.
    Tagged(VersionId, Option<&'a str>, bool),
    /// The access control list of a version with this entity tag, if it is known, changed.
    Listed(VersionId, Option<&'a str>),
}

impl<'a> Happening<'a> {
    /// Returns the same of a version with this entity tag, which changes.
    pub fn of_version_with(self, etag: &'a str) -> Self {
        match self {
            Happening::Tagged(id, _, any) => Happening::Tagged(id, Some(etag), any),
            Happening::Listed(id, _) => Happening::Listed(id, Some(etag)),
            other => other,
        }
    }

    /// Returns true if the rules of a bucket ask for the event of a client's change of a key.
    pub fn is_asked_for(self, bucket: &Bucket, key: &str) -> bool {
        let name = self.name(Creation::default(), Trigger::Other);
        let rules = bucket.notification.as_ref();
        rules.is_some_and(|rules| rules.rule_for(name, key).is_some())
    }

    /// Returns the name of the event.
    fn name(self, creation: Creation, trigger: Trigger) -> &'static str {
        use Trigger::{LifecycleRule, Other};
        match (self, creation, trigger) {
            (Happening::Created(_), Creation::Put, _) => "s3:ObjectCreated:Put",
            (Happening::Created(_), Creation::Post, _) => "s3:ObjectCreated:Post",
            (Happening::Created(_), Creation::Copy, _) => "s3:ObjectCreated:Copy",
            (Happening::Completed(_), ..) => "s3:ObjectCreated:CompleteMultipartUpload",
            (Happening::Deleted(_), _, Other) => "s3:ObjectRemoved:Delete",
            (Happening::Marked, _, Other) => "s3:ObjectRemoved:DeleteMarkerCreated",
            (Happening::Deleted(_), _, LifecycleRule) => "s3:LifecycleExpiration:Delete",
            (Happening::Marked, _, LifecycleRule) => "s3:LifecycleExpiration:DeleteMarkerCreated",
            (Happening::Tagged(.., true), ..) => "s3:ObjectTagging:Put",
            (Happening::Tagged(.., false), ..) => "s3:ObjectTagging:Delete",
            (Happening::Listed(..), ..) => "s3:ObjectAcl:Put",
        }
    }
}

/// The content of a row of an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "t")]
    target: String,
    #[serde(rename = "r")]
    rule: String,
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "b")]
    bucket: String,
    #[serde(rename = "m")]
    time_ms: u64,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(rename = "q", default, skip_serializing_if = "String::is_empty")]
    request_id: String,
    #[serde(rename = "h", default, skip_serializing_if = "String::is_empty")]
    host_id: String,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

impl Versioned for Stored {
    const VERSION: u8 = 1;
}

/// An event, as targets and listeners get it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Event {
    /// The name of the rule that asked for the event; empty for listeners.
    #[serde(rename = "r", default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The name of the event, with `s3:` before it.
    #[serde(rename = "n")]
    pub name: String,
    /// The name of the bucket.
    #[serde(rename = "b")]
    pub bucket: String,
    /// The unique id of who owns the bucket; `None` if nobody does.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The identity of the bucket.
    #[serde(rename = "i")]
    pub bucket_id: Id,
    /// The key of the object.
    #[serde(rename = "k")]
    pub key: String,
    /// The time in milliseconds since 1970.
    #[serde(rename = "m")]
    pub time_ms: u64,
    /// The size of a new object.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The entity tag of the object that is new, or whose tags or access control list changed,
    /// without quotes.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The version that the event is about, if the bucket has versions.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The one that asked for it; `None` for an anonymous client or the server itself.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The client's address.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The name of the request.
    #[serde(rename = "q", default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// The name of the process that answered the request.
    #[serde(rename = "h", default, skip_serializing_if = "String::is_empty")]
    pub host_id: String,
    /// Orders the events of one key: later ones are greater, as text of the same length.
    #[serde(rename = "o")]
    pub sequencer: String,
}

impl Versioned for Event {
    const VERSION: u8 = 1;
}

/// An event that waits for its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    /// The name of the target.
    pub target: String,
    pub event: Event,
    /// The row that holds it.
    pub row: RowKey,
    /// The version of the object that its write makes, if that has a name of its own.
    pub made: VersionName,
    /// The write that it tells of.
    pub bringer: Bringer,
}

/// Returns the group in which the events of a target are counted.
pub(crate) fn group_of(target: &str) -> Id {
    let half = |n: u8| placement_hash(&[b"events of a target", &[n], target.as_bytes()]);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half(0).to_be_bytes());
    id[8..].copy_from_slice(&half(1).to_be_bytes());
    Id(id)
}

/// Returns the companion that a write of an object's row brings because of what happens.
pub(crate) fn companion(
    bucket: &Bucket,
    row: &RowKey,
    happening: Happening<'_>,
    by: (Option<&Cause>, Trigger),
    now_ms: u64,
    target: impl Fn(&str) -> EventTarget,
) -> Option<Companion> {
    let (cause, trigger) = by;
    let notification = bucket.notification.as_ref()?;
    let Some(Owner::Object { key, .. }) = rowkeys::owner_of(&row.key) else {
        return None;
    };
    let creation = cause.map(|cause| cause.creation).unwrap_or_default();
    let name = happening.name(creation, trigger);
    let rule = notification.rule_for(name, &key)?;
    let event = Event::of_change(bucket, key, happening, by, now_ms);
    let stored = Stored {
        target: rule.target.clone(),
        rule: rule.id.clone(),
        name: event.name,
        bucket: event.bucket,
        time_ms: event.time_ms,
        size: event.size,
        etag: event.etag,
        version: event.version,
        principal: event.principal,
        address: event.address,
        request_id: event.request_id,
        host_id: event.host_id,
        owner: event.owner,
    };
    let limits = target(&rule.target);
    Some(Companion {
        prefix: rowkeys::events_prefix(row)?,
        metadata: codec::encode(&stored).into(),
        group: group_of(&rule.target),
        most: limits.most_in_partition(),
        refuses: limits.refuses,
    })
}

impl Event {
    /// Returns what is known of a change before it took effect.
    pub(super) fn of_change(
        bucket: &Bucket,
        key: String,
        happening: Happening<'_>,
        (cause, trigger): (Option<&Cause>, Trigger),
        now_ms: u64,
    ) -> Event {
        let creation = cause.map(|cause| cause.creation).unwrap_or_default();
        let (size, etag, version) = match happening {
            Happening::Created(head) | Happening::Completed(head) => {
                (Some(head.size), Some(head.etag.clone()), None)
            }
            Happening::Deleted(version) => (None, None, version),
            Happening::Marked => (None, None, None),
            Happening::Tagged(version, etag, _) | Happening::Listed(version, etag) => {
                (None, etag.map(str::to_owned), Some(version))
            }
        };
        let version =
            version.filter(|id| bucket.versioning.has_versions() || *id != VersionId::Null);
        Event {
            rule: String::new(),
            name: happening.name(creation, trigger).to_owned(),
            bucket: bucket.name.clone(),
            owner: bucket.first_owner().map(str::to_owned),
            bucket_id: bucket.id,
            key,
            time_ms: now_ms,
            size,
            etag,
            version: version.map(|id| id.to_string()),
            principal: cause.and_then(|cause| cause.principal.get().cloned()),
            address: cause.and_then(|cause| cause.address.clone()),
            request_id: cause.map_or_else(String::new, |cause| cause.request_id.clone()),
            host_id: cause.map_or_else(String::new, |cause| cause.host_id.clone()),
            sequencer: String::new(),
        }
    }

    /// Returns the same of a write under this stamp, which made this version.
    pub(super) fn of_write(self, stamp: Stamp, made: VersionName) -> Event {
        let made = made.map(|at| VersionId::At(at).to_string());
        Event {
            version: self.version.or(made),
            sequencer: hex::encode_upper(stamp.to_bytes()),
            ..self
        }
    }
}

impl Waiting {
    /// Returns the target of the event that a row holds.
    pub(crate) fn target_in(found: &RowMetadata) -> Option<String> {
        let (_, metadata) = Bringer::of(found)?;
        let stored: Stored = codec::decode(metadata).ok()?;
        Some(stored.target)
    }

    /// Returns the row of the event of another attempt of the same write.
    pub(crate) fn row_under(&self, stamp: Stamp) -> RowKey {
        let names_write = self.row.key.len().saturating_sub(Bringer::KEY_BYTES);
        let object = self.row.key.get(..names_write).unwrap_or_default();
        let key = [object, &stamp.to_bytes(), self.bringer.write.as_bytes()].concat();
        RowKey {
            partition: self.row.partition,
            key: key.into(),
        }
    }

    /// Returns the event of the same write under this stamp.
    pub(crate) fn event_under(&self, stamp: Stamp) -> Event {
        self.event.clone().of_write(stamp, self.made)
    }

    /// Returns the event that a row holds; `None` if it cannot be read.
    pub(crate) fn of(row: RowKey, found: &RowMetadata) -> Option<Waiting> {
        let (bringer, metadata) = Bringer::of(found)?;
        let stored: Stored = codec::decode(metadata).ok()?;
        let object = rowkeys::object_of_event(&row)?;
        let Some(Owner::Object { key, bucket }) = rowkeys::owner_of(&object.key) else {
            return None;
        };
        let made = found.version.as_ref().and_then(|version| version.at);
        let event = Event {
            rule: stored.rule,
            name: stored.name,
            bucket: stored.bucket,
            owner: stored.owner,
            bucket_id: bucket,
            key,
            time_ms: stored.time_ms,
            size: stored.size,
            etag: stored.etag,
            version: stored.version,
            principal: stored.principal,
            address: stored.address,
            request_id: stored.request_id,
            host_id: stored.host_id,
            sequencer: String::new(),
        };
        Some(Waiting {
            target: stored.target,
            event: event.of_write(found.stamp, made),
            row,
            made,
            bringer,
        })
    }
}
