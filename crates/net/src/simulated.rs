//! Nodes in one process, joined by links that delay, lose, cut and heal: for simulation and tests.
//!
//! Time is tokio's (which a test may pause), chance is a [`Random`]: on a runtime of one thread a run repeats.
//! Streams are reliable, as those of QUIC and TCP are: a frame that is lost is late, and one that meets a cut
//! waits until the cut heals or the stream breaks.

mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::random::Random;
use async_trait::async_trait;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::error::Error;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};
use stream::{Path, direction};

/// Streams that wait to be accepted at most.
const WAITING: usize = 1024;
/// After so long in front of a cut a new stream is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How one direction between two nodes is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Link {
    /// One way.
    pub latency: Duration,
    /// Up to so much more, by chance.
    pub jitter: Duration,
    /// In a thousand frames so many are lost, and come after three round trips.
    pub loss_per_mille: u32,
    /// `None` for no limit.
    pub bytes_per_second: Option<u64>,
}

/// A network of nodes in this process.
pub struct SimulatedNetwork {
    random: Arc<dyn Random>,
    state: Mutex<State>,
    /// Tells, in the order in which they wait, that something broke or healed. (A `watch` would
    /// wake them in random order.)
    changes: Notify,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<NodeId, Node>,
    default_link: Link,
    links: BTreeMap<(NodeId, NodeId), Link>,
    cuts: BTreeSet<(NodeId, NodeId)>,
    frames: BTreeMap<(NodeId, NodeId), u64>,
    busy_until: BTreeMap<(NodeId, NodeId), Instant>,
    /// How many streams still break as they are opened.
    breaking: BTreeMap<(NodeId, NodeId), u32>,
}

/// A node that is up.
struct Node {
    /// Tells runs of it apart.
    run: u64,
    incoming: mpsc::Sender<Incoming>,
}

impl SimulatedNetwork {
    /// A network without nodes, whose links cost nothing.
    pub fn new(random: Arc<dyn Random>) -> Arc<SimulatedNetwork> {
        Arc::new(SimulatedNetwork {
            random,
            state: Mutex::default(),
            changes: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changes.notify_waiters();
    }

    /// A node's transport. For a node that is up already this is a restart: its streams break.
    pub fn node(self: &Arc<Self>, id: NodeId) -> Arc<SimulatedTransport> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let run = self.random.next_u64();
        let node = Node {
            run,
            incoming: sender,
        };
        self.change(|state| {
            state.nodes.insert(id, node);
        });
        Arc::new(SimulatedTransport {
            id,
            run,
            network: self.clone(),
            incoming: tokio::sync::Mutex::new(receiver),
        })
    }

    /// How all links are that were not set.
    pub fn set_default_link(&self, link: Link) {
        self.change(|state| state.default_link = link);
    }

    /// Sets one direction.
    pub fn set_link(&self, from: NodeId, to: NodeId, link: Link) {
        self.change(|state| {
            state.links.insert((from, to), link);
        });
    }

    /// Cuts one direction.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.change(|state| {
            state.cuts.insert((from, to));
        });
    }

    /// Heals one direction.
    pub fn heal(&self, from: NodeId, to: NodeId) {
        self.change(|state| {
            state.cuts.remove(&(from, to));
        });
    }

    /// Heals all.
    pub fn heal_all(&self) {
        self.change(|state| state.cuts.clear());
    }

    /// The next so many streams that `from` opens to `to` break at once, as if the connection were closed at that moment.
    pub fn break_next(&self, from: NodeId, to: NodeId, streams: u32) {
        self.change(|state| {
            state.breaking.insert((from, to), streams);
        });
    }

    /// Whether a stream that is opened now breaks.
    fn breaks(&self, from: NodeId, to: NodeId) -> bool {
        let mut state = self.state();
        let left = state.breaking.get_mut(&(from, to));
        match left.filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                true
            }
            None => false,
        }
    }

    /// A node is gone, and its streams break.
    pub fn crash(&self, id: NodeId) {
        self.change(|state| {
            state.nodes.remove(&id);
        });
    }

    /// Frames sent so far, by direction.
    pub fn frames(&self) -> BTreeMap<(NodeId, NodeId), u64> {
        self.state().frames.clone()
    }

    /// Ends with the next change from now on.
    fn changed(&self) -> Notified<'_> {
        self.changes.notified()
    }

    fn run_of(&self, id: &NodeId) -> Option<u64> {
        self.state().nodes.get(id).map(|node| node.run)
    }

    /// When a frame sent now is there.
    fn arrival(&self, from: NodeId, to: NodeId, bytes: usize) -> Instant {
        let (chance, lost) = (self.random.next_u64(), self.random.next_u64() % 1000);
        let mut state = self.state();
        *state.frames.entry((from, to)).or_default() += 1;
        let link = state.links.get(&(from, to)).copied();
        let link = link.unwrap_or(state.default_link);
        let mut departure = Instant::now();
        if let Some(rate) = link.bytes_per_second {
            let busy = state.busy_until.entry((from, to)).or_insert(departure);
            let micros = bytes as u64 * 1_000_000 / rate.max(1);
            *busy = (*busy).max(departure) + Duration::from_micros(micros);
            departure = *busy;
        }
        let jitter = link.jitter.as_micros() as u64;
        let mut late = link.latency + Duration::from_micros(chance % (jitter + 1));
        if lost < link.loss_per_mille.into() {
            late += 6 * link.latency;
        }
        departure + late
    }
}

