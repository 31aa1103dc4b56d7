//! Making the state of a version final.

use std::sync::Arc;

use archipel_storage::RowKey;
use archipel_storage::engine::Durability;

use super::{Attempt, Try, VersionDecision, VersionSeen};
use crate::data::Data;
use crate::data::options::WriteOptions;
use crate::error::Error;
use crate::node::replica::versions::kept_row;
use crate::register::Request;
use crate::register::versions::{self, VersionReport};

impl Data {
    /// Makes the state of a version final: it lives or is dead, as the newest report says.
    pub(in crate::data) async fn settle_version(
        self: &Arc<Data>,
        row: &RowKey,
        report: VersionReport,
    ) -> Result<(), Error> {
        let name = report.name;
        self.hand_round(row, &report).await?;
        let decide = |seen: &VersionSeen<'_>| match seen.named {
            Some(value) => VersionDecision::Change::<()>(value.metadata.clone()),
            None => VersionDecision::Kill,
        };
        let how = WriteOptions::durable(Durability::Fsync);
        match self
            .decide_once(row, Try::first(name, &how), &how, &decide)
            .await
        {
            Ok(Attempt::Done(_) | Attempt::Again | Attempt::Overtaken { .. } | Attempt::Ask(_)) => {
                Ok(())
            }
            // It repeated what a replica said of the version, so it may take effect later. The next look tells.
            Err(Error::Overtaken) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Brings a living version to the replicas that lack it, as a copy.
    pub(super) async fn hand_round(
        self: &Arc<Data>,
        row: &RowKey,
        report: &VersionReport,
    ) -> Result<(), Error> {
        let prefix = (self.replica.hooks().kept_prefix)(row);
        let Some(prefix) = prefix.filter(|_| report.value.is_some()) else {
            return Ok(());
        };
        let kept = kept_row(&prefix, row, report.name);
        let version = versions::copy_of(report);
        let group = self.group(row.partition)?;
        let copies = group.quorums.all().iter().map(|index| {
            let write = Request::Write {
                version: version.clone(),
                guarded: false,
            };
            self.ask_about(&group, index, &kept, write)
        });
        for copied in futures_util::future::join_all(copies).await {
            if let Err(error) = copied {
                tracing::debug!(%error, "a version cannot be copied to a replica now");
            }
        }
        Ok(())
    }
}
