//! Applying the versions of other replicas.

use archipel_base::boxed;
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowKey, RowTxn, Value, VersionName};

use super::{Around, Replica, cell_of, pointing, put_cell, store_cell};
use crate::node::detach::DetachOnDrop;
use crate::node::epochs::Check;
use crate::node::floors;
use crate::node::wire::Address;
use crate::register::versions::Copied;
use crate::register::{self, Answer, Bounds, Cell, Recent, Rules, Version, replica};

impl Replica {
    /// Applies a version that another replica holds, if it is newer than the local one.
    ///
    /// # Errors
    /// [`storage::Error::NoBlock`] if the row refers to blocks that are not here yet.
    #[boxed]
    pub async fn apply(
        &self,
        address: Address,
        key: RowKey,
        offer: Offer,
    ) -> Result<Applied, storage::Error> {
        if self.epochs.check(&address) != Check::Pass {
            return Ok(Applied::Not);
        }
        let (bounds, around) = (self.bounds(), self.around.clone());
        let (memory, under) = (self.recent.clone(), self.epochs.under(address.epoch));
        let how = Transact::new(Durability::Fsync);
        let told = key.clone();
        let change = move |txn: &mut RowTxn<'_>| {
            if under.superseded().is_some() {
                return Ok(Applied::Not);
            }
            let bounds = floors::bounds(&txn.reader(), key.partition, bounds)?;
            if let Some((row, name)) = (around.hooks.kept_in)(&key) {
                let copied = copy(txn, &key, (&row, name), &offer.version, &bounds, &around)?;
                return Ok(match copied {
                    Copied::Taken(_) => Applied::Yes,
                    Copied::Known | Copied::Frozen => Applied::Not,
                });
            }
            let cell = cell_of(txn.row_to_replace(&key)?.unwrap_or_default());
            let remembered = memory.lock().take(&key, txn.era());
            let mut recent =
                remembered.unwrap_or_else(|| Recent::forgotten(Rules::CORRECT, &cell, &bounds));
            let (version, is_over) = (offer.version.clone(), offer.is_over);
            let (new, applied) = offer.spread(&bounds, &cell, &mut recent);
            if let Some(new) = new {
                let known = (is_over, &bounds);
                let marks = pointing::marks(txn, &key, &version, None, known, around.hooks)?;
                let marks = match marks {
                    Ok(marks) => marks,
                    Err(Answer::LacksPointing) => {
                        // It comes again once that row is here.
                        recent.undo(version.stamp, version.write);
                        memory.lock().put(key, recent);
                        return Ok(Applied::LacksPointing);
                    }
                    // A row that must point to it cannot do so under this stamp. It is not
                    // remembered as accepted either: what is known of the row is what it says.
                    Err(_) => return Ok(Applied::Promised),
                };
                // A version that the value changes must come first.
                if put_cell(txn, &key, &cell, new, Some(&version), &around)?.is_err() {
                    return Ok(Applied::Promised);
                }
                pointing::store(txn, marks, &around)?;
            }
            memory.lock().put(key, recent);
            Ok(applied)
        };
        let topics = (self.around.hooks.topics)(&told);
        let (store, feed) = (self.store.clone(), self.feed.clone());
        // It goes on without its caller, so that no change is committed and not told.
        DetachOnDrop::new(async move {
            let applied = store.transact(how, change).await;
            if let (Ok(Applied::Yes), Some(topics)) = (&applied, topics) {
                feed.tell(topics);
            }
            applied
        })
        .await
    }

    /// Writes the payload of a row again if it is damaged here, from the same version as a quorum
    /// holds it. Returns true if it was damaged.
    ///
    /// # Errors
    /// [`storage::Error::Damaged`] if the row itself is damaged: its promise is lost, and the store
    /// must be replaced.
    #[boxed]
    pub async fn restore(
        &self,
        key: RowKey,
        version: Version<Value>,
    ) -> Result<bool, storage::Error> {
        let restore = move |txn: &mut RowTxn<'_>| {
            let same = txn
                .metadata(&key)?
                .is_some_and(|metadata| metadata.stamp == version.stamp);
            match &version.value {
                Some(value) if same => txn.restore_payload(&key, &value.payload),
                _ => Ok(false),
            }
        };
        let how = Transact::new(Durability::Fsync).bounded();
        self.store.transact(how, restore).await
    }
}

/// Applies a kept version that another replica holds. Returns the protocol's reaction.
pub(super) fn copy(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    (row, name): (&RowKey, VersionName),
    version: &Version<Value>,
    bounds: &Bounds,
    around: &Around,
) -> Result<Copied, storage::Error> {
    let current = cell_of(txn.row_to_replace(row)?.unwrap_or_default());
    let kept = cell_of(txn.row_to_replace(key)?.unwrap_or_default());
    let copied = register::versions::copy(Rules::CORRECT, bounds, &current, &kept, name, version);
    if let Copied::Taken(new) = &copied {
        store_cell(txn, key, &kept, new.clone(), around)?;
    }
    Ok(copied)
}

/// A version that another replica holds.
#[derive(Clone)]
pub(crate) struct Offer {
    pub version: Version<Value>,
    /// True if a quorum is known to hold the version, because a read returned it.
    pub settled: bool,
    /// True if a quorum has told that the row which points to the version's write is over.
    pub is_over: bool,
    pub rules: Rules,
}

/// The result of applying an [`Offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    /// The replica holds the version now.
    Yes,
    /// The version is not newer than the local one, or was dropped for good.
    Not,
    /// The version is newer, but a promise keeps it out: a quorum must be asked.
    Promised,
    /// The version is newer, but the row that points to its write is lacking here.
    LacksPointing,
}

impl Offer {
    /// Returns the offer of a version that a read returned.
    pub fn settled(version: Version<Value>) -> Offer {
        Offer {
            version,
            settled: true,
            is_over: false,
            rules: Rules::CORRECT,
        }
    }

    fn spread(
        self,
        bounds: &Bounds,
        cell: &Cell<Value>,
        recent: &mut Recent,
    ) -> (Option<Cell<Value>>, Applied) {
        let spread = |version, recent: &mut Recent, settled| {
            replica::spread(self.rules, bounds, cell, recent, version, settled)
        };
        match spread(self.version.clone(), recent, self.settled) {
            Some(new) => (Some(new), Applied::Yes),
            // Frozen rows converge only under newer stamps.
            None if bounds.agreed < self.version.stamp
                && self.version.stamp <= bounds.frozen
                && self.version.stamp > cell.stamp =>
            {
                (None, Applied::Promised)
            }
            None if spread(self.version, &mut recent.clone(), true).is_some() => {
                (None, Applied::Promised)
            }
            None => (None, Applied::Not),
        }
    }
}
