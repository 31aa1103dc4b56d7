//! Lagging replicas: a replica that missed a write is told to fetch it. Otherwise it would lack the
//! write until its next pass, minutes later. An example is a race of writers in which a replica
//! promised a write that then failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::codec;
use archipel_net::Class;
use bytes::Bytes;
use parking_lot::Mutex;

use super::wire::{MAX_WAKE, WakeCall};
use crate::node::group::Group;
use crate::node::wire::method;
use crate::upkeep::Upkeep;

/// For how long misses are gathered before they are told, because a pass costs 20 KB and more.
const GATHERED: Duration = Duration::from_secs(20);

/// The replicas that missed a write.
#[derive(Default)]
pub(super) struct Lag(Mutex<Missed>);

#[derive(Default)]
struct Missed {
    /// Lagging nodes, each with the nodes that may have the write.
    there: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// The nodes that may have what this node missed.
    here: BTreeSet<NodeId>,
}

impl Upkeep {
    /// Notes that the replica with this index missed a write. It is told once [`GATHERED`] has passed.
    pub(crate) fn note_missed(self: &Arc<Upkeep>, group: &Group, index: usize) {
        let node_at = |index: usize| group.members.get(index).map(|member| member.node.node);
        let Some(node) = node_at(index) else { return };
        let others = (0..group.members.len()).filter(|other| *other != index);
        let others: Vec<NodeId> = others.filter_map(node_at).take(MAX_WAKE).collect();
        let mut lag = self.anti_entropy.lag.0.lock();
        let is_first = lag.there.is_empty() && lag.here.is_empty();
        let missed = if group.is_local(index) {
            &mut lag.here
        } else {
            lag.there.entry(node).or_default()
        };
        missed.extend(others);
        drop(lag);
        if is_first {
            let upkeep = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(GATHERED).await;
                if let Some(upkeep) = upkeep.upgrade() {
                    upkeep.tell_who_missed().await;
                }
            });
        }
    }

    async fn tell_who_missed(&self) {
        let missed = std::mem::take(&mut *self.anti_entropy.lag.0.lock());
        missed
            .here
            .iter()
            .for_each(|other| self.anti_entropy.hurry(other));
        let told = missed.there.into_iter().map(|(node, others)| async move {
            let others: Vec<NodeId> = others.into_iter().take(MAX_WAKE).collect();
            self.wake(&node, others).await;
        });
        futures_util::future::join_all(told).await;
    }

    /// Tells a node to compare its rows soon with these other nodes, or with this one if the list
    /// is empty. An unreachable node does so itself when it is back.
    pub(crate) async fn wake(&self, node: &NodeId, others: Vec<NodeId>) {
        let Some(peers) = &self.peers else { return };
        let call = if others.is_empty() {
            Bytes::new()
        } else {
            codec::encode(&WakeCall { others }).into()
        };
        let wake = peers.call_bytes(node, method::WAKE, Class::Background, call);
        if let Err(error) = wake.await {
            tracing::debug!(%error, "a lagging replica cannot be told to catch up");
        }
    }

    /// Lets this node and another one exchange soon what either lacks.
    pub(crate) async fn exchange(&self, node: &NodeId) {
        self.anti_entropy.hurry(node);
        self.wake(node, Vec::new()).await;
    }

    /// Notes that another node says that this one may lack something.
    pub(super) fn serve_wake(&self, from: NodeId, request: &Bytes) -> Result<(), String> {
        if request.is_empty() {
            self.anti_entropy.hurry(&from);
            return Ok(());
        }
        let call: WakeCall = codec::decode(request).map_err(|error| error.to_string())?;
        let others = call.others.iter().take(MAX_WAKE);
        others.for_each(|other| self.anti_entropy.hurry(other));
        Ok(())
    }
}
