//! The nodes that are answered: those of the layout, and those that an operator admitted.
//!
//! The cluster's secret opens the connection and no more. A node that nobody took in gets gossip
//! and the epoch, which it needs to be taken in. [`layout::admission`](crate::layout) has the list.

use std::sync::Arc;

use archipel_base::{NodeId, boxed};

use super::LayoutChanges;
use super::change::{no_layout, refused};
use crate::error::Error;
use crate::layout::{Epoch, MAX_ADMITTED};
use crate::node::epochs::in_time;

/// The number of attempts at a change of the list while others change the layout.
const TRIES: u32 = 10;

impl LayoutChanges {
    /// Checks that another node may ask this one for more than gossip and the epoch.
    ///
    /// # Errors
    /// A text for the other node's operator.
    pub(crate) async fn check_admitted(&self, from: &NodeId) -> Result<(), String> {
        let admits = || self.epoch().is_some_and(|epoch| epoch.admits(from));
        if admits() {
            return Ok(());
        }
        if self.epoch().is_none() {
            // It holds nothing, and learns the layout from nodes that its operator named.
            return self.trusts(from).then_some(()).ok_or_else(|| {
                let here = self.me().node.short();
                format!(
                    "node {here} knows no layout yet, and its operator named no node that tells one; fix, on \
                     that node: archipel node join ADDRESS"
                )
            });
        }
        let settled = self.epochs.settled().await;
        settled.map_err(|error| error.to_string())?;
        if !admits() {
            let looked = async {
                self.look_for_successor().await;
                Ok(())
            };
            // The epoch that it finds may take minutes to learn.
            let looked = in_time(looked).await;
            looked.map_err(|error| error.to_string())?;
        }
        let short = from.short();
        admits().then_some(()).ok_or_else(|| {
            format!(
                "node {short} is in no layout, and no operator admitted it; fix: archipel layout assign \
                 {short}, or archipel node admit {short}"
            )
        })
    }

    /// Lets other nodes answer a node that is in no layout. It counts on each node once that has
    /// heard of it.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] while a layout change is under way, and if the list is
    /// full.
    #[boxed]
    pub async fn admit(&self, node: NodeId) -> Result<Arc<Epoch>, Error> {
        self.change_admitted(|epoch| {
            if epoch.admits(&node) {
                return Ok(None);
            }
            if epoch.is_changing() {
                // A new epoch makes the change begin again.
                return Err(refused(
                    "a layout change is under way; fix: wait until its data has moved (archipel layout \
                     show)",
                ));
            }
            if epoch.admitted.len() >= MAX_ADMITTED {
                return Err(refused(format!(
                    "{MAX_ADMITTED} nodes are admitted, which is the most; fix: archipel node dismiss one, \
                     or archipel layout assign"
                )));
            }
            Ok(epoch.admitting(node))
        })
        .await
    }

    /// Takes an admission back. It counts on each node once that has heard of it.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Refused`] if the layout has the node.
    #[boxed]
    pub async fn dismiss(&self, node: NodeId) -> Result<Arc<Epoch>, Error> {
        let short = node.short();
        self.change_admitted(|epoch| match epoch.has_member(&node) {
            true => Err(refused(format!(
                "node {short}: it is in the layout; fix: archipel layout remove {short}"
            ))),
            false => Ok(epoch.dismissing(&node)),
        })
        .await
    }

    async fn change_admitted(
        &self,
        next: impl Fn(&Epoch) -> Result<Option<Epoch>, Error>,
    ) -> Result<Arc<Epoch>, Error> {
        for _ in 0..TRIES {
            let epoch = self.epoch().ok_or_else(no_layout)?;
            let Some(proposal) = next(&epoch)? else {
                return Ok(epoch);
            };
            if self.succeed(&epoch, proposal).await? {
                return self.epoch().ok_or_else(no_layout);
            }
        }
        Err(refused(
            "other changes were made first; fix: try again once they are done",
        ))
    }
}
