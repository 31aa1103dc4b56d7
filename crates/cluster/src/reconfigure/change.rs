//! Changing the layout: changes are staged, viewed and applied; then data moves, and the older
//! version retires.
//!
//! Staged changes are in a row of the control group, so that every node shows the same. Applying
//! them writes the successor of the current epoch, once. If two operators apply at the same time,
//! one is told that the other was first. Then one node, the first by id that is reachable, moves
//! data. It lists the keys of the oldest version's replicas and reads each row, which writes it to
//! the new replicas. At the end it writes the successor epoch without the oldest version. Any node
//! may take over at any moment: see [`register::epoch`](crate::register::epoch).

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::codec;
use archipel_base::{NodeId, PartitionId, boxed};
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, RowKey, Value};
use bytes::{BufMut, Bytes, BytesMut};

use super::rebalance::moved;
pub use super::staged::{LayoutChange, Staged};
use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::error::Error;
use crate::layout::{Epoch, Layout, MAX_NODES, MAX_REPLICAS, Role, is_zone_name};
use crate::reconfigure::LayoutChanges;

/// The key of the row of staged changes, in the control partition.
const STAGED: &[u8] = b"ls";
/// The prefix of the rows that hold the successors of epochs.
const SUCCESSOR: u8 = b'e';

/// The layout that applying the staged changes would lead to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The layout.
    pub layout: Layout,
    /// The moves and the reasons, in plain words.
    pub explanation: Vec<String>,
}

/// The progress of a layout change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The oldest live version.
    pub from_version: u64,
    /// The newest live version.
    pub to_version: u64,
    /// Partitions whose replicas change.
    pub partitions: u32,
    /// The number of these partitions that are done, as far as this node knows.
    pub done: u32,
    /// Rows that were looked at so far.
    pub rows: u64,
    /// The reason why the change does not continue, if it does not.
    pub trouble: Option<String>,
    /// The row that `trouble` names, if it is about rows that cannot be moved.
    pub row: Option<RowKey>,
    /// The node that moves the data, or will as soon as it answers.
    pub driver: NodeId,
}

/// An epoch of the past.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryEntry {
    /// Its number.
    pub epoch: u64,
    /// The layout versions that were live.
    pub versions: Vec<u64>,
    /// When it was chosen, in milliseconds since 1970.
    pub at_ms: u64,
}

fn control_row(key: Bytes) -> RowKey {
    RowKey {
        partition: PartitionId::CONTROL,
        key,
    }
}

pub(crate) fn successor_row(epoch: u64) -> RowKey {
    let mut key = BytesMut::with_capacity(9);
    key.put_u8(SUCCESSOR);
    key.put_u64(epoch);
    control_row(key.freeze())
}

pub(crate) fn no_layout() -> Error {
    Error::Unavailable("this node is in no layout yet".into())
}

pub(crate) fn refused(why: impl Into<String>) -> Error {
    Error::Storage(archipel_storage::Error::Refused(why.into()))
}

