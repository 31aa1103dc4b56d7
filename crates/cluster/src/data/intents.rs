//! Writes to which another row points: see [`intent`](crate::register::intent).

use std::sync::Arc;

use archipel_base::{Stamp, boxed};
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;

use super::Data;
use crate::data::options::WriteOptions;
use crate::data::rows::{start, unexpected};
use crate::error::Error;
use crate::register::intent::Fate;
use crate::register::versions::{self, Promises};
use crate::register::{self, Intent, Operation, Outcome, Rules};

impl Data {
    /// Returns a new write that another row will point to, for one [`update`](Data::update).
    #[boxed]
    pub async fn announce(self: &Arc<Data>) -> Result<Intent, Error> {
        self.wait_for_time().await?;
        Ok(Intent {
            write: self.random_id(),
            after: self.next_stamp(Stamp::ZERO),
            // The update runs in this epoch or in a later one, also while a newer one is being
            // learnt.
            epoch: self.epochs.in_force(),
            name: None,
        })
    }

    /// Finds out, for good, what became of a write of the row `key` to which another row points.
    /// `seen` is the stamp of that other row.
    #[boxed]
    pub async fn resolve(
        self: &Arc<Data>,
        key: &RowKey,
        intent: &Intent,
        seen: Stamp,
    ) -> Result<Fate, Error> {
        self.wait_for_time().await?;
        let _turn = self.queues.turn(key).await;
        let how = WriteOptions::durable(Durability::Fsync);
        let mut run = self.run(key, &how)?;
        let (start, epoch) = (start(&run.group), run.group.epoch);
        let (operation, outputs) = Operation::resolve(start, intent, epoch, seen, &mut |seen| {
            self.next_stamp(seen)
        });
        let mut never = |_: &Promises<'_>| register::Decision::Keep;
        let outcome = run.drive(operation, outputs, &mut never).await?;
        let fate = Fate::of(Rules::CORRECT, &outcome).ok_or_else(|| unexpected(&outcome))?;
        let is_displaced = match &outcome {
            Outcome::Kept(newest) => versions::name_of(newest.value.as_ref()).is_some(),
            _ => false,
        };
        match (fate, intent.name) {
            // A minority may keep the attempt as the null version, which cannot be buried: nothing
            // tells one null version from another.
            (Fate::Never, None) if is_displaced => Ok(Fate::Unknown),
            // The attempt may be a version. Before the pointing row is over, and content that no
            // version refers to is dropped, it is one for good or dead.
            (Fate::Unknown, Some(_)) => {
                self.version_of(key, intent.name).await?;
                Ok(fate)
            }
            (fate, _) => Ok(fate),
        }
    }
}
