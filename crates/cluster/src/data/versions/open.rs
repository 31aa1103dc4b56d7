//! Reading the content of a version.

use std::sync::Arc;

use archipel_base::boxed;
use archipel_storage::{RowKey, VersionName};

use crate::data::Data;
use crate::data::rows::OpenRow;
use crate::error::Error;
use crate::node::replica::cell_of;
use crate::node::replica::versions::kept_row;
use crate::register::Bounds;
use crate::register::versions::{self, VersionReport};

impl Data {
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
