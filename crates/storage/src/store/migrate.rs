//! Migration: brings a store of an older format to this release's, step by step, before anything
//! else happens.
//!
//! # Invariants
//! - Nothing is changed unless there is a step from each format on the way.
//! - A step's changes are on stable storage before the format number says so. A step that was
//!   interrupted runs again from its beginning.

use super::boot::{KEY_BOOT, KEY_FORMAT, number};
use crate::engine::{Durability, Engine, Result, Tree};
use crate::error::Error;

/// A step from one format to the next.
pub(super) struct Step<'a> {
    /// The format that the step reads. It leaves the next one.
    pub from: u64,
    /// Rewrites the store, in as many commits as it likes. It may meet entries that an interrupted
    /// run has rewritten already.
    pub run: &'a dyn Fn(&dyn Engine) -> Result<()>,
}

/// The steps of this release. No format was released before the current one.
pub(super) const STEPS: &[Step<'static>] = &[];

/// Brings a store to the format `to`. A new store has nothing to migrate.
///
/// # Errors
/// [`Error::Refused`] if the store has a later format, or an older one without a step. Nothing has
/// changed then.
pub(super) fn migrate(engine: &dyn Engine, to: u64, steps: &[Step<'_>]) -> Result<()> {
    let Some(found) = format_of(engine)? else {
        return Ok(());
    };
    if found > to {
        return Err(Error::Refused(format!(
            "the store has format {found}; this release reads format {to}: a newer Archipel wrote it, so start that release or a later one"
        )));
    }
    let step_from = |format| steps.iter().find(|step| step.from == format);
    if let Some(format) = (found..to).find(|format| step_from(*format).is_none()) {
        return Err(Error::Refused(format!(
            "the store has format {found}; this release reads format {to} and has no step from format {format}: start the release that wrote it, or a new store in an empty folder"
        )));
    }
    for step in (found..to).filter_map(step_from) {
        let next = step.from + 1;
        tracing::info!(from = step.from, to = next, "the store is migrated");
        (step.run)(engine)?;
        // Also makes the step's own commits durable.
        let mut txn = engine.write()?;
        txn.put(Tree::Meta, KEY_FORMAT, &next.to_be_bytes())?;
        txn.commit(Durability::Fsync)?;
    }
    Ok(())
}

/// Returns the format of a store; `None` for a new one.
fn format_of(engine: &dyn Engine) -> Result<Option<u64>> {
    let txn = engine.read()?;
    let format = number(&*txn, KEY_FORMAT)?;
    if format.is_none() && txn.get(Tree::Meta, KEY_BOOT)?.is_some() {
        return Err(Error::Damaged("the store's format number is gone".into()));
    }
    Ok(format)
}
