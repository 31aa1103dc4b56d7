//! The requests that a replica answers, and those that it refuses.

use archipel_storage as storage;
use archipel_storage::Value;

use super::Replica;
use crate::node::epochs::Check;
use crate::node::wire::Address;
use crate::register::Answer;

impl Replica {
    /// Returns the answer to a request of an older epoch, or `None` if the request is for this
    /// replica now.
    ///
    /// # Errors
    /// If the request is not for this replica, or if the replica may not answer yet.
    pub(super) fn refuse(
        &self,
        address: &Address,
    ) -> Result<Option<Answer<Value>>, storage::Error> {
        let busy = |why: &str| Err(storage::Error::Busy(why.into()));
        let fails = |why: &str| Err(storage::Error::Io(why.into()));
        match self.epochs.check(address) {
            Check::Pass => Ok(None),
            Check::Superseded(epoch) => Ok(Some(Answer::Superseded { epoch })),
            Check::Learn => busy("the layout is being learnt"),
            // The caller asks again, because this takes only a moment.
            Check::Unconfirmed => busy("other nodes have not confirmed this store yet"),
            Check::TooOld => fails("this node does not speak the cluster's feature level"),
            // Fails as if no node had answered: the node is here, but the store of that name is
            // not.
            Check::NotHere => fails("the partition is not held here"),
        }
    }
}
