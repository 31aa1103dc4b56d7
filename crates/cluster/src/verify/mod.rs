//! Verification: the cluster proves that what it holds is whole.
//!
//! Each node looks at what it holds: that every row decodes, that what is derived from rows (the log, windows, counters,
//! references) is exact, that every block which a row refers to is there and nothing else is; deep, that every
//! block's content is right; that nothing is left of partitions which the layout gives to others; and that its replicas hold the
//! same rows as those of the others. The node that was asked asks all others, and gathers what they say.
//!
//! What is found damaged or missing is noted to be mended, references that are counted too high are corrected, and what is left of
//! partitions that went elsewhere is forgotten; else nothing is changed.
//!
//! | module | what it holds |
//! |---|---|
//! | `message` | what nodes say to one another about it |
//! | `local` | one node's part |
//! | `compare` | replicas beside one another |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::{Id, NodeId};
use archipel_net::Class;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::inner::Inner;
use crate::layout::{Epoch, StoreName, all_partitions};
use crate::wire::method;

mod compare;
mod local;
mod message;
#[cfg(test)]
mod tests;

pub(crate) use message::{DigestCall, DigestReply, VerifyCall, VerifyReply};
pub use message::{Findings, Step};

/// How often other nodes are asked how far they are.
const POLL: Duration = Duration::from_millis(500);
/// How often in a row a node may not answer before it counts as away; once, if it seems to be away anyhow.
const PATIENCE: u32 = 3;
/// How long a node may take to say how far it is.
const ANSWER: Duration = Duration::from_secs(5);

/// What this node knows of verifications.
#[derive(Default)]
pub(crate) struct Verify {
    /// This node's own part of the last one.
    run: Mutex<Option<Run>>,
    /// The last one that this node was asked for.
    asked: Mutex<Option<Verification>>,
}

/// One node's part.
struct Run {
    id: Id,
    reply: VerifyReply,
}

/// A verification of all nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Whether every block is read.
    pub deep: bool,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended; 0 while it runs.
    pub ended_ms: u64,
    /// Whether data moved to a newer layout version when it began: places that are being filled are not compared.
    pub moving: bool,
    /// The nodes' parts, by node.
    pub nodes: Vec<NodePart>,
}

/// A node's part of a verification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodePart {
    /// The node.
    pub node: NodeId,
    /// What it does now.
    pub step: Step,
    /// What it found, or why it could not be asked.
    pub ended: Option<Result<Findings, String>>,
}

impl Verify {
    fn run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Option<Verification>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, node: NodeId, change: impl FnOnce(&mut NodePart)) {
        let mut asked = self.asked();
        let parts = asked.iter_mut().flat_map(|asked| &mut asked.nodes);
        if let Some(part) = parts.into_iter().find(|part| part.node == node) {
            change(part);
        }
    }
}

impl Cluster {
    /// Begins to verify all nodes of the layout; [`verification`](Self::verification) tells how far it is.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while another one runs, or if this node is in no layout.
    pub fn verify_start(&self, deep: bool) -> Result<(), Error> {
        let none = || Error::Unavailable("this node is in no layout yet".into());
        let epoch = self.epoch().ok_or_else(none)?;
        let stores = storing(&epoch);
        let mut asked = self.0.verify.asked();
        if asked.as_ref().is_some_and(|asked| asked.ended_ms == 0) {
            return Err(Error::Unavailable(
                "a verification is under way already".into(),
            ));
        }
        let part = |store: &StoreName| NodePart {
            node: store.node,
            step: Step::default(),
            ended: None,
        };
        *asked = Some(Verification {
            deep,
            began_ms: self.now_ms(),
            ended_ms: 0,
            moving: epoch.is_changing(),
            nodes: stores.iter().map(part).collect(),
        });
        let call = VerifyCall {
            run: self.random_id(),
            deep,
        };
        let inner = self.0.clone();
        tokio::spawn(async move { gather(&inner, call, stores).await });
        Ok(())
    }

    /// The last verification that this node was asked for.
    pub fn verification(&self) -> Option<Verification> {
        self.0.verify.asked().clone()
    }
}

/// The stores that hold a replica of anything, one for each node: of a node that lost its disks, the store that it has now.
fn storing(epoch: &Epoch) -> Vec<StoreName> {
    // Older versions first: what newer ones say of a node stays.
    let members =
        all_partitions().flat_map(|partition| epoch.replicas(partition).into_iter().enumerate());
    let mut stores: BTreeMap<NodeId, (usize, StoreName)> = BTreeMap::new();
    for (version, members) in members {
        for member in members {
            let known = stores
                .entry(member.node.node)
                .or_insert((version, member.node));
            *known = (*known).max((version, member.node));
        }
    }
    stores.into_values().map(|(_, store)| store).collect()
}

async fn gather(inner: &Arc<Inner>, call: VerifyCall, stores: Vec<StoreName>) {
    let parts = stores.into_iter().map(|store| async move {
        let ended = follow(inner, call, store).await;
        inner
            .verify
            .part(store.node, |part| part.ended = Some(ended));
    });
    futures_util::future::join_all(parts).await;
    let now = inner.options.wall.now_millis();
    if let Some(asked) = inner.verify.asked().as_mut() {
        asked.ended_ms = now;
    }
}

/// Asks a node until it has ended its part.
async fn follow(
    inner: &Arc<Inner>,
    call: VerifyCall,
    store: StoreName,
) -> Result<Findings, String> {
    let mut failures = 0;
    loop {
        match ask(inner, call, store.node).await {
            Ok(reply) if reply.busy => {
                return Err("another verification is under way there".into());
            }
            Ok(reply) => {
                failures = 0;
                inner.verify.part(store.node, |part| part.step = reply.step);
                if let Some(findings) = reply.findings {
                    return Ok(findings);
                }
            }
            Err(error) => {
                failures += 1;
                let peers = inner.peers.as_ref();
                let is_away = peers.is_none_or(|peers| peers.directory.is_suspected(&store.node));
                if is_away || failures >= PATIENCE {
                    return Err(error.to_string());
                }
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn ask(inner: &Arc<Inner>, call: VerifyCall, node: NodeId) -> Result<VerifyReply, Error> {
    if node == inner.epochs.me().node {
        return Ok(inner.serve_verify(call));
    }
    let alone = || Error::Unavailable("this node is alone".into());
    let peers = inner.peers.as_ref().ok_or_else(alone)?;
    let asked = peers.call(&node, method::VERIFY, Class::Small, &call);
    tokio::time::timeout(ANSWER, asked)
        .await
        .unwrap_or_else(|_| Err(Error::Unavailable("it does not answer".into())))
}

impl Inner {
    /// The digests of replicas that are here.
    pub(crate) async fn serve_digests(&self, call: DigestCall) -> Result<DigestReply, String> {
        let reply = compare::serve(self, call).await;
        reply.map_err(|error| error.to_string())
    }
}
