//! Making the state of a version final.

use std::sync::Arc;
use std::time::Duration;

use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use futures_util::FutureExt;
use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{Attempt, Try, VersionDecision, VersionSeen};
use crate::data::Data;
use crate::data::local::next_before;
use crate::data::options::WriteOptions;
use crate::data::replicate::LATE;
use crate::error::Error;
use crate::node::detach::DetachOnDrop;
use crate::node::replica::versions::kept_row;
use crate::register::versions::{self, VersionReport};
use crate::register::{Answer, ReplicaSet, Request};

impl Data {
    /// Makes the state of a version final: it lives or is dead, as the newest report says. `background`
    /// is true if no client waits for it.
    pub(in crate::data) async fn settle_version(
        self: &Arc<Data>,
        row: &RowKey,
        report: VersionReport,
        background: bool,
    ) -> Result<(), Error> {
        let name = report.name;
        self.hand_round(row, &report, background).await?;
        let decide = |seen: &VersionSeen<'_>| match seen.named {
            Some(value) => VersionDecision::Change::<()>(value.metadata.clone()),
            None => VersionDecision::Kill,
        };
        let how = WriteOptions {
            background,
            ..WriteOptions::durable(Durability::Fsync)
        };
        match self
            .decide_once(row, Try::first(name, &how), &how, &decide)
            .await
        {
            Ok(Attempt::Done(_) | Attempt::Again | Attempt::Overtaken { .. } | Attempt::Ask(_)) => {
                Ok(())
            }
            // It repeated what a replica said of the version, so it may take effect later. The next
            // look tells.
            Err(Error::Overtaken) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Brings a living version to the replicas that lack it, as a copy.
    ///
    /// Those of suspected nodes are awaited only if the others that have it are no quorum: a call to
    /// a node that is gone takes seconds. They are asked all the same, in a task that may outlive
    /// this, because a node may be suspected although it is there. While many such tasks run, they are
    /// asked only if a quorum needs them. Once a quorum has the version, the others have only a
    /// moment: a node whose disk hangs answers gossip, so that it is not suspected. Few copies to other
    /// nodes go on after that.
    pub(super) async fn hand_round(
        self: &Arc<Data>,
        row: &RowKey,
        report: &VersionReport,
        background: bool,
    ) -> Result<(), Error> {
        let prefix = (self.replica.hooks().kept_prefix)(row);
        let Some(prefix) = prefix.filter(|_| report.value.is_some()) else {
            return Ok(());
        };
        let kept = kept_row(&prefix, row, report.name);
        let version = versions::copy_of(report);
        let group = self.group(row.partition)?;
        let copy = |index| {
            let (data, group, kept) = (self.clone(), group.clone(), kept.clone());
            let write = Request::Write {
                version: version.clone(),
                guarded: false,
            };
            async move {
                let copied = data.ask_as(&group, index, &kept, write, background);
                (index, copied.await)
            }
        };
        // A replica that lacks the version fetches its blocks first. It gets a millisecond for each
        // kilobyte. If it was not awaited, the change would be tried again too soon.
        let blocks = version
            .value
            .iter()
            .flat_map(|value| value.payload.blocks());
        let bytes: u64 = blocks.map(|block| u64::from(block.len)).sum();
        let patience = (LATE + Duration::from_millis(bytes / 1000)).min(self.options.times.call);
        let (here, mut heard) = (self.replicas_here(&group), ReplicaSet::EMPTY);
        let (mut copies, mut later) = (FuturesUnordered::new(), Vec::new());
        for index in group.quorums.all().iter() {
            let is_local = group.is_local(index);
            let permit = match is_local {
                // Its change must not be dropped half-way.
                true => None,
                false => self.copies.clone().try_acquire_owned().ok(),
            };
            if is_local || permit.is_some() {
                let copying = copy(index).inspect(move |_| drop(permit));
                copies.push(Either::Left(DetachOnDrop::new(copying)));
            } else if here.contains(index) {
                copies.push(Either::Right(copy(index).boxed()));
            } else {
                later.push(index);
            }
        }
        let (mut holders, mut until) = (ReplicaSet::EMPTY, None);
        loop {
            if here.without(heard).is_empty() {
                if group.quorums.is_quorum(holders) {
                    break;
                }
                let needed = later.drain(..);
                copies.extend(needed.map(|index| Either::Right(copy(index).boxed())));
            }
            let Some((index, copied)) = next_before(&mut copies, until).await else {
                break;
            };
            heard.insert(index);
            match copied {
                Ok(Answer::Accepted) => holders.insert(index),
                // The decision that follows meets the newer layout.
                Ok(Answer::Superseded { .. }) => break,
                // Nothing is copied below its floor.
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "a version cannot be copied to a replica now");
                }
            }
            if until.is_none() && group.quorums.is_quorum(holders) {
                until = Some(Instant::now() + patience);
            }
        }
        Ok(())
    }
}
