//! The successor of an epoch: choosing it, and finding one that nobody told.
//!
//! A node may fail after a successor was chosen and before it told another node, or may not learn
//! whether its write took effect. Then only the row that decides knows of the successor. A majority
//! may hold it, or a minority, and a later operation may complete that. So the driver reads the row
//! before data moves and once a minute (`learn_successors`), and the row is settled after each edit
//! of the staged changes (`last_epoch`).

use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, Value};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::LayoutChanges;
use super::change::{epoch_of, no_layout, refused, successor_row};
use crate::data::decision::Decision;
use crate::data::options::WriteOptions;
use crate::error::Error;
use crate::layout::Epoch;
use crate::register::{self, epoch};

/// The shortest pause between two looks for a newer epoch because of strangers.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a look.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

impl LayoutChanges {
    /// Writes the successor of an epoch, unless there is one, and learns the successor. Returns
    /// true if it is this proposal.
    pub(crate) async fn succeed(&self, epoch: &Epoch, proposal: Epoch) -> Result<bool, Error> {
        self.succeed_since(epoch, proposal, None).await
    }

    /// Does the same, unless the row that decides was [settled](Self::last_epoch) since its last
    /// write was this one. A reader that completes a write keeps its id, so only a later write is
    /// another one.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if the row was settled since then.
    pub(super) async fn succeed_since(
        &self,
        epoch: &Epoch,
        proposal: Epoch,
        last: Option<Id>,
    ) -> Result<bool, Error> {
        let value = Value {
            metadata: self.now_ms().to_be_bytes().to_vec().into(),
            payload: Payload::Inline(proposal.encode().into()),
            usage: None,
            version: None,
        };
        let row = successor_row(epoch.number());
        let how = WriteOptions::durable(Durability::Fsync);
        let decided = self.update_stamped(&row, how, |current| {
            let is_settled = last.is_some_and(|last| last != current.write);
            match epoch::succeed(current.value, value.clone()) {
                register::Decision::Write(_) if is_settled => Decision::Abort(None),
                register::Decision::Write(proposal) => Decision::Write(proposal),
                register::Decision::Keep => Decision::Abort(current.value.cloned()),
            }
        });
        let (next, ours) = match decided.await? {
            Ok(()) => (proposal, true),
            Err(Some(other)) => {
                let next = epoch_of(&other)?;
                let ours = next == epoch_of(&value)?;
                (next, ours)
            }
            Err(None) => {
                return Err(refused(
                    "the staged changes were edited or dropped meanwhile; fix: view them (archipel layout \
                     show) and apply that version",
                ));
            }
        };
        self.learn(next).await?;
        self.tell_epoch().await;
        Ok(ours)
    }

    /// Learns the epochs that succeeded the known one, from the rows that decide. So a node that a
    /// newer layout took in is heard, and nobody needs to believe it. It does nothing if this node
    /// has just looked because of another stranger.
    pub(crate) async fn look_for_successor(&self) {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < LOOK_INTERVAL) {
            return;
        }
        self.learn_successors().await;
        *looked = Some(Instant::now());
    }

    /// Learns the epochs that succeeded the known one, from the rows that decide.
    pub(super) async fn learn_successors(&self) {
        while let Some(epoch) = self.epoch() {
            let row = successor_row(epoch.number());
            let Ok(Ok(Some(value))) = timeout(LOOK_TIMEOUT, self.read(&row)).await else {
                break;
            };
            if let Err(error) = self.learn_successor(&epoch, &value).await {
                tracing::warn!(%error, "a newer layout cannot be learnt");
                break;
            }
        }
    }

    /// Returns the epoch that has no successor, once this node knows it. No attempt of before at a
    /// successor takes effect later: a tombstone in the row that decides overtakes what a minority
    /// holds.
    pub(super) async fn last_epoch(&self) -> Result<Arc<Epoch>, Error> {
        loop {
            let epoch = self.epoch().ok_or_else(no_layout)?;
            let row = successor_row(epoch.number());
            let found = Mutex::new(None);
            let how = WriteOptions::durable(Durability::Fsync);
            let decided = self.update(&row, how, |current| match current {
                None => Decision::Write(None),
                Some(value) => {
                    *found.lock() = Some(value.clone());
                    Decision::Abort(())
                }
            });
            if decided.await?.is_ok() {
                return Ok(epoch);
            }
            if let Some(value) = found.into_inner() {
                self.learn_successor(&epoch, &value).await?;
                self.tell_epoch().await;
            }
        }
    }

    /// Learns the epoch in the row of another epoch's successor.
    async fn learn_successor(&self, epoch: &Epoch, value: &Value) -> Result<(), Error> {
        let next = epoch_of(value)?;
        if next.number() <= epoch.number() {
            return Err(refused("the row of the layout holds an older one"));
        }
        self.learn(next).await
    }
}

#[cfg(test)]
mod tests;
