//! Compares the rows of kept versions with the objects' rows that they belong to.
//!
//! The rules are those of [`register::versions`](crate::register::versions). They hold at each
//! replica by itself, also while it lags.

use std::ops::Bound;
use std::sync::Arc;

use archipel_base::{PartitionId, Stamp};
use archipel_storage::engine::Flow;
use archipel_storage::{Error, RowKey, RowMetadata, RowReader, VersionKind, VersionName};

use super::message::Findings;
use crate::node::floors;
use crate::node::options::Hooks;
use crate::register::Bounds;
use crate::upkeep::Upkeep;

/// The number of kept rows that one read of the store looks at.
const PAGE: usize = 4096;

/// A place in the order of all rows: a partition, and a key in it after which to go on.
type Place = (PartitionId, Option<Vec<u8>>);

/// The findings of one read. It may span many partitions, because most have few rows.
struct Page {
    problems: Vec<(PartitionId, String)>,
    seen: usize,
    next: Option<Place>,
}

/// Verifies the kept versions of all partitions.
pub(super) async fn versions(upkeep: &Arc<Upkeep>, findings: &mut Findings) -> Result<(), Error> {
    let hooks = upkeep.replica.hooks();
    let mut next = Some((PartitionId(0), None));
    while let Some(from) = next {
        if upkeep.verify.is_stopped() {
            return Ok(());
        }
        let read = move |rows: &RowReader<'_>| read_page(rows, from, hooks);
        let page = upkeep.store().read(read).await?;
        let epoch = upkeep.epoch();
        let is_here = |partition| {
            let epoch = epoch.as_ref();
            epoch.is_some_and(|epoch| upkeep.is_here(epoch, partition))
        };
        for (partition, what) in page.problems {
            // A purge of the partition may be under way: objects' rows go first.
            if is_here(partition) {
                findings.problem(what);
            }
        }
        next = page.next;
    }
    Ok(())
}

fn read_page(rows: &RowReader<'_>, from: Place, hooks: Hooks) -> Result<Page, Error> {
    let mut page = Page {
        problems: Vec::new(),
        seen: 0,
        next: Some(from),
    };
    while page.seen < PAGE
        && let Some((first, after)) = page.next.take()
        && let Some(partition) = rows.next_partition(first)?
    {
        let after = after.filter(|_| partition == first);
        let rest = read_partition(rows, partition, after, hooks, &mut page)?;
        let following = || partition.0.checked_add(1);
        page.next = match rest {
            Some(key) => Some((partition, Some(key))),
            None => following().map(|next| (PartitionId(next), None)),
        };
    }
    Ok(page)
}

/// Looks at the rows of a partition after a key. Returns the last key if the page is full before
/// the end.
fn read_partition(
    rows: &RowReader<'_>,
    partition: PartitionId,
    after: Option<Vec<u8>>,
    hooks: Hooks,
    page: &mut Page,
) -> Result<Option<Vec<u8>>, Error> {
    let bounds = floors::bounds(rows, partition, Bounds::without_floors(0, 0))?;
    let (mut kept, mut last) = (Vec::new(), None);
    let start = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
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
        last = Some(key.to_vec());
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
            page.problems.push((partition, what));
        }
    }
    Ok(last)
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
