//! The operations of the product: buckets, access keys, objects and multipart uploads.
//!
//! This crate knows no HTTP and no S3 error codes. Every operation goes through the register
//! ([`archipel_cluster`]), so nothing here depends on the number of nodes.
//!
//! # Invariants
//! - An object becomes visible whole and at once, or not at all.
//! - Content is dropped only after its owner was asked (see [`gc`]).
//! - Requests read control data from the cache only, and only while the cache counts: after it was
//!   filled, and for a lease after it was last confirmed. A change updates the row first, then the
//!   cache.
//! - A grant counts for one incarnation of an access key. A key that is deleted and imported again
//!   gets no old grant back.
//!
//! A module in the singular (`upload`) defines data, the one in the plural (`uploads`) the
//! operations.
//!
//! | data | what it holds |
//! |---|---|
//! | [`error`], `options` | errors; the choices of a node's model |
//! | `rowkeys`, `names` | keys of rows; names of rows for people |
//! | [`bucket`], [`object`], [`upload`] | buckets, access keys, objects and uploads |
//! | [`version`], [`lock`] | ids of versions; the rules of object lock |
//! | [`access`], [`token`] | access rules of a bucket; tokens of the admin API |
//! | [`website`], [`notification`], [`lifecycle`], `quota` | other settings of a bucket |
//!
//! | operations | what it holds |
//! |---|---|
//! | `control`, `objects`, `uploads` | operations on buckets and keys, objects, uploads |
//! | `versions`, `version_rows`, `held` | operations on versions of objects; what replicas refuse to give up |
//! | [`listing`] | listings of objects |
//! | [`k2v`] | items with causality: the values of the K2V API |
//! | [`identity`] | users, groups, roles, policies, temporary credentials |
//! | [`events`] | events that wait for delivery, their targets; clients that listen |
//! | `room` | how the partitions of a bucket share its quota |
//! | `fence` | keeps commits out of a bucket that is being deleted |
//! | `intents` | an upload points to the write of the object that completes or aborts it |
//! | [`certificates`] | certificates from an authority, and the account there |
//!
//! | content | what it holds |
//! |---|---|
//! | `content`, `reader` | writes and reads content |
//! | [`checksum`], `form`, `owner` | what rows say of content: checksum, form, owner |
//! | `cipher`, [`encryption`] | the cipher of content; encrypted content and its keys |
//! | `in_use` | content that this process writes or reads |
//!
//! | background work | what it does |
//! |---|---|
//! | [`gc`], `orphans` | drops unneeded content; finds content that no GC task names |
//! | `expiry` | removes what lifecycle rules make expire |

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Id, boxed};
use archipel_cluster::{Cluster, Hooks};
use archipel_storage::engine::Durability;
use archipel_traces::carry;
use tokio::sync::{Notify, Semaphore};

pub mod access;
pub mod bucket;
pub mod certificates;
pub mod checksum;
mod cipher;
mod content;
mod control;
pub mod encryption;
pub mod error;
pub mod events;
mod expiry;
mod fence;
mod form;
pub mod gc;
mod held;
pub mod identity;
mod in_use;
mod intents;
pub mod k2v;
pub mod lifecycle;
pub mod listing;
pub mod lock;
mod names;
pub mod notification;
pub mod object;
mod objects;
mod options;
mod orphans;
mod owner;
mod quota;
mod reader;
mod room;
mod rowkeys;
pub mod token;
pub mod upload;
mod uploads;
pub mod version;
mod version_rows;
mod versions;
pub mod website;

#[cfg(test)]
mod tests;

