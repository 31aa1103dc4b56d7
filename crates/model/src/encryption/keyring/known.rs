//! The ring as this node knows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use archipel_base::{Id, codec};
use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::wrapping::Wrapping;
use super::{MAX_KEYS, Ring, RingSecrets};
use crate::cipher::DataKey;
use crate::encryption::rotation::KnownRing;
use crate::encryption::sweep::Sweeps;
use crate::error::Error;

/// The trouble of a node that knows the newest key, and has no secret for it.
const HELD: &str = "no secret of this node opens the newest key of the keyring any more, so after a restart it would refuse \
    what the keyring protects; fix: give it the secret that the other nodes have";

/// The ring as this node knows it.
#[derive(Default)]
pub(crate) struct Keyring {
    pub(super) secrets: OnceLock<RingSecrets>,
    /// The derived keys.
    pub(super) wrapping: Mutex<Option<Arc<Wrapping>>>,
    known: RwLock<Known>,
    /// True once this process wanted to add a wrapping that was missing. The attempt may have taken
    /// effect although its answer was lost.
    has_added: AtomicBool,
    /// The state of what takes earlier keys out of use.
    pub sweeps: Sweeps,
}

#[derive(Default)]
struct Known {
    keys: BTreeMap<Id, DataKey>,
    newest: Option<Id>,
    newest_made_ms: u64,
    /// True if a secret of this node opens the newest key of the row. Otherwise the node has at
    /// most the keys that it knew before.
    is_opened: bool,
    /// The revision of the row, and its bytes.
    revision: u64,
    row: Bytes,
    /// The reason why the ring does not open.
    trouble: Option<String>,
}

/// Returns the error of a node that does not know the newest key.
pub(super) fn closed() -> Error {
    Error::NoMasterKey(
        "no secret of this node opens the newest key of the keyring; fix: give all nodes the same \
         cluster secret, or the same encryption.key_file"
            .into(),
    )
}

impl Keyring {
    /// Returns the ring of a node with these secrets, if there are any.
    pub(crate) fn with(secrets: RingSecrets) -> Arc<Keyring> {
        let ring = Keyring::default();
        if !secrets.present.is_empty() {
            ring.set_secrets(secrets);
        }
        Arc::new(ring)
    }

    /// Sets what opens the ring. Later calls change nothing.
    pub(crate) fn set_secrets(&self, secrets: RingSecrets) {
        // The first ones stay.
        let _ = self.secrets.set(secrets);
    }

    /// Returns true if this node has anything that could open a ring.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets
            .get()
            .is_some_and(|all| !all.present.is_empty())
    }

    /// Returns what is known.
    pub(crate) fn known(&self) -> KnownRing {
        let known = self.known.read();
        KnownRing {
            keys: known.keys.len(),
            newest_made_ms: known.newest_made_ms,
            is_closed: known.trouble.is_some(),
        }
    }

    /// Returns why the ring does not open.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.known.read().trouble.clone()
    }

    /// Notes why the ring does not open, or that it does if there is no error. Returns the reason
    /// if it is a new one.
    pub(super) fn note_trouble(&self, error: Option<String>) -> Option<String> {
        let mut known = self.known.write();
        let is_held = known.newest.is_some() && !known.is_opened;
        let trouble = error.or_else(|| is_held.then(|| HELD.into()));
        let is_new = known.trouble != trouble;
        known.trouble.clone_from(&trouble);
        trouble.filter(|_| is_new)
    }

    /// Notes that this process wants to add a wrapping.
    pub(super) fn note_addition(&self) {
        self.has_added.store(true, Ordering::SeqCst);
    }

    /// Returns true if this process may have added a wrapping.
    pub(super) fn may_have_added(&self) -> bool {
        self.has_added.load(Ordering::SeqCst)
    }

    /// Returns true if this row is what the node knows and could open.
    pub(super) fn has(&self, row: &[u8]) -> bool {
        let known = self.known.read();
        known.newest.is_some() && known.row == row
    }

    pub(crate) fn key(&self, id: &Id) -> Option<DataKey> {
        self.known.read().keys.get(id).cloned()
    }

    pub(crate) fn newest(&self) -> Option<(Id, DataKey)> {
        let known = self.known.read();
        let id = known.newest?;
        Some((id, known.keys.get(&id)?.clone()))
    }

    /// Learns the ring of a row, unless a later one is known. A key that no secret of this node
    /// opens stays known if it was: another node may have dropped the wrapping by the secret that
    /// this node still runs with.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if the newest key is not known.
    pub(super) fn learn(&self, wrapping: &Wrapping, ring: &Ring) -> Result<(), Error> {
        let entries = || ring.keys.iter().take(MAX_KEYS);
        let opened = entries().filter_map(|entry| Some((entry.id, wrapping.open(entry)?.key)));
        let mut keys: BTreeMap<Id, DataKey> = opened.collect();
        let newest = ring.keys.last();
        let is_opened = newest.is_some_and(|newest| keys.contains_key(&newest.id));
        let mut known = self.known.write();
        if ring.revision >= known.revision {
            for entry in entries() {
                if let Some(key) = known.keys.remove(&entry.id) {
                    keys.entry(entry.id).or_insert(key);
                }
            }
            // An earlier key does not do for new content: the others may have it on its way out.
            let newest = newest.filter(|newest| keys.contains_key(&newest.id));
            *known = Known {
                newest: newest.map(|newest| newest.id),
                newest_made_ms: newest.map_or(0, |newest| newest.made_ms),
                keys,
                is_opened,
                revision: ring.revision,
                row: codec::encode(ring).into(),
                trouble: known.trouble.take(),
            };
        }
        match known.newest {
            Some(_) => Ok(()),
            None => Err(closed()),
        }
    }
}
