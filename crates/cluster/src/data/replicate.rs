//! Brings rows and versions to single replicas.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Stamp, boxed};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value, VersionName};
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::Data;
use super::local::next_before;
use super::options::WriteOptions;
use super::versions::TRIES;
use crate::error::Error;
use crate::node::group::Group;
use crate::node::replica::versions::kept_row;
use crate::node::wire::RowCall;
use crate::register::{Answer, ReplicaSet, Request, Version, versions};

/// The time for further replicas once a quorum has told the rebalancer what it holds of a row, or has
/// a copy of a version. One that is later, because its disk hangs for example, gets the row later.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// A row that was brought to its replicas.
pub struct Replicated {
    /// True if all replicas have it now, not only a quorum.
    pub everywhere: bool,
    /// The name of the version that the row holds, if it is an object's.
    pub name: VersionName,
}

impl Data {
    /// Brings a row to all of its reachable replicas, and to a quorum at least. It waits for each
    /// as long as a call may take: garbage is dropped once all have the row, however late one of
    /// them answers.
    #[boxed]
    pub async fn replicate(self: &Arc<Data>, key: &RowKey) -> Result<Replicated, Error> {
        self.replicate_within(key, None).await
    }

    /// Does the same for the rebalancer, and does not wait for replicas that tell late what they
    /// hold.
    #[boxed]
    pub(crate) async fn replicate_soon(
        self: &Arc<Data>,
        key: &RowKey,
    ) -> Result<Replicated, Error> {
        self.replicate_within(key, Some(LATE)).await
    }

    async fn replicate_within(
        self: &Arc<Data>,
        key: &RowKey,
        late: Option<Duration>,
    ) -> Result<Replicated, Error> {
        let version = self.read_whole(key, true).await?;
        let name = versions::name_of(version.value.as_ref());
        if version.stamp == Stamp::ZERO {
            return Ok(Replicated {
                everywhere: true,
                name,
            });
        }
        let group = self.group(key.partition)?;
        let holders = self.bring_to_all(&group, key, &version, late).await;
        let everywhere = group.quorums.all().without(holders).is_empty();
        Ok(Replicated { everywhere, name })
    }