impl LayoutChanges {
    /// Returns the staged changes.
    #[boxed]
    pub async fn staged(&self) -> Result<Staged, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        let next = epoch.newest().version + 1;
        let row = self
            .metadata(&control_row(Bytes::from_static(STAGED)))
            .await?;
        let staged: Option<Staged> = row.and_then(|metadata| codec::decode(&metadata).ok());
        // Changes that were staged for a version that exists by now are over.
        Ok(Staged::for_version(next, staged))
    }

    /// Stages changes, in addition to the staged ones.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] for a change that makes no sense, and if a newer layout
    /// is in force than this node knew: its operator has not seen it.
    #[boxed]
    pub async fn stage(&self, changes: Vec<LayoutChange>) -> Result<Staged, Error> {
        let known = self.epoch().ok_or_else(no_layout)?;
        let current = known.newest();
        changes
            .iter()
            .try_for_each(|change| check(change, current))?;
        let next = current.version + 1;
        let row = control_row(Bytes::from_static(STAGED));
        let how = WriteOptions::durable(Durability::Fsync);
        self.update(&row, how, |current| {
            let staged = current.and_then(|value| codec::decode::<Staged>(&value.metadata).ok());
            if staged.as_ref().is_some_and(|staged| staged.version > next) {
                return Decision::Abort(());
            }
            let mut staged = Staged::for_version(next, staged);
            staged.revision += 1;
            changes.iter().for_each(|change| staged.add(change));
            Decision::Write(Some(Value {
                metadata: codec::encode(&staged).into(),
                ..Value::default()
            }))
        })
        .await?
        .map_err(|()| {
            refused(
                "changes are staged for a newer layout than this node knows; fix: archipel layout show, and \
                 try again",
            )
        })?;
        // A layout that was applied before must not come into force later, nor that of an `apply`
        // that still runs and has read the earlier changes.
        self.settle_known(&known).await?;
        self.staged().await
    }

    /// Settles the row that decides which layout comes next.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if a newer layout is in force than `known` has.
    async fn settle_known(&self, known: &Epoch) -> Result<(), Error> {
        let epoch = self.last_epoch().await?;
        if epoch.newest().version != known.newest().version {
            return Err(refused(
                "a newer layout than this node knew is in force; fix: archipel layout show, and try again",
            ));
        }
        Ok(())
    }

    /// Returns the layout that applying staged changes would lead to.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if they lead to no layout.
    #[boxed]
    pub async fn plan(&self, staged: Staged) -> Result<Plan, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        let current = epoch.newest().clone();
        let planning = move || {
            plan(&current, &staged).map_err(|why| archipel_storage::Error::Refused(why.to_string()))
        };
        Ok(self.store().blocks().pool().run(planning).await?)
    }

    /// Makes the staged changes the next layout version. `version` is that version. `revision`, if
    /// given, is the revision that the operator viewed.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if another operator edited or applied the staged
    /// changes before, if a change is still under way that can end, or if they lead to no layout.
    #[boxed]
    pub async fn apply(&self, version: u64, revision: Option<u64>) -> Result<Arc<Epoch>, Error> {
        let epoch = self.epoch().ok_or_else(no_layout)?;
        // Each edit of the staged changes writes this row afterwards. So it is looked at before
        // they are read.
        let decides = self.read_stamped(&successor_row(epoch.number())).await?;
        let staged = self.staged().await?;
        if staged.version != version {
            let (asked, next) = (version, staged.version);
            return Err(refused(format!(
                "version {asked}: the next version is {next}; fix: view it (archipel layout show) and \
                 apply that version"
            )));
        }
        // After a discard the revision is a later one, too. There is nothing to view.
        if staged.is_empty() {
            return Err(refused("nothing is staged; fix: archipel layout assign"));
        }
        if let Some(seen) = revision.filter(|seen| *seen != staged.revision) {
            let now = staged.revision;
            return Err(refused(format!(
                "revision {seen}: the staged changes were edited meanwhile, and are at revision {now}; \
                 fix: view them (archipel layout show) and apply that revision"
            )));
        }
        // The checked changes are planned, whatever is staged from now on.
        let plan = self.plan(staged).await?;
        self.check_replaces(&epoch, &plan.layout)?;
        self.check_new(&epoch, &plan.layout).await?;
        let next = epoch.with_next(plan.layout);
        let last = Some(decides.write);
        if self.succeed_since(&epoch, next, last).await? {
            self.epoch().ok_or_else(no_layout)
        } else {
            Err(refused(
                "another change was applied first; fix: archipel layout show, and stage again",
            ))
        }
    }

    /// Returns the progress of a layout change; `None` if none is under way.
    pub fn progress(&self) -> Option<Progress> {
        let epoch = self.epoch()?;
        self.progress_of(&epoch)
    }

    /// Returns the progress of the change that an epoch is; `None` if it is none. An answer that
    /// shows an epoch shows the progress of the same one: the node may have gone on to a later one.
    pub fn progress_of(&self, epoch: &Epoch) -> Option<Progress> {
        if !epoch.is_changing() {
            return None;
        }
        let work = self.rebalance.shown(epoch.number());
        // Nobody drives the change as long as this node hears of no node of the newest version.
        // Then the change has not ended, and a caller that waits for its end must not be told so.
        let driver = self.driver(epoch);
        let trouble = match driver {
            None => Some("no node of the new layout answers this node".to_owned()),
            // That of a node that drove the change earlier says nothing any more.
            Some(driver) => work.trouble.filter(|_| driver == self.me().node),
        };
        let first = epoch.newest().roles.iter().map(|role| role.store.node);
        Some(Progress {
            from_version: epoch.layouts.first()?.version,
            to_version: epoch.newest().version,
            partitions: moved(epoch).len() as u32,
            done: work.done,
            rows: work.rows,
            trouble,
            row: work.row,
            driver: driver.or_else(|| first.min())?,
        })
    }

    /// Returns the progress of the change that an epoch is, as its driver knows it. If the driver does
    /// not answer, it is what this node knows: [`progress_of`](Self::progress_of).
    #[boxed]
    pub async fn driven_progress_of(&self, epoch: &Epoch) -> Option<Progress> {
        let mut progress = self.progress_of(epoch)?;
        let driver = self.driver(epoch);
        if let Some(driver) = driver.filter(|driver| *driver != self.me().node)
            && let Some(told) = self.ask_driver(&driver, epoch.number()).await
        {
            (progress.done, progress.rows) = (told.done, told.rows);
            (progress.trouble, progress.row) = (told.trouble, told.row);
        }
        Some(progress)
    }

    /// Returns the epochs so far, as far as the control group remembers them.
    #[boxed]
    pub async fn history(&self) -> Result<Vec<HistoryEntry>, Error> {
        let prefix = Bytes::from_static(&[SUCCESSOR]);
        let mut entries = Vec::new();
        for row in self.scan_whole(PartitionId::CONTROL, &prefix).await? {
            let Some(value) = self.read(&row.key).await? else {
                continue;
            };
            let epoch = epoch_of(&value)?;
            let at = value
                .metadata
                .as_ref()
                .try_into()
                .map_or(0, u64::from_be_bytes);
            entries.push(HistoryEntry {
                epoch: epoch.number(),
                versions: epoch.layouts.iter().map(|layout| layout.version).collect(),
                at_ms: at,
            });
        }
        Ok(entries)
    }
}

