//! Compares the rows of kept versions with the objects' rows that they belong to.
//!
//! The rules are those of [`register::versions`](crate::register::versions). They hold at each
//! replica by itself, also while it lags.

use std::ops::Bound;
use std::sync::Arc;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::Flow;
use archipel_storage::{Error, RowKey, RowMetadata, RowReader, VersionKind, VersionName};

use super::message::{Findings, MAX_TOLD};
use crate::layout::all_partitions;
use crate::node::floors;
use crate::node::options::Hooks;
use crate::register::Bounds;
use crate::upkeep::Upkeep;

/// The number of kept rows that one read of the store looks at.
const PAGE: usize = 4096;

/// The findings of a read of one page.
#[derive(Default)]
struct Page {
    problems: Vec<String>,
    seen: usize,
    next: Option<Vec<u8>>,
}

/// Verifies the kept versions of all partitions.
pub(super) async fn versions(upkeep: &Arc<Upkeep>, findings: &mut Findings) -> Result<(), Error> {
    let hooks = upkeep.replica.hooks();
    for partition in all_partitions() {
        if upkeep.verify.is_stopped() {
            return Ok(());
        }
        let mut from: Option<Vec<u8>> = None;
        loop {
            let start = from.take();
            let read = move |rows: &RowReader<'_>| read_page(rows, partition, start, hooks);
            let page = upkeep.store().read(read).await?;
            let epoch = upkeep.epoch();
            if !epoch.is_some_and(|epoch| upkeep.is_here(&epoch, partition)) {
                // A purge of the partition may be under way: objects' rows go first.
                break;
            }
            let more = page.problems.len().saturating_sub(MAX_TOLD);
            findings.problems += more as u64;
            let told = page.problems.into_iter().take(MAX_TOLD);
            told.for_each(|what| findings.problem(what));
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
    }
    Ok(())
}

fn read_page(
    rows: &RowReader<'_>,
    partition: PartitionId,
    from: Option<Vec<u8>>,
    hooks: Hooks,
) -> Result<Page, Error> {
    let bounds = floors::bounds(rows, partition, Bounds::without_floors(0, 0))?;
    let mut page = Page::default();
    let mut kept = Vec::new();
    let start = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    rows.scan_metadata(partition, &[], start, &mut |key, metadata| {
        page.seen += 1;
        let row = RowKey {
            partition,
            key: key.to_vec().into(),
        };
        // A row that cannot be read is reported with the rows.
        if let (Some((object, name)), Some(metadata)) = ((hooks.kept_in)(&row), metadata) {
            kept.push((row, object, name, metadata));
        }
        if page.seen < PAGE {
            return Ok(Flow::Continue);
        }
        page.next = Some(key.to_vec());
        Ok(Flow::Stop)
    })?;
    for (row, object, name, metadata) in kept {
        let current = match rows.metadata(&object) {
            Err(Error::Damaged(_)) => continue,
            current => current?,
        };
        if let Some(why) = wrong(name, &metadata, current.as_ref(), bounds.gone) {
            let key = row.key.escape_ascii();
            let what = format!("row {partition}/{key}: a kept version {why}");
            page.problems.push(what);
        }
    }
    Ok(page)
}

/// Returns what is wrong with a kept row beside its object's row, if anything is.
fn wrong(
    name: VersionName,
    kept: &RowMetadata,
    current: Option<&RowMetadata>,
    gone: Stamp,
) -> Option<&'static str> {
    let version = kept.version.as_deref();
    let held = version.and_then(|version| version.at);
    if kept.is_live() && held != name {
        return Some("holds another version than its key names");
    }
    if version.is_some_and(|version| version.kind == VersionKind::Void) {
        return Some("is no version");
    }
    if version.is_some_and(|version| !version.changes.is_empty()) {
        return Some("changes other versions");
    }
    if kept.is_live() && name.is_none() && version.is_none_or(|version| version.since.is_none()) {
        return Some("is a null version of no time");
    }
    let current = current.filter(|current| current.is_written());
    let at = current.map_or(Stamp::ZERO, |current| current.stamp);
    let is_current = current.is_some_and(|current| {
        let version = current.version.as_ref();
        version.and_then(|version| version.at) == name
    });
    if is_current && kept.is_live() && kept.stamp <= at {
        return Some("is the current one, too");
    }
    // A kept row that came through the object's row is as old as that row, which may be gone with a
    // floor.
    let is_final = kept.promised == kept.stamp;
    if is_final && kept.stamp > at.max(gone) {
        return Some("came through its object's row, which is older or absent");
    }
    None
}
