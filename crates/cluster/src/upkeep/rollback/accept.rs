//! Accepting stores that were rolled back together.
//!
//! An operator who restores *all* nodes of a cluster from copies has lost what was acknowledged
//! since, and knows it. But the copies are of different moments. So each store contradicts what
//! another one remembers of it, and all are quarantined. Also, one store may have agreed to a floor
//! of which another knows nothing. The rows that the other still has below that floor would count
//! as deleted, and never reach the first.
//!
//! So each store drops what it remembers of the others, its own runs, and its floors. Then
//! anti-entropy brings the rows together as after any absence: the newest version of each row wins.
//! A row comes back if it was deleted after the oldest copy was made and its tombstone was gone
//! from a newer copy.
//!
//! A store that did so alone is contradicted by the others, and is quarantined again.

use archipel_base::{Id, NodeId, boxed};
use archipel_storage::{RowTxn, Store};

use crate::error::Error;
use crate::layout::{Epoch, all_partitions};
use crate::node::epochs;
use crate::node::floors;
use crate::node::history_record as record;

/// Makes the store of a stopped node accept the others, and be accepted, as it is. All other nodes
/// of the cluster must do the same before the first of them starts. Returns the number of the epoch
/// that the store knows.
///
/// # Errors
/// [`Error::Unavailable`] if the store knows no layout, or one that does not name the store whose rows
/// it holds. Then there is no name under which it could be accepted.
#[boxed]
pub async fn accept_rollback(store: &Store, node: NodeId) -> Result<u64, Error> {
    let known = epochs::stored(store).await?;
    let none = || Error::Unavailable("this node was in no cluster when the copy was made".into());
    let epoch = known.ok_or_else(none)?;
    let members = epoch.config.members();
    let name = name_of(store, &epoch, node).await?;
    let number = epoch.number();
    let accept = move |txn: &mut RowTxn<'_>| {
        for member in &members {
            record::forget(txn, member.node.store)?;
        }
        all_partitions().try_for_each(|partition| floors::forget(txn, partition))?;
        record::begin_again(txn, name)
    };
    store.transact(record::durably(), accept).await?;
    Ok(number)
}

/// Returns the name that the layout has for the store whose rows these are. While a layout changes, a node
/// may have two stores in it, of which the older one is lost. Under the wrong name the next start would
/// wipe the rows.
async fn name_of(store: &Store, epoch: &Epoch, node: NodeId) -> Result<Id, Error> {
    let members = epoch.config.members();
    let mut own = members.iter().filter(|member| member.node.node == node);
    if own.clone().next().is_none() {
        let why = "the layout in the copy does not name this node";
        return Err(Error::Unavailable(why.into()));
    }
    let kept = epochs::kept_incarnation(store).await?;
    let fitting = match kept {
        Some(kept) => own.find(|member| member.incarnation == kept),
        // No layout has named the store before this one. It is empty.
        None => {
            let name = record::stored_name(store).await?;
            own.find(|member| member.node.store == name)
        }
    };
    let unnamed = || {
        let why = "the layout in the copy names another store of this node than the one whose rows are \
                   here: as that one, this node would drop them at its next start; fix: restore a copy \
                   of another time, or accept the other nodes only, start all nodes, and assign this one \
                   again: it is then filled from them";
        Error::Unavailable(why.into())
    };
    Ok(fitting.ok_or_else(unnamed)?.node.store)
}
