//! What the product does: buckets, access keys, objects and multipart uploads as plain
//! operations. Knows no HTTP and no S3 error codes; every operation goes through the register
//! ([`archipel_cluster`]), so nothing here changes with the number of nodes.
//!
//! # Invariants
//! - An object becomes visible whole, at once, or not at all.
//! - Content is dropped only after its owner was asked (see [`sweep`]).
//! - Control data is read from the cache only; a change updates the row first, then the cache.
//!
//! | module | what it holds |
//! |---|---|
//! | [`bucket`] | buckets, access keys, permissions, CORS rules |
//! | [`object`], [`upload`], [`list`] | what is known of objects, uploads, listings |
//! | `control`, `objects`, `uploads`, `listing` | the operations |
//! | `gate` | what keeps commits out of a bucket that is being deleted |
//! | `content`, `reader` | where content is, how it is written and read |
//! | `active` | what is being written or read here |
//! | [`sweep`], `orphans` | dropping what nothing refers to; finding that for which nobody asks |
//! | `rowkeys`, `names` | which row holds what; what it is called |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::Id;
use archipel_cluster::{Cluster, Hooks};
use archipel_storage::engine::Durability;
use tokio::sync::Notify;

mod active;
pub mod bucket;
mod content;
mod control;
pub mod error;
mod gate;
pub mod list;
mod listing;
mod names;
pub mod object;
mod objects;
mod orphans;
mod reader;
mod rowkeys;
pub mod sweep;
pub mod upload;
mod uploads;

#[cfg(test)]
mod tests;

pub use archipel_storage::pool::{Pool, Reservation};
pub use bucket::{AccessKey, Bucket, CorsRule, Permissions, Secret, Usage, check_bucket_name};
pub use content::{BLOCK_BYTES, EXTENT_BYTES, INLINE_BYTES};
pub use error::Error;
pub use list::{ListEntry, ListQuery, Listing};
pub use object::{Checksum, ChecksumKind, Condition, ObjectHead, ObjectMeta, Predicate};
pub use objects::{MAX_KEY_BYTES, ObjectWriter};
pub use reader::{ObjectReader, ObjectStream};
pub use sweep::SweepReport;
pub use upload::{
    MAX_PART_NUMBER, Part, PartInfo, PartMeta, Upload, UploadMeta, UploadPage, UploadQuery,
};
pub use uploads::PartWriter;

use active::Active;
use control::Control;
use sweep::Turns;
use uploads::KnownUploads;

/// How long the sweep waits before it looks again at content that was in use.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// How long the sweep rests at least: under load something is replaced all the time, and all of it waits for longer than this.
const SWEEP_REST: Duration = Duration::from_millis(500);

/// How long to rest between attempts to read the control data for the first time.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// How often the control data is read anew, in case that a change was not heard of.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The product's operations. Cheap to clone.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    control: Control,
    active: Arc<Active>,
    turns: Turns,
    uploads: KnownUploads,
    sweep: Notify,
    /// Whether the control data has been read since the start.
    is_read: AtomicBool,
}

impl Model {
    /// Opens the model on a cluster (made with [`HOOKS`]) and reads the control data, if the
    /// node is in a layout already.
    pub async fn open(cluster: Cluster) -> Result<Model, Error> {
        let model = Model(Arc::new(Inner {
            cluster,
            control: Control::default(),
            active: Arc::default(),
            turns: Turns::default(),
            uploads: KnownUploads::default(),
            sweep: Notify::new(),
            is_read: AtomicBool::new(false),
        }));
        model.listen();
        let active = model.active().clone();
        let used =
            move |content: &[u8]| content.try_into().is_ok_and(|id| active.contains(&Id(id)));
        model.cluster().on_question(used);
        if model.cluster().epoch().is_some() {
            // A node that starts apart from the others serves when it has found them.
            if let Err(error) = model.refresh_all().await {
                tracing::warn!(%error, "buckets and keys cannot be read yet");
            }
        }
        Ok(model)
    }

    /// Waits until the control data has been read, which needs a majority of the nodes that hold
    /// it, for `limit` at most. A node in no layout has nothing to wait for.
    pub async fn wait_until_read(&self, limit: Duration) {
        let read = async {
            while self.cluster().epoch().is_some() && !self.0.is_read.load(Ordering::SeqCst) {
                if self.refresh_all().await.is_err() {
                    tokio::time::sleep(READ_INTERVAL).await;
                }
            }
        };
        if tokio::time::timeout(limit, read).await.is_err() {
            tracing::warn!("too few other nodes are there; requests are refused until they are");
        }
    }

    /// Keeps the cached control data fresh, until it is dropped. Changes are pushed; this is for
    /// what was missed. Run it in a task of its own.
    pub async fn refresh_forever(&self) {
        let mut epochs = self.cluster().epoch_changes();
        loop {
            let _ = tokio::time::timeout(REFRESH_INTERVAL, epochs.changed()).await;
            if self.cluster().epoch().is_some()
                && let Err(error) = self.refresh_all().await
            {
                tracing::warn!(%error, "buckets and keys could not be read anew");
            }
        }
    }

    /// Sweeps in the background, whenever something was replaced and every few seconds, until
    /// it is dropped. Run it in a task of its own.
    pub async fn sweep_forever(&self) {
        loop {
            let pause = match self.sweep_due().await {
                Ok(report) if report.waiting > 0 => sweep::TURN,
                Ok(_) => SWEEP_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "the sweep failed and will be tried again");
                    SWEEP_INTERVAL
                }
            };
            tokio::time::sleep(SWEEP_REST).await;
            let _ = tokio::time::timeout(pause, self.0.sweep.notified()).await;
        }
    }

    /// Goes once through the open questions whose turn has come.
    pub async fn sweep_due(&self) -> Result<SweepReport, Error> {
        sweep::pass(self.cluster(), &self.0.active, Some(&self.0.turns)).await
    }

    /// Goes once through all open questions, at once.
    pub async fn sweep_once(&self) -> Result<SweepReport, Error> {
        sweep::pass(self.cluster(), &self.0.active, None).await
    }

    /// The cluster below, for status and metrics.
    pub fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    pub(crate) fn control(&self) -> &Control {
        &self.0.control
    }

    pub(crate) fn active(&self) -> &Arc<Active> {
        &self.0.active
    }

    pub(crate) fn wake_sweep(&self) {
        self.0.sweep.notify_one();
    }

    pub(crate) fn durability(&self, bucket: &Bucket) -> Durability {
        bucket.durability(self.0.cluster.default_durability())
    }

    pub(crate) fn random_id(&self) -> Id {
        self.0.cluster.random_id()
    }

    pub(crate) fn fill_random(&self, bytes: &mut [u8]) {
        self.0.cluster.fill_random(bytes);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.0.cluster.now_ms()
    }
}

/// What the model adds to the rules of rows: to be given to the cluster.
pub const HOOKS: Hooks = Hooks {
    on_replace: sweep::on_replace,
    ends: uploads::ended_by,
    holds: gate::holds,
};
