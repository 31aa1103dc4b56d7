//! New keys of the ring, and the state of the ring.

use archipel_base::{Id, boxed};

use super::sweep::Sweep;
use crate::Model;
use crate::error::Error;

/// A key of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingKeyStatus {
    /// The id, which is public.
    pub id: Id,
    /// The time at which it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// True for the key of new content.
    pub is_newest: bool,
    /// True if this node can open it.
    pub is_open: bool,
}

/// The counts of passes that take earlier keys out of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCounts {
    /// Versions, uploads and rows of control data that were looked at.
    pub examined: u64,
    /// Those of them whose key or secret was wrapped again.
    pub rewrapped: u64,
    /// Those for which that failed; a later pass tries them again.
    pub failed: u64,
}

/// The ring as a node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownRing {
    /// The number of keys that the node can open.
    pub keys: usize,
    /// The time at which the newest of them was made, in milliseconds since 1970; 0 for none.
    pub newest_made_ms: u64,
    /// True if no secret of this node opens the newest key. It may know the key from before.
    pub is_closed: bool,
}

/// The state of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingStatus {
    /// The keys, the newest last.
    pub keys: Vec<RingKeyStatus>,
    /// True while passes take the earlier keys out of use. The keys stay in the ring.
    pub is_rotating: bool,
    /// The number of buckets that the present pass is through with.
    pub buckets_done: u64,
    /// The number of all buckets of the present pass.
    pub buckets: u64,
    /// The counts of the passes of this rotation; that of failures is of the present or last one.
    pub counts: SweepCounts,
    /// The time at which a last pass looks whether anything needs the earlier keys, in milliseconds
    /// since 1970; `None` if a first pass is not through yet, or no rotation is under way.
    pub last_pass_ms: Option<u64>,
    /// The secrets of rows that this node cannot open.
    pub closed_secrets: u64,
    /// The secrets of rows that stand there in plain text.
    pub plain_secrets: u64,
    /// The reason why this node cannot open the ring.
    pub trouble: Option<String>,
}

impl Model {
    /// Returns what this node knows of the ring. Asks nobody.
    pub fn known_keyring(&self) -> KnownRing {
        self.keyring().known()
    }

    /// Returns the state of the keyring. Reads its row.
    ///
    /// # Errors
    /// Errors of reading the row; as [`Model::buckets`].
    #[boxed]
    pub async fn keyring_status(&self) -> Result<RingStatus, Error> {
        let ring = self.ring().await?;
        let newest = ring.keys.last().map(|key| key.id);
        let keys = ring.keys.iter().map(|key| RingKeyStatus {
            id: key.id,
            made_ms: key.made_ms,
            is_newest: Some(key.id) == newest,
            is_open: self.keyring().key(&key.id).is_some(),
        });
        let sweep = ring.sweep.as_ref().filter(|s| Some(s.to) == newest);
        let (closed_secrets, plain_secrets) = self.look(|cached| {
            let keys = cached.keys.values();
            let tokens = cached.identities.token_keys.iter();
            let closed = keys.clone().filter(|key| key.is_closed()).count()
                + tokens.clone().map(|keys| keys.closed()).sum::<usize>();
            let sealed_by = keys.map(|key| key.sealed_by());
            let sealed_by = sealed_by.chain(tokens.flat_map(|keys| keys.sealed_by()));
            (closed, sealed_by.filter(Option::is_none).count())
        })?;
        Ok(RingStatus {
            keys: keys.collect(),
            is_rotating: ring.keys.len() > 1 && !sweep.is_some_and(|sweep| sweep.is_over),
            buckets_done: sweep.map_or(0, |sweep| sweep.buckets_done),
            buckets: sweep.map_or(0, |sweep| sweep.buckets),
            counts: sweep.map(Sweep::counts).unwrap_or_default(),
            last_pass_ms: sweep
                .filter(|sweep| !sweep.is_over)
                .and_then(|sweep| sweep.clean_ms)
                .map(|clean| clean.saturating_add(self.day_ms())),
            closed_secrets: closed_secrets as u64,
            plain_secrets: plain_secrets as u64,
            trouble: self.keyring().trouble(),
        })
    }

    /// Gives the ring a new key. New content takes it from now on; the background wraps everything
    /// else again. The earlier keys stay in the ring. A ring that has no key yet gets its first
    /// one. Returns the new key's id.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if this node cannot open the ring; [`Error::LimitExceeded`] if the
    /// ring is full; [`Error::Unavailable`] if this node does not know the time yet.
    #[boxed]
    pub async fn rotate_keyring(&self) -> Result<Id, Error> {
        if !self.cluster().is_time_known() {
            let why = "this node does not know the time yet";
            return Err(Error::Unavailable(why.into()));
        }
        let is_new = self.ring().await?.keys.is_empty();
        let (first, _) = self.newest_master_key().await?;
        if is_new {
            return Ok(first);
        }
        let id = self.add_ring_key().await?;
        self.keyring().sweeps.wake.notify_one();
        Ok(id)
    }
}
