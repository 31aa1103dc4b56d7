//! The start of a store: migrates it or checks the format, counts the boot, and finds out if the last run ended
//! well.

use std::sync::Arc;

use archipel_base::Id;

use super::migrate::{STEPS, migrate};
use super::options::StoreOptions;
use crate::blocks::Start;
use crate::engine::{Durability, Engine, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::rows::codec;

/// The version of the whole format. See `docs/internals/data-format.md`.
pub const FORMAT: u64 = 4;

pub(super) const KEY_FORMAT: &[u8] = b"format";
const KEY_IDENTITY: &[u8] = b"identity";
pub(super) const KEY_BOOT: &[u8] = b"boot";
/// Holds the number of the boot that was closed well and left no dead blocks. It exists only while the
/// store is closed.
const KEY_CLEAN: &[u8] = b"clean";

/// Exists while the block index is being rebuilt.
const KEY_REBUILD: &[u8] = b"rebuild";

/// The reason for which a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Ordinary use.
    Serve,
    /// A rebuild of the block index.
    Rebuild,
}

/// A boot (one run) of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boot {
    /// The number of the boot: 1 is the first.
    pub number: u64,
    /// The store's identity.
    pub identity: Id,
    /// A random token. A boot on rolled-back metadata has the number of an earlier boot, but
    /// another token.
    pub token: [u8; 6],
    /// The work that opening the blocks has to do.
    pub start: Start,
}

/// Counts the boot durably, before any other work.
pub(crate) fn begin(options: &StoreOptions, purpose: Purpose) -> Result<Boot> {
    stored_identity(&*options.engine.read()?, options)?;
    migrate(&*options.engine, FORMAT, STEPS)?;
    let mut txn = options.engine.write()?;
    check_rebuild(&*txn, purpose)?;
    let last = number(&*txn, KEY_BOOT)?.unwrap_or(0);
    let clean = number(&*txn, KEY_CLEAN)? == Some(last) && last > 0;
    let mut token = [0; 6];
    options.random.fill(&mut token);
    let boot = Boot {
        number: last + 1,
        identity: identity(&*txn, options)?,
        token,
        start: if clean { Start::Clean } else { Start::Unclean },
    };
    txn.put(Tree::Meta, KEY_FORMAT, &FORMAT.to_be_bytes())?;
    txn.put(Tree::Meta, KEY_IDENTITY, boot.identity.as_bytes())?;
    txn.put(Tree::Meta, KEY_BOOT, &boot.number.to_be_bytes())?;
    txn.delete(Tree::Meta, KEY_CLEAN)?;
    if purpose == Purpose::Rebuild {
        txn.put(Tree::Meta, KEY_REBUILD, &boot.number.to_be_bytes())?;
    }
    txn.commit(Durability::Fsync)?;
    Ok(boot)
}

/// Marks the store as closed well, durably, after all other work. If garbage collection is not done, it leaves
/// the mark out, so that the next start begins it again.
pub(crate) fn end(engine: &Arc<dyn Engine>, boot: u64, startup_gc_is_done: bool) -> Result<()> {
    let mut txn = engine.write()?;
    if startup_gc_is_done {
        txn.put(Tree::Meta, KEY_CLEAN, &boot.to_be_bytes())?;
    }
    txn.delete(Tree::Meta, KEY_REBUILD)?;
    txn.commit(Durability::Fsync)
}

fn check_rebuild(txn: &dyn ReadTxn, purpose: Purpose) -> Result<()> {
    match (txn.get(Tree::Meta, KEY_REBUILD)?, purpose) {
        (None, _) | (_, Purpose::Rebuild) => Ok(()),
        (Some(_), Purpose::Serve) => Err(Error::Refused(
            "a rebuild of the block index was interrupted: run it again".into(),
        )),
    }
}

pub(super) fn number(txn: &dyn ReadTxn, key: &[u8]) -> Result<Option<u64>> {
    match txn.get(Tree::Meta, key)? {
        Some(bytes) => Ok(Some(codec::decode_number(&bytes, "a number in meta")?)),
        None => Ok(None),
    }
}

/// Returns the store's identity, or makes one.
fn identity(txn: &dyn ReadTxn, options: &StoreOptions) -> Result<Id> {
    Ok(match (stored_identity(txn, options)?, options.identity) {
        (Some(found), _) => found,
        (None, Some(wanted)) => wanted,
        (None, None) => Id::random(&*options.random),
    })
}

/// Returns the stored identity, if there is one. It must be the one that the options name.
fn stored_identity(txn: &dyn ReadTxn, options: &StoreOptions) -> Result<Option<Id>> {
    let found = match txn.get(Tree::Meta, KEY_IDENTITY)? {
        Some(bytes) => {
            let bytes = bytes.as_ref().try_into();
            Some(Id(bytes.map_err(|_| {
                Error::Damaged("the store's identity".into())
            })?))
        }
        None => None,
    };
    match (found, options.identity) {
        (Some(found), Some(wanted)) if found != wanted => Err(Error::Refused(format!(
            "the store belongs to {found}, not to {wanted}"
        ))),
        (found, _) => Ok(found),
    }
}
