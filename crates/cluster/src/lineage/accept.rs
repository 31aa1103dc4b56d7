//! Believing stores that were put back together.
//!
//! Whoever puts back *all* nodes of a cluster from copies has lost what was acknowledged since, and knows it. But the copies are of
//! different moments, so each store contradicts what another remembers of it, and none is believed. And one may have agreed to a floor
//! of which another knows nothing: what the other still has below it would count as deleted, and never come together. So each store
//! forgets what it remembers of the others, its own runs, and its floors; what they hold then comes together as after any absence:
//! the newest version of each row. What was deleted after the oldest copy was made, and whose tombstone was gone from a newer one, comes back.
//!
//! A store that did so alone is contradicted by those that did not, and is put aside again.

use archipel_base::NodeId;
use archipel_storage::{RowTxn, Store};

use super::record;
use crate::epochs;
use crate::error::Error;
use crate::heal::record as floors;

/// Has the store of a node that does not run believe, and be believed, as it is. All others of the cluster must do the same before the
/// first of them starts. Gives the number of the epoch that it knows.
///
/// # Errors
/// [`Error::Unavailable`] if it knows no layout, or one that does not name this node: there is nothing that it would be believed as.
pub async fn accept_put_back(store: &Store, node: NodeId) -> Result<u64, Error> {
    let known = epochs::stored(store).await?;
    let none = || Error::Unavailable("this node was in no cluster when the copy was made".into());
    let epoch = known.ok_or_else(none)?;
    let members = epoch.config.members();
    let name = members.iter().find(|member| member.node.node == node);
    let unnamed = || Error::Unavailable("the layout in the copy does not name this node".into());
    let name = name.ok_or_else(unnamed)?.node.store;
    let number = epoch.number();
    let accept = move |txn: &mut RowTxn<'_>| {
        for member in &members {
            record::forget(txn, member.node.store)?;
        }
        floors::forget_all(txn)?;
        record::begin_anew(txn, name)
    };
    store.transact(record::durably(), accept).await?;
    Ok(number)
}