pub use access::BucketPolicy;
pub use archipel_storage::pool::{Pool, Reservation};
pub use bucket::{
    AccessKey, Alias, Bucket, CorsRule, GrantChange, Permissions, Secret, check_bucket_name,
};
pub use checksum::{Checksum, ChecksumKind};
pub use cipher::{BlockedEncryption, CustomerKey, DataKey, Encryption, EncryptionKind};
pub use control::check_access_key;
pub use encryption::keyring::RingSecrets;
pub use encryption::rotation::{KnownRing, RingKeyStatus, RingStatus, SweepCounts};
pub use encryption::{DefaultEncryption, Encrypt, Sealing};
pub use error::Error;
pub use events::{
    Cause, Creation, DeliverEvent, Event, EventListener, EventTarget, Interest, TargetStatus,
};
pub use expiry::{ExpiryCounts, ExpiryStatus};
pub use form::{BLOCK_BYTES, EXTENT_BLOCKS, EXTENT_BYTES, INLINE_BYTES, PartInfo};
pub use gc::GcReport;
pub use identity::Subject;
pub use lifecycle::{
    Due, Expiration, Lifecycle, LifecycleFilter, LifecycleRule, NoncurrentExpiration,
};
pub use listing::versions::{VersionEntry, VersionListing, VersionQuery};
pub use listing::{ListEntry, ListQuery, Listing};
pub use lock::{
    BucketLock, DefaultRetention, Governance, MAX_RETENTION_DAYS, ObjectLock, Retention,
    RetentionMode, RetentionPeriod,
};
pub use notification::{Notification, NotificationKind, NotificationRule};
pub use object::{Condition, LockChange, Marker, ObjectHead, ObjectMeta, Predicate, Tags};
pub use objects::{MAX_KEY_BYTES, ObjectWriter};
pub use options::{BUCKETS_PER_USER, ModelOptions};
pub use quota::{Quota, Usage};
pub use reader::{ObjectReader, ObjectStream};
pub use room::{Fill, Filled};
pub use token::{AdminToken, NewToken, TokenChange, TokenScope};
pub use upload::{MAX_PART_NUMBER, Part, PartMeta, Upload, UploadMeta, UploadPage, UploadQuery};
pub use uploads::PartWriter;
pub use version::{GivenVersion, NotAnId, VersionId, Versioning};
pub use versions::{Deleted, HeadTest};
pub use website::Website;

use control::Control;
use encryption::keyring::Keyring;
use events::Events;
use expiry::Expiry;
use gc::Delays;
use in_use::InUse;
use room::Divisions;
use uploads::{KnownUploads, UploadIds};

/// The pause between attempts to read the control data for the first time.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// The time for which cached control data counts without confirmation, by default.
pub const CONTROL_LEASE: Duration = Duration::from_secs(30);

/// The number of times that the control data is read again within a lease. That many attempts may
/// fail before requests do.
const REFRESHES: u32 = 3;

/// The pause after an attempt that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The operations of the product on one node. Cheap to clone.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
    /// The cause of the changes through this handle, which events tell.
    cause: Option<Arc<Cause>>,
}

struct Inner {
    cluster: Cluster,
    control: Control,
    in_use: Arc<InUse>,
    gc_delays: Delays,
    gc_wake: Notify,
    uploads: KnownUploads,
    upload_ids: UploadIds,
    expiry: Expiry,
    keyring: Arc<Keyring>,
    quotas: parking_lot::Mutex<Filled>,
    divisions: Divisions,
    events: Events,
    /// Room for reads of K2V items and ranges by batches.
    batched: Semaphore,
    /// The length of a day of lifecycle rules.
    day_ms: u64,
    /// The most buckets that one user may create.
    buckets_per_user: usize,
    /// The number of blocks of a full extent.
    extent_blocks: usize,
}

impl Model {
    /// Opens the model on a cluster that was made with [`HOOKS`]. Reads the control data if the
    /// node is in a layout already. The control data counts for [`CONTROL_LEASE`]. Suspensions of
    /// the machine are not noticed.
    #[boxed]
    pub async fn open(cluster: Cluster) -> Result<Model, Error> {
        Model::open_with(cluster, ModelOptions::default()).await
    }

    /// Opens the model with these options.
    #[boxed]
    pub async fn open_with(cluster: Cluster, options: ModelOptions) -> Result<Model, Error> {
        let keyring = Keyring::with(options.ring_secrets);
        let inner = Arc::new(Inner {
            cluster,
            control: Control::new(
                options.control_lease,
                options.suspension_clock,
                keyring.clone(),
            ),
            in_use: Arc::default(),
            gc_delays: Delays::default(),
            gc_wake: Notify::new(),
            uploads: KnownUploads::default(),
            upload_ids: UploadIds::default(),
            expiry: Expiry::default(),
            keyring,
            quotas: parking_lot::Mutex::default(),
            divisions: Divisions::default(),
            batched: Semaphore::new(k2v::BATCHED_READS),
            day_ms: (options.day.as_millis() as u64).max(1),
            buckets_per_user: options.buckets_per_user,
            extent_blocks: options.extent_blocks.max(1),
            events: Events::default(),
        });
        let model = Model { inner, cause: None };
        model.listen();
        let in_use = model.in_use().clone();
        let is_used =
            move |content: &[u8]| content.try_into().is_ok_and(|id| in_use.contains(&Id(id)));
        model.cluster().on_in_use_check(is_used);
        if model.cluster().is_in_layout() {
            // A node that cannot reach the others yet serves requests once it has found them.
            if let Err(error) = model.refresh_all().await {
                tracing::warn!(%error, "buckets and access keys cannot be read yet");
            }
        }
        Ok(model)
    }

