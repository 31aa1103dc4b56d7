//! Going on under a newer layout.

use archipel_storage::Value;

use super::waiting::again_if_it_fails;
use super::{Run, next};
use crate::error::Error;
use crate::node::epochs::in_time;
use crate::register::{Operation, Output};

impl Run<'_> {
    /// Continues under the layout that a replica knows.
    pub(super) async fn refresh(
        &mut self,
        operation: &mut Operation<Value>,
        epoch: u64,
        known_at: Option<usize>,
    ) -> Result<Vec<Output<Value>>, Error> {
        let inner = self.inner;
        inner.epochs.settled().await?;
        if inner.epochs.in_force() < epoch {
            let other = known_at.filter(|index| !self.group.is_local(*index));
            match other.and_then(|index| self.group.members.get(index)) {
                Some(member) => {
                    let node = member.node.node;
                    let away = || self.group.is_away(inner.peers.as_ref(), &node);
                    let learn = || inner.learn_from(&node);
                    in_time(again_if_it_fails(&inner.options.times, away, learn)).await?;
                }
                // This node stored the epoch, and then failed. It answers nothing until it tries
                // again.
                None if inner.epochs.number() > inner.epochs.in_force() => {
                    return Ok(operation.give_up());
                }
                // This node could not store the epoch, and goes on in the older one.
                None => {}
            }
        }
        let before = self.group.epoch;
        self.group = self.group.renewed(&inner.epochs, inner.peers.as_ref())?;
        let successive = self.group.epoch <= before + 1;
        let quorums = self.group.quorums.clone();
        Ok(operation.restart(quorums, successive, &mut next(inner)))
    }
}
