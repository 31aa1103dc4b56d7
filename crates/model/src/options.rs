//! The choices of a node's model.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::{ManualClock, WallClock};

use crate::{CONTROL_LEASE, EXTENT_BLOCKS, RingSecrets, lifecycle};

/// The most buckets that one user may create, unless an operator chose another number. AWS has the
/// same default.
pub const BUCKETS_PER_USER: usize = 10_000;

/// The choices of a node's model.
pub struct ModelOptions {
    /// The time for which control data counts after it was last confirmed. Then the node refuses
    /// requests that need it until it is confirmed again. A node that is alone needs no
    /// confirmation.
    pub control_lease: Duration,
    /// Tells how long the machine was suspended.
    pub suspension_clock: Arc<dyn WallClock>,
    /// The length of a day of lifecycle rules. Only tests need other days than real ones.
    pub day: Duration,
    /// The most buckets that one user, role or access key without a user may create.
    pub buckets_per_user: usize,
    /// The secrets that open the keyring. Without them no secret is sealed.
    pub ring_secrets: RingSecrets,
    /// The number of blocks of a full extent of content. Only tests need short ones.
    pub extent_blocks: usize,
}

impl Default for ModelOptions {
    /// Returns the choices of a server on a machine that is never suspended.
    fn default() -> ModelOptions {
        ModelOptions {
            control_lease: CONTROL_LEASE,
            suspension_clock: Arc::new(ManualClock::default()),
            day: Duration::from_millis(lifecycle::DAY_MS),
            buckets_per_user: BUCKETS_PER_USER,
            ring_secrets: RingSecrets::default(),
            extent_blocks: EXTENT_BLOCKS,
        }
    }
}
