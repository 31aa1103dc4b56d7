//! Nodes in one process, joined by links that delay, lose and cut frames: for simulation and tests.
//!
//! Time comes from tokio, where a test may pause it, and chance from a [`Random`], so that a run on
//! a single-threaded runtime repeats exactly. Streams are reliable, as with QUIC and TCP: a lost
//! frame arrives late, and a frame that meets a cut waits until the cut ends or the stream breaks.

mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::random::Random;
use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::error::Error;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};
use stream::{Path, direction};

/// The limit of streams that wait to be accepted.
const WAITING: usize = 1024;
/// A new stream that meets a cut is given up after this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A kept connection that meets a cut breaks after this long. Until then it takes new streams.
const SILENCE: Duration = Duration::from_secs(8);

/// The properties of one direction between two nodes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Link {
    /// The one-way latency.
    pub latency: Duration,
    /// The maximum random extra latency.
    pub jitter: Duration,
    /// Lost frames in a thousand. A lost frame arrives after three more round trips.
    pub loss_per_mille: u32,
    /// The bandwidth, or `None` for no limit.
    pub bytes_per_second: Option<u64>,
}

/// A network of nodes in this process.
pub struct SimulatedNetwork {
    random: Arc<dyn Random>,
    state: Mutex<NetworkState>,
    /// Notified when a cut began or ended. It wakes the waiting tasks in their order, while a
    /// `watch` would wake them in random order.
    changes: Notify,
}

#[derive(Default)]
struct NetworkState {
    nodes: BTreeMap<NodeId, Node>,
    default_link: Link,
    links: BTreeMap<(NodeId, NodeId), Link>,
    /// The directions that are cut, and since when.
    cuts: BTreeMap<(NodeId, NodeId), Instant>,
    /// True if nodes keep their connections.
    keeps_connections: bool,
    frames: BTreeMap<(NodeId, NodeId), u64>,
    busy_until: BTreeMap<(NodeId, NodeId), Instant>,
    /// The number of next streams that break when they are opened.
    breaking: BTreeMap<(NodeId, NodeId), u32>,
}

impl NetworkState {
    /// Returns true if a stream between two nodes cannot be opened because of a cut.
    fn is_cut_off(&self, one: NodeId, other: NodeId) -> bool {
        let cuts = [(one, other), (other, one)].map(|way| self.cuts.get(&way));
        let since = cuts.into_iter().flatten().min();
        since.is_some_and(|since| !self.keeps_connections || since.elapsed() >= SILENCE)
    }
}

/// A running node.
struct Node {
    /// A random id that tells the runs of a node apart.
    run: u64,
    incoming: mpsc::Sender<Incoming>,
}

impl SimulatedNetwork {
    /// Creates a network without nodes, whose links have no latency.
    pub fn new(random: Arc<dyn Random>) -> Arc<SimulatedNetwork> {
        Arc::new(SimulatedNetwork {
            random,
            state: Mutex::default(),
            changes: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, NetworkState> {
        self.state.lock()
    }

    fn change(&self, change: impl FnOnce(&mut NetworkState)) {
        change(&mut self.state());
        self.changes.notify_waiters();
    }

    /// Starts a node and returns its transport. A running node is restarted, and its streams break.
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

    /// Sets the properties of all links that have none of their own.
    pub fn set_default_link(&self, link: Link) {
        self.change(|state| state.default_link = link);
    }

    /// Sets the properties of one direction.
    pub fn set_link(&self, from: NodeId, to: NodeId, link: Link) {
        self.change(|state| {
            state.links.insert((from, to), link);
        });
    }

    /// Cuts one direction.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.change(|state| {
            state.cuts.entry((from, to)).or_insert_with(Instant::now);
        });
    }

    /// Lets all nodes keep their connections from now on, as with QUIC and TCP: streams are opened
    /// at once while the other end has been cut off for less than 8 s, although nothing arrives.
    pub fn keep_connections(&self) {
        self.change(|state| state.keeps_connections = true);
    }

    /// Ends all cuts.
    pub fn end_all_cuts(&self) {
        self.change(|state| state.cuts.clear());
    }

    /// Breaks the next `streams` streams that `from` opens to `to`, as if the connection closed at
    /// that moment.
    pub fn break_next(&self, from: NodeId, to: NodeId, streams: u32) {
        self.change(|state| {
            state.breaking.insert((from, to), streams);
        });
    }

    /// Returns true if a stream that is opened now breaks.
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

    /// Stops a node. Its streams break.
    pub fn crash(&self, id: NodeId) {
        self.change(|state| {
            state.nodes.remove(&id);
        });
    }

    /// Returns the number of frames sent, by direction.
    pub fn frames(&self) -> BTreeMap<(NodeId, NodeId), u64> {
        self.state().frames.clone()
    }

    /// Returns a future that completes at the next change.
    fn changed(&self) -> Notified<'_> {
        self.changes.notified()
    }

    fn run_of(&self, id: &NodeId) -> Option<u64> {
        self.state().nodes.get(id).map(|node| node.run)
    }

    /// Returns the arrival time of a frame that is sent now.
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

/// The transport of one node of a [`SimulatedNetwork`].
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
            let cut = state.is_cut_off(here, there);
            let node = state.nodes.get(&there);
            node.map(|node| (cut, node.run, node.incoming.clone()))
        };
        let (run, incoming) = match found {
            Some((false, run, incoming)) => (run, incoming),
            Some((true, ..)) => {
                tokio::time::sleep(CONNECT_TIMEOUT).await;
                return Err(unreachable("no answer"));
            }
            None => return Err(unreachable("no node listens there")),
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
        let full = |_| unreachable("the node accepts nothing");
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

    /// Parses the address, which is the node's id in a simulated network.
    async fn identify(&self, address: &str) -> Result<NodeId, Error> {
        let unknown = |why: &str| Error::NotFound(format!("{address}: {why}"));
        let id: NodeId = address.parse().map_err(|_| unknown("not an address"))?;
        match self.network.run_of(&id) {
            Some(_) => Ok(id),
            None => Err(unknown("no node listens there")),
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
