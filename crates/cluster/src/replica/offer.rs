//! What other replicas hold, taken over here.

use std::sync::atomic::Ordering;

use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowKey, RowTxn, Value};

use super::{Replica, cell_of, end_guard, lock, store_cell, weight};
use crate::epochs::Check;
use crate::heal::record;
use crate::register::{Bounds, Cell, Recent, Rules, Version, replica};
use crate::wire::Address;

impl Replica {
    /// Takes a version that another replica holds, if it is newer than what is here.
    ///
    /// # Errors
    /// [`storage::Error::NoBlock`] if the row refers to blocks that are not here yet.
    pub async fn take(
        &self,
        address: Address,
        key: RowKey,
        offer: Offer,
    ) -> Result<Taken, storage::Error> {
        if self.epochs.check(&address) != Check::Pass {
            return Ok(Taken::Not);
        }
        let (bounds, around) = (self.bounds(), self.around.clone());
        let (memory, fence) = (self.recent.clone(), self.epochs.fence());
        let weight = offer.version.value.as_ref().map_or(0, weight);
        let how = Transact::new(Durability::Fsync).weighing(weight);
        let change = move |txn: &mut RowTxn<'_>| {
            if fence.load(Ordering::SeqCst) > address.epoch {
                return Ok(Taken::Not);
            }
            let bounds = record::bounds(&txn.reader(), key.partition, bounds)?;
            let cell = cell_of(txn.row_to_replace(&key)?.unwrap_or_default());
            let remembered = lock(&memory).take(&key, txn.era());
            let mut recent =
                remembered.unwrap_or_else(|| Recent::forgotten(Rules::CORRECT, &cell, &bounds));
            let (new, taken) = offer.spread(&bounds, &cell, &mut recent);
            if let Some(new) = new {
                end_guard(txn, &key, &cell, &new, &around)?;
                store_cell(txn, &key, &cell, new, &around)?;
            }
            lock(&memory).put(key, recent);
            Ok(taken)
        };
        self.store.transact(how, change).await
    }

    /// Writes the body of a row anew if it is damaged here, from the same version as a quorum has it. Tells whether that was to be done.
    ///
    /// # Errors
    /// [`storage::Error::Damaged`] if the row itself is: what it promised is lost, and the store must be replaced.
    pub async fn restore(
        &self,
        key: RowKey,
        version: Version<Value>,
    ) -> Result<bool, storage::Error> {
        let restore = move |txn: &mut RowTxn<'_>| {
            let same = txn
                .head(&key)?
                .is_some_and(|head| head.stamp == version.stamp);
            match &version.value {
                Some(value) if same => txn.restore_body(&key, &value.body),
                _ => Ok(false),
            }
        };
        let how = Transact::new(Durability::Fsync).bounded();
        self.store.transact(how, restore).await
    }
}

/// A version that another replica holds.
#[derive(Clone)]
pub(crate) struct Offer {
    pub version: Version<Value>,
    /// A quorum is known to hold it: a read gave it.
    pub settled: bool,
    pub rules: Rules,
}

/// What became of an [`Offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// It is held.
    Yes,
    /// It is not newer than what is held, or was dropped for good.
    Not,
    /// It is newer, and a promise keeps it out: a quorum must be asked.
    Promised,
}

impl Offer {
    /// What a read gave.
    pub fn settled(version: Version<Value>) -> Offer {
        Offer {
            version,
            settled: true,
            rules: Rules::CORRECT,
        }
    }

    fn spread(
        self,
        bounds: &Bounds,
        cell: &Cell<Value>,
        recent: &mut Recent,
    ) -> (Option<Cell<Value>>, Taken) {
        let spread = |version, recent: &mut Recent, settled| {
            replica::spread(self.rules, bounds, cell, recent, version, settled)
        };
        match spread(self.version.clone(), recent, self.settled) {
            Some(new) => (Some(new), Taken::Yes),
            None if spread(self.version, &mut recent.clone(), true).is_some() => {
                (None, Taken::Promised)
            }
            None => (None, Taken::Not),
        }
    }
}