/// A node's side of a [`SimulatedNetwork`].
pub struct SimulatedTransport {
    id: NodeId,
    run: u64,
    network: Arc<SimulatedNetwork>,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
}

#[async_trait]
impl Transport for SimulatedTransport {
    fn local(&self) -> NodeId {
        self.id
    }

    async fn open(&self, peer: &Peer, _: Class) -> Result<Stream, Error> {
        let unreachable = |why: &str| Error::Unreachable(peer.id, why.into());
        let (here, there) = (self.id, peer.id);
        if self.network.run_of(&here) != Some(self.run) {
            return Err(Error::Closed);
        }
        if self.network.breaks(here, there) {
            return Err(Error::Broken(there, "the connection is closed".into()));
        }
        let found = {
            let state = self.network.state();
            let cut = state.cuts.contains(&(here, there)) || state.cuts.contains(&(there, here));
            let node = state.nodes.get(&there);
            node.map(|node| (cut, node.run, node.incoming.clone()))
        };
        let (run, incoming) = match found {
            Some((false, run, incoming)) => (run, incoming),
            Some((true, ..)) => {
                tokio::time::sleep(CONNECT_TIMEOUT).await;
                return Err(unreachable("no answer"));
            }
            None => return Err(unreachable("nobody listens there")),
        };
        let path = |from, to, runs| Path {
            network: self.network.clone(),
            from,
            to,
            runs,
        };
        let (send, their_receive) = direction(path(here, there, (self.run, run)));
        let (their_send, receive) = direction(path(there, here, (run, self.run)));
        let stream = Stream {
            send: their_send,
            receive: their_receive,
        };
        let offered = Incoming { from: here, stream };
        let full = |_| unreachable("it accepts nothing");
        incoming.try_send(offered).map_err(full)?;
        Ok(Stream { send, receive })
    }

    async fn accept(&self) -> Option<Incoming> {
        loop {
            let changed = self.network.changed();
            if self.network.run_of(&self.id) != Some(self.run) {
                return None;
            }
            let mut incoming = self.incoming.lock().await;
            tokio::select! {
                biased;
                next = incoming.recv() => return next,
                () = changed => {}
            }
        }
    }

    /// An address here is the node's id.
    async fn identify(&self, address: &str) -> Result<NodeId, Error> {
        let unknown = |why: &str| Error::NotFound(format!("{address}: {why}"));
        let id: NodeId = address.parse().map_err(|_| unknown("not an address"))?;
        match self.network.run_of(&id) {
            Some(_) => Ok(id),
            None => Err(unknown("nobody listens there")),
        }
    }

    fn statistics(&self) -> Vec<PeerStatistics> {
        let state = self.network.state();
        let to = state
            .frames
            .iter()
            .filter(|((from, _), _)| *from == self.id);
        to.map(|((_, peer), frames)| PeerStatistics {
            peer: *peer,
            streams: *frames,
            ..PeerStatistics::default()
        })
        .collect()
    }

    async fn close(&self) {
        if self.network.run_of(&self.id) == Some(self.run) {
            self.network.crash(self.id);
        }
    }
}
