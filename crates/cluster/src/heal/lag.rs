//! Replicas that missed a write are told to fetch it. Otherwise they would lack it until the next pass, which comes after
//! minutes: a race of writers leaves a replica out that promised a write which then came to nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::codec;
use archipel_net::Class;
use bytes::Bytes;

use super::lock;
use super::wire::{MAX_WAKE, WakeCall, method};
use crate::group::Group;
use crate::inner::Inner;
use crate::register::Answer;

/// For how long misses are gathered before they are told: a pass costs some 20 KB and more.
const GATHERED: Duration = Duration::from_secs(20);

/// Who missed something.
#[derive(Default)]
pub(super) struct Lag(Mutex<Missed>);

#[derive(Default)]
struct Missed {
    /// Other nodes, each with those that may have it.
    there: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// Who may have what this node missed.
    here: BTreeSet<NodeId>,
}

/// Whether a replica that answers a write so holds it, or has nothing to hold: others may, otherwise.
pub(crate) fn is_settled<V, E>(answer: &Result<Answer<V>, E>) -> bool {
    use Answer::{Accepted, Guarded, Superseded};
    matches!(answer, Ok(Accepted | Guarded | Superseded { .. }))
}

impl Inner {
    /// Notes that the replica at a place of a group missed a write; it is told within the minute.
    pub(crate) fn missed(self: &Arc<Inner>, group: &Group, place: usize) {
        let node_at = |place: usize| group.members.get(place).map(|member| member.node.node);
        let Some(node) = node_at(place) else { return };
        let others = (0..group.members.len()).filter(|other| *other != place);
        let others: Vec<NodeId> = others.filter_map(node_at).take(MAX_WAKE).collect();
        let mut lag = lock(&self.heal.lag.0);
        let is_first = lag.there.is_empty() && lag.here.is_empty();
        let missed = match group.is_local(place) {
            true => &mut lag.here,
            false => lag.there.entry(node).or_default(),
        };
        missed.extend(others);
        drop(lag);
        if is_first {
            let inner = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(GATHERED).await;
                if let Some(inner) = inner.upgrade() {
                    inner.tell_who_missed().await;
                }
            });
        }
    }

    async fn tell_who_missed(&self) {
        let missed = std::mem::take(&mut *lock(&self.heal.lag.0));
        missed.here.iter().for_each(|other| self.heal.hurry(other));
        let told = missed.there.into_iter().map(|(node, others)| async move {
            let others: Vec<NodeId> = others.into_iter().take(MAX_WAKE).collect();
            self.wake(&node, others).await;
        });
        futures_util::future::join_all(told).await;
    }

    /// Has a node compare what it holds with these others soon; with this one, if none are named. One that is away does so
    /// by itself when it is back.
    pub(crate) async fn wake(&self, node: &NodeId, others: Vec<NodeId>) {
        let Some(peers) = &self.peers else { return };
        let call = match others.is_empty() {
            true => Bytes::new(),
            false => codec::encode(&WakeCall { others }).into(),
        };
        let wake = peers.call_bytes(node, method::WAKE, Class::Background, call);
        if let Err(error) = wake.await {
            tracing::debug!(%error, "a replica cannot be told that it may be behind");
        }
    }

    /// Has this node and another one exchange soon what one of them lacks.
    pub(crate) async fn exchange(&self, node: &NodeId) {
        self.heal.hurry(node);
        self.wake(node, Vec::new()).await;
    }

    /// Another node says that this one may lack something.
    pub(super) fn serve_wake(&self, from: NodeId, request: &Bytes) -> Result<(), String> {
        if request.is_empty() {
            self.heal.hurry(&from);
            return Ok(());
        }
        let call: WakeCall = codec::decode(request).map_err(|error| error.to_string())?;
        let others = call.others.iter().take(MAX_WAKE);
        others.for_each(|other| self.heal.hurry(other));
        Ok(())
    }
}