    /// Waits until the control data has been read, at most for `limit`. That needs a majority of
    /// the nodes that hold it. A node in no layout does not wait.
    #[boxed]
    pub async fn wait_until_read(&self, limit: Duration) {
        let read = async {
            while self.cluster().is_in_layout() && !self.control().is_filled() {
                if self.refresh_all().await.is_err() {
                    tokio::time::sleep(READ_INTERVAL).await;
                }
            }
        };
        if tokio::time::timeout(limit, read).await.is_err() {
            tracing::warn!("too few other nodes answer; this node refuses requests until they do");
        }
    }

    /// Keeps the cached control data confirmed and fresh, until it is dropped. Other nodes push
    /// their changes; this reads the changes that the node missed. It also drops the grants of
    /// deleted access keys. Run it in a task of its own.
    #[boxed]
    pub async fn refresh_forever(&self) {
        tokio::join!(self.confirm_forever(), self.drop_dead_grants_forever());
    }

    async fn confirm_forever(&self) {
        let mut layouts = self.cluster().layout_changes();
        let interval = self.control().lease / REFRESHES;
        loop {
            let pause = if self.control().is_fresh() || !self.cluster().is_in_layout() {
                interval
            } else {
                interval.min(RETRY_INTERVAL)
            };
            let _ = tokio::time::timeout(pause, layouts.changed()).await;
            if self.cluster().is_in_layout()
                && let Err(error) = self.refresh_all().await
            {
                tracing::warn!(%error, "buckets and access keys cannot be read again");
            }
        }
    }

    /// Returns true while grants of deleted access keys, users and roles are being removed.
    #[must_use]
    pub fn is_dropping_dead_grants(&self) -> bool {
        self.control().dead_grants.are_left()
    }

    /// Drops the grants of deleted keys: at the start, because the node that deleted the key may
    /// have crashed before it dropped them, and after each deletion.
    async fn drop_dead_grants_forever(&self) {
        loop {
            let deletions = self.control().dead_grants.asked().await;
            // Dead grants permit nothing, so no request waits for this.
            while let Err(error) = self.drop_dead_grants().await {
                tracing::debug!(%error, "grants of deleted access keys are left");
                tokio::time::sleep(self.control().lease / REFRESHES).await;
            }
            self.control().dead_grants.done(deletions);
        }
    }

    /// Returns a handle whose changes of objects have this cause. Events tell it.
    #[must_use]
    pub fn with_cause(&self, cause: Cause) -> Model {
        Model {
            inner: self.inner.clone(),
            cause: Some(Arc::new(cause)),
        }
    }

    /// Names the user or role that causes changes through this handle, once it is known.
    pub fn acts_for(&self, principal: &str) {
        if let Some(cause) = &self.cause {
            // The first name stays.
            let _ = cause.principal.set(principal.to_owned());
        }
    }

    /// Returns the cluster below, for status and metrics.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    pub(crate) fn control(&self) -> &Control {
        &self.inner.control
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.inner.keyring
    }

    pub(crate) fn in_use(&self) -> &Arc<InUse> {
        &self.inner.in_use
    }

    pub(crate) fn wake_gc(&self) {
        self.inner.gc_wake.notify_one();
    }

    pub(crate) fn durability(&self, bucket: &Bucket) -> Durability {
        bucket.durability(self.inner.cluster.default_durability())
    }

    pub(crate) fn random_id(&self) -> Id {
        self.inner.cluster.random_id()
    }

    pub(crate) fn fill_random(&self, bytes: &mut [u8]) {
        self.inner.cluster.fill_random(bytes);
    }

    /// Returns the length of a day of lifecycle rules in milliseconds.
    pub fn day_ms(&self) -> u64 {
        self.inner.day_ms
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.inner.cluster.now_ms()
    }
}

/// Runs work in a task of its own, so that a caller that goes away does not stop it half-way.
/// `does` says what the work does, as in "deletes an access key".
pub(crate) async fn detached<T: Send + 'static>(
    does: &str,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let broken = |error| Error::Internal(format!("the task that {does} failed: {error}"));
    tokio::spawn(carry(work)).await.map_err(broken)?
}

/// The model's additions to the rules of rows. The cluster must be opened with them.
pub const HOOKS: Hooks = Hooks {
    on_replace: gc::on_replace,
    points: intents::points,
    intent: intents::intent,
    with_intent: intents::with_intent,
    holds: fence::holds,
    limit: fence::limit,
    kept_prefix: rowkeys::kept_prefix,
    kept_in: rowkeys::kept_in,
    refuses: held::refuses,
    topics: k2v::topics,
    most_dead: Hooks::NONE.most_dead,
};
