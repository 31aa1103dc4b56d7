//! Verification: the cluster checks that all stored data are whole.
//!
//! Each node checks what it holds:
//! - Every row decodes.
//! - Derived data (the log, windows, counters, references) are exact.
//! - Every kept version of an object fits the object's row.
//! - Every block that a row refers to is there, and no other block is.
//! - With `deep`, the content of every block is right.
//! - Nothing is left of partitions that the layout gives to other nodes.
//! - Its replicas hold the same rows as those of the other nodes.
//!
//! The node that was asked asks all others, and gathers their answers.
//!
//! Damaged and missing blocks are noted for repair, references that are counted too high are
//! corrected, and stale partitions are purged. Nothing else is changed.
//!
//! | module | what it holds |
//! |---|---|
//! | `message` | the messages of verification |
//! | `local` | one node's part |
//! | `versions` | compares kept versions with their objects |
//! | `compare` | compares replicas with one another |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Id, NodeId};
use archipel_net::Class;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::Error;
use crate::layout::{Epoch, StoreName, all_partitions};
use crate::node::wire::method;
use crate::upkeep::Upkeep;

mod compare;
mod local;
mod message;
#[cfg(test)]
mod tests;
mod versions;

pub(crate) use message::{DigestCall, DigestReply, VerifyCall, VerifyReply};
pub use message::{Findings, Step};

/// The pause between two requests for the progress of nodes. A small store is done long before, so
/// the first requests come sooner.
const POLL: Duration = Duration::from_millis(500);
/// The pause after the first request. Each later one is twice as long, up to [`POLL`].
const FIRST_POLL: Duration = Duration::from_millis(5);
/// The number of times in a row that a node may fail to answer before it counts as unreachable. A
/// suspected node may once.
const PATIENCE: u32 = 3;
/// The time that a node may take to tell its progress.
const ANSWER: Duration = Duration::from_secs(5);
/// The time that a node may take to end its part once the verification was stopped. A step of a
/// large store takes longer, and one on a disk that hangs never ends.
const STOPPING: Duration = Duration::from_secs(30);

/// The verifications that this node knows.
#[derive(Default)]
pub(crate) struct Verify {
    /// This node's own part of the last verification.
    run: Mutex<Option<Run>>,
    /// The last verification that this node was asked for.
    asked: Mutex<Option<Verification>>,
}

/// One node's part.
struct Run {
    id: Id,
    reply: VerifyReply,
    is_stopped: bool,
}

/// A verification of all nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// True if every block is read.
    pub deep: bool,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended; 0 while it runs.
    pub ended_ms: u64,
    /// True if data moved to a newer layout version when it began. Replicas that are being filled
    /// are not compared.
    pub moving: bool,
    /// True if it shall end before it has verified everything.
    pub stopped: bool,
    /// The nodes' parts, by node.
    pub nodes: Vec<NodePart>,
}

/// A verification in short, for other nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct VerificationState {
    /// When it began, in milliseconds since 1970.
    #[serde(rename = "b")]
    pub began_ms: u64,
    /// When it ended; 0 while it runs.
    #[serde(rename = "e")]
    pub ended_ms: u64,
    /// The nodes that it asks.
    #[serde(rename = "n")]
    pub nodes: u64,
    /// The nodes whose part has ended.
    #[serde(rename = "d")]
    pub done: u64,
    /// The number of problems.
    #[serde(rename = "p")]
    pub problems: u64,
    /// The first part that could not be checked, with the reason.
    #[serde(rename = "t")]
    pub trouble: Option<String>,
}

impl Verification {
    /// Returns it in short.
    pub fn state(&self) -> VerificationState {
        let ended = self.nodes.iter().filter_map(|part| part.ended.as_ref());
        let mut state = VerificationState {
            began_ms: self.began_ms,
            ended_ms: self.ended_ms,
            nodes: self.nodes.len() as u64,
            ..VerificationState::default()
        };
        for part in ended {
            state.done += 1;
            let trouble = match part {
                Ok(findings) => {
                    state.problems += findings.problems;
                    findings.unchecked.first()
                }
                Err(why) => Some(why),
            };
            state.trouble = state.trouble.or_else(|| trouble.cloned());
        }
        state
    }
}

/// A node's part of a verification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodePart {
    /// The node.
    pub node: NodeId,
    /// The current step.
    pub step: Step,
    /// The findings, or why the node could not be asked.
    pub ended: Option<Result<Findings, String>>,
}