    /// Brings a version of an object to all reachable replicas, and to a quorum at least, for the
    /// rebalancer.
    ///
    /// A replica holds it in the object's row or in the kept row. So the kept row is not read as
    /// any other row: a replica without it may hold the version.
    pub(crate) async fn replicate_version(
        self: &Arc<Data>,
        row: &RowKey,
        name: VersionName,
    ) -> Result<(), Error> {
        let Some(prefix) = (self.replica.hooks().kept_prefix)(row) else {
            return Ok(());
        };
        let kept = kept_row(&prefix, row, name);
        let how = WriteOptions {
            background: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        for _ in 0..TRIES {
            let seen = self.look(row, name, &how).await?;
            let report = seen.report;
            if report.stamp == Stamp::ZERO {
                return Ok(());
            }
            let group = self.group(row.partition)?;
            let version = versions::copy_of(&report);
            let brought = self.bring_to_all(&group, &kept, &version, Some(LATE));
            let holders = brought.await;
            if seen.is_final || group.quorums.is_quorum(holders) {
                return Ok(());
            }
            // Replicas that lack it take nothing below their floors: it gets a new stamp.
            self.settle_version(row, report, true).await?;
        }
        Err(Error::Unavailable(
            "a version cannot be brought to a quorum now".into(),
        ))
    }

    /// Brings a version of a row to all replicas that can be reached. Returns those that hold it,
    /// or a newer one.
    ///
    /// The replicas of suspected nodes are asked only if the others that hold it are no quorum. A
    /// call to a node that is gone takes seconds, and a layout that takes the node out moves each
    /// of its rows. When the node is back, anti-entropy brings it the row.
    async fn bring_to_all(
        self: &Arc<Data>,
        group: &Group,
        key: &RowKey,
        version: &Version<Value>,
        late: Option<Duration>,
    ) -> ReplicaSet {
        let here = self.replicas_here(group);
        let holders = self.bring_to(here, group, (key, version), late).await;
        if group.quorums.is_quorum(holders) {
            return holders;
        }
        let away = group.quorums.all().without(here);
        let others = self.bring_to(away, group, (key, version), late);
        holders.union(others.await)
    }

    /// Brings a version of a row to some replicas. Returns those that hold it, or a newer one.
    ///
    /// A write is awaited although a quorum may hold the version already: nearly as long as a call may
    /// take, or an operation if the replica is this node's own. A new replica fetches the row's blocks
    /// before it accepts, and those of the older layout version, which have them, drop them once the
    /// rows have moved. One whose blocks take longer goes on with them by itself.
    async fn bring_to(
        self: &Arc<Data>,
        replicas: ReplicaSet,
        group: &Group,
        (key, version): (&RowKey, &Version<Value>),
        late: Option<Duration>,
    ) -> ReplicaSet {
        let told = self.who_holds(replicas, group, (key, version.stamp), late);
        let (mut holders, lacking) = told.await;
        let writes = lacking.iter().map(|index| async move {
            let write = Request::Write {
                version: version.clone(),
                guarded: false,
            };
            (index, self.ask_about(group, index, key, write).await)
        });
        for (index, answer) in futures_util::future::join_all(writes).await {
            match answer {
                Ok(Answer::Accepted) => holders.insert(index),
                Ok(_) => {}
                // It gets the row later.
                Err(error) => {
                    tracing::debug!(%error, "a row cannot be written to a replica now");
                }
            }
        }
        holders
    }

    /// Returns which of these replicas hold a row under this stamp or a newer one, and which of
    /// them do not. Once a quorum has told, the others have only the time `late`, if it is given.
    async fn who_holds(
        self: &Arc<Data>,
        replicas: ReplicaSet,
        group: &Group,
        (key, stamp): (&RowKey, Stamp),
        late: Option<Duration>,
    ) -> (ReplicaSet, ReplicaSet) {
        let look = |index| async move { (index, self.ask_for_stamp(group, index, key).await) };
        let mut looks: FuturesUnordered<_> = replicas.iter().map(look).collect();
        let (mut holders, mut lacking) = (ReplicaSet::EMPTY, ReplicaSet::EMPTY);
        let mut until = None;
        while let Some((index, held)) = next_before(&mut looks, until).await {
            match held {
                Ok(held) if held >= stamp => holders.insert(index),
                Ok(_) => lacking.insert(index),
                Err(error) => {
                    tracing::debug!(%error, "a replica does not tell what it holds of a row");
                }
            }
            if until.is_none() && group.quorums.is_quorum(holders.union(lacking)) {
                until = late.map(|late| Instant::now() + late);
            }
        }
        (holders, lacking)
    }

    async fn ask_for_stamp(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        key: &RowKey,
    ) -> Result<Stamp, Error> {
        let read = Request::Read { with_value: false };
        match self.ask_about(group, index, key, read).await? {
            Answer::Found { version, .. } => Ok(version.stamp),
            _ => Err(Error::Unavailable("the layout changed meanwhile".into())),
        }
    }

    pub(super) async fn ask_about(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        key: &RowKey,
        request: Request<Value>,
    ) -> Result<Answer<Value>, Error> {
        self.ask_as(group, index, key, request, true).await
    }

    /// Asks a replica about a row. `background` is true if no client waits for the answer.
    pub(super) async fn ask_as(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        key: &RowKey,
        request: Request<Value>,
        background: bool,
    ) -> Result<Answer<Value>, Error> {
        let call = RowCall {
            background,
            ..RowCall::plain(group.address_of(index)?, key.key.clone(), request)
        };
        self.ask(group, index, call, None).await
    }
}

#[cfg(test)]
mod tests;