pub(super) fn epoch_of(value: &Value) -> Result<Epoch, Error> {
    let Payload::Inline(bytes) = &value.payload else {
        return Err(refused("the row of the layout holds no layout"));
    };
    Epoch::decode(bytes).map_err(|error| refused(format!("the row of the layout: {error}")))
}

/// Checks a change of the layout `current`.
fn check(change: &LayoutChange, current: &Layout) -> Result<(), Error> {
    match change {
        // An earlier release took any name. It stays, because another name is another zone.
        LayoutChange::Assign(role)
            if !is_zone_name(&role.zone) && current.roles.iter().all(|r| r.zone != role.zone) =>
        {
            let zone = &role.zone;
            Err(refused(format!(
                "zone {zone:?}: not a zone name; fix: use 1 to 64 letters, digits, hyphens, underscores and \
                 dots, such as \"home\""
            )))
        }
        LayoutChange::Redundancy(r) if !(1..=MAX_REPLICAS).contains(&usize::from(r.replicas)) => {
            let asked = r.replicas;
            Err(refused(format!(
                "replicas {asked}: not a number of copies; fix: a number from 1 to {MAX_REPLICAS}"
            )))
        }
        LayoutChange::Redundancy(r)
            if r.zones
                .is_some_and(|zones| zones == 0 || zones > r.replicas) =>
        {
            let (asked, most) = (r.zones.unwrap_or(0), r.replicas);
            Err(refused(format!(
                "zones {asked}: not a number of zones for {most} replicas; fix: a number from 1 to {most}"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the layout that `staged` makes of `current`.
fn plan(current: &Layout, staged: &Staged) -> Result<Plan, String> {
    let mut roles: BTreeMap<NodeId, Role> = current
        .roles
        .iter()
        .map(|role| (role.store.node, role.clone()))
        .collect();
    for (node, role) in &staged.roles {
        match role {
            Some(role) => roles.insert(*node, role.clone()),
            None => roles.remove(node),
        };
    }
    if roles.len() > MAX_NODES {
        return Err(format!(
            "{} nodes: a layout has at most {MAX_NODES}; fix: archipel layout remove some",
            roles.len()
        ));
    }
    let roles: Vec<Role> = roles.into_values().collect();
    let redundancy = staged.redundancy.unwrap_or(current.redundancy);
    let version = staged.version;
    let (layout, explanation) = super::plan::layout(Some(current), version, redundancy, roles)?;
    Ok(Plan {
        layout,
        explanation,
    })
}
