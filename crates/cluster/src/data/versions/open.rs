//! Reading the content of a version, and all kept versions.

use std::sync::Arc;

use archipel_base::{Id, boxed};
use archipel_storage::{ListEntry, ListQuery, RowKey, Value, VersionName};

use crate::data::Data;
use crate::data::list::damaged;
use crate::data::rows::OpenRow;
use crate::error::Error;
use crate::node::replica::cell_of;
use crate::node::replica::versions::kept_row;
use crate::register::Bounds;
use crate::register::versions::{self, VersionReport};

impl Data {
    /// Returns all kept versions of an object that live. A version whose deletion only a minority shows is looked at, and
    /// that settles whether it lives.
    #[boxed]
    pub async fn kept_versions(
        self: &Arc<Data>,
        row: &RowKey,
    ) -> Result<Vec<(VersionName, Id, Value)>, Error> {
        let Some(prefix) = (self.replica.hooks().kept_prefix)(row) else {
            return Ok(Vec::new());
        };
        let (mut query, mut kept) = (ListQuery::new(row.partition, prefix), Vec::new());
        loop {
            let (page, unsettled) = self.newest_page(query.clone()).await?;
            if !page.damaged.is_empty() {
                return Err(damaged(&page));
            }
            for entry in page.entries {
                let ListEntry::Row { key, metadata } = entry else {
                    continue;
                };
                let Some((_, name)) = crate::split_kept(&key) else {
                    continue;
                };
                if metadata.is_live() {
                    let partition = row.partition;
                    let version = self.read_whole(&RowKey { partition, key }, true).await?;
                    kept.extend(version.value.map(|value| (name, version.write, value)));
                } else if unsettled.contains(&key) {
                    let report = self.version_of(row, name).await?;
                    kept.extend(report.and_then(|seen| Some((name, seen.write, seen.value?))));
                }
            }
            match page.next {
                Some(next) => query.start = next,
                None => return Ok(kept),
            }
        }
    }

    /// Opens a version of an object: returns its value, and a pin that keeps the blocks of its
    /// payload readable. Takes as many rounds as [`version_of`](Data::version_of).
    #[boxed]
    pub async fn open_version(
        self: &Arc<Data>,
        row: &RowKey,
        name: VersionName,
    ) -> Result<Option<OpenRow>, Error> {
        loop {
            let Some(report) = self.version_of(row, name).await? else {
                return Ok(None);
            };
            let Some(value) = report.value.clone() else {
                return Ok(None);
            };
            let pin = self.store().pin(value.payload.blocks());
            // A pin holds if the version was still there after it was taken. Otherwise look again.
            if value.payload.blocks().is_empty() || self.has_still(row, &report).await? {
                return Ok(Some(OpenRow {
                    value,
                    pin,
                    following: None,
                }));
            }
        }
    }

    /// Returns false if the local replica knows that the version is deleted or was replaced. The
    /// content of a version stays the same, but there are several null versions in turn.
    async fn has_still(
        self: &Arc<Data>,
        row: &RowKey,
        report: &VersionReport,
    ) -> Result<bool, Error> {
        let Some(prefix) = (self.replica.hooks().kept_prefix)(row) else {
            return Ok(true);
        };
        if self.group(row.partition)?.local().is_none() {
            return Ok(true);
        }
        let (row, name) = (row.clone(), report.name);
        let look = self.store().look_up(move |rows| {
            let kept = rows.row(&kept_row(&prefix, &row, name))?;
            Ok((rows.row(&row)?, kept))
        });
        let (current, kept) = look.await?;
        let (current, kept) = (
            cell_of(current.unwrap_or_default()),
            cell_of(kept.unwrap_or_default()),
        );
        let held = versions::view(name, &current, &kept, &Bounds::without_floors(0, 0));
        let payload = |report: &VersionReport| report.value.as_ref().map(|v| v.payload.clone());
        Ok(held.stamp <= report.stamp || payload(&held) == payload(report))
    }
}