impl Verify {
    fn run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock()
    }

    fn asked(&self) -> MutexGuard<'_, Option<Verification>> {
        self.asked.lock()
    }

    fn shall_stop(&self) -> bool {
        self.asked().as_ref().is_some_and(|asked| asked.stopped)
    }

    fn part(&self, node: NodeId, change: impl FnOnce(&mut NodePart)) {
        let mut asked = self.asked();
        let parts = asked.iter_mut().flat_map(|asked| &mut asked.nodes);
        if let Some(part) = parts.into_iter().find(|part| part.node == node) {
            change(part);
        }
    }
}

impl Upkeep {
    /// Begins to verify all nodes of the layout. [`verification`](Self::verification) returns the
    /// progress.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while another one runs, or if this node is in no layout.
    pub fn verify_start(self: &Arc<Upkeep>, deep: bool) -> Result<(), Error> {
        let none = || Error::Unavailable("this node is in no layout yet".into());
        let epoch = self.epoch().ok_or_else(none)?;
        let stores = storing(&epoch);
        let mut asked = self.verify.asked();
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
            stopped: false,
            nodes: stores.iter().map(part).collect(),
        });
        let call = VerifyCall {
            run: self.random_id(),
            deep,
            stop: false,
        };
        let upkeep = self.clone();
        tokio::spawn(async move { gather(&upkeep, call, stores).await });
        Ok(())
    }

    /// Ends the verification that this node was asked for: each node ends its part after the step that
    /// it is at. A node that takes longer than half a minute for that is not waited for. Returns false if
    /// none runs.
    pub fn verify_stop(&self) -> bool {
        let mut asked = self.verify.asked();
        let running = asked.as_mut().filter(|asked| asked.ended_ms == 0);
        running.map(|asked| asked.stopped = true).is_some()
    }

    /// Returns the last verification that this node was asked for.
    pub fn verification(&self) -> Option<Verification> {
        self.verify.asked().clone()
    }
}

/// Returns the stores that hold a replica, one for each node. For a node that lost its disks, it is
/// the current store.
fn storing(epoch: &Epoch) -> Vec<StoreName> {
    // Older versions come first, so that newer ones overwrite them.
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

async fn gather(upkeep: &Arc<Upkeep>, call: VerifyCall, stores: Vec<StoreName>) {
    let parts = stores.into_iter().map(|store| async move {
        let ended = follow(upkeep, call, store).await;
        upkeep
            .verify
            .part(store.node, |part| part.ended = Some(ended));
    });
    futures_util::future::join_all(parts).await;
    let now = upkeep.options.wall.now_millis();
    if let Some(asked) = upkeep.verify.asked().as_mut() {
        asked.ended_ms = now;
    }
}

/// Asks a node until it has ended its part, or takes too long to end it after a stop.
async fn follow(
    upkeep: &Arc<Upkeep>,
    mut call: VerifyCall,
    store: StoreName,
) -> Result<Findings, String> {
    let (mut failures, mut pause) = (0, FIRST_POLL);
    let mut stopping: Option<Instant> = None;
    loop {
        call.stop = upkeep.verify.shall_stop();
        if call.stop && stopping.get_or_insert_with(Instant::now).elapsed() >= STOPPING {
            return Err(
                "the verification was stopped, and the step under way there does not end".into(),
            );
        }
        match ask(upkeep, call, store.node).await {
            Ok(reply) if reply.busy => {
                return Err("another verification is under way there".into());
            }
            Ok(reply) => {
                failures = 0;
                upkeep
                    .verify
                    .part(store.node, |part| part.step = reply.step);
                if let Some(findings) = reply.findings {
                    return Ok(findings);
                }
            }
            Err(error) => {
                failures += 1;
                pause = POLL;
                let peers = upkeep.peers.as_ref();
                let is_away = peers.is_none_or(|peers| peers.directory.is_suspected(&store.node));
                if is_away || failures >= PATIENCE {
                    return Err(error.to_string());
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL);
    }
}

async fn ask(upkeep: &Arc<Upkeep>, call: VerifyCall, node: NodeId) -> Result<VerifyReply, Error> {
    if node == upkeep.epochs.me().node {
        return Ok(upkeep.serve_verify(call));
    }
    let peers = upkeep.peers()?;
    let asked = peers.call(&node, method::VERIFY, Class::Small, &call);
    tokio::time::timeout(ANSWER, asked)
        .await
        .unwrap_or_else(|_| Err(Error::Unavailable("it does not answer".into())))
}

impl Upkeep {
    /// Answers with the digests of local replicas.
    pub(crate) async fn serve_digests(&self, call: DigestCall) -> Result<DigestReply, String> {
        let reply = compare::serve(self, call).await;
        reply.map_err(|error| error.to_string())
    }
}
