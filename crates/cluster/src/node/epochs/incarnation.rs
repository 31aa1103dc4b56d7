//! The incarnation to which the rows of this store belong, and the name under which it got it.

use archipel_base::Id;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowTxn, Store};
use bytes::Bytes;

use super::{Epochs, damaged};
use crate::error::Error;
use crate::layout::Epoch;
use crate::node::purge;

/// Names in the store's `meta`: the incarnation, and the store's name then.
const INCARNATION: &str = "incarnation";
const NAMED: &str = "named";

/// Returns whether the store was in a layout, and under which name it got its incarnation. A
/// release before this one did not note that name.
pub(super) async fn kept(store: &Store) -> Result<(bool, Option<Id>), Error> {
    let read = store.read(|rows| Ok((rows.meta(INCARNATION)?, rows.meta(NAMED)?)));
    let (incarnation, named) = read.await?;
    let named = named.and_then(|name| Some(Id(name.as_ref().try_into().ok()?)));
    Ok((incarnation.is_some(), named))
}

/// Returns the incarnation to which a store's rows belong; `None` if no layout has named it yet.
pub(crate) async fn kept_incarnation(store: &Store) -> Result<Option<u64>, Error> {
    let kept = store.read(|rows| rows.meta(INCARNATION)).await?;
    let number = |bytes: Bytes| bytes.as_ref().try_into().map(u64::from_be_bytes);
    kept.map(number).transpose().map_err(damaged)
}

impl Epochs {
    /// Returns true if a layout has named this store since the store got its name, `name`. Its rows
    /// are of that time.
    pub fn was_named(&self, name: Id) -> bool {
        *self.named.read() == Some(name)
    }

    /// Wipes the store if it comes back under a new incarnation. A store that was in no live layout
    /// for a while may hold rows that are older than dropped tombstones.
    pub(super) async fn become_incarnation(
        &self,
        store: &Store,
        epoch: &Epoch,
    ) -> Result<(), Error> {
        let me = self.me();
        let Some(wanted) = epoch.incarnation_of(&me) else {
            return Ok(());
        };
        let (wanted, name) = (wanted.to_be_bytes(), me.store);
        let kept = store.read(|rows| rows.meta(INCARNATION)).await?;
        let is_same = kept.as_deref() == Some(&wanted);
        if is_same && self.was_named(name) {
            return Ok(());
        }
        if kept.is_some() && !is_same {
            tracing::warn!("this node comes back under a new incarnation, so its store is wiped");
            purge::wipe(store).await?;
        }
        let set = move |txn: &mut RowTxn<'_>| {
            txn.set_meta(INCARNATION, Some(&wanted))?;
            txn.set_meta(NAMED, Some(name.as_bytes()))
        };
        let how = Transact::new(Durability::Fsync).bounded();
        store.transact(how, set).await?;
        *self.named.write() = Some(name);
        Ok(())
    }
}
