//! Streams of a simulated network.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::SimulatedNetwork;
use crate::error::Error;
use crate::transport::{Class, MAX_FRAME_BYTES, ReceiveFrames, SendFrames};

/// The limit of frames of one stream under way.
const IN_FLIGHT: usize = 8;
/// A stream that meets a cut breaks after this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// One direction of a stream.
#[derive(Clone)]
pub(super) struct Path {
    pub network: Arc<SimulatedNetwork>,
    pub from: NodeId,
    pub to: NodeId,
    /// The runs of both nodes that the stream belongs to.
    pub runs: (u64, u64),
}

impl Path {
    /// Returns true if both nodes are still in the same runs.
    fn stands(&self) -> bool {
        let runs = (
            self.network.run_of(&self.from),
            self.network.run_of(&self.to),
        );
        runs == (Some(self.runs.0), Some(self.runs.1))
    }

    fn is_cut(&self) -> bool {
        let way = (self.from, self.to);
        self.network.state().cuts.contains_key(&way)
    }

    fn broken(&self, peer: NodeId) -> Error {
        Error::Broken(peer, "the stream broke".into())
    }
}

enum Item {
    Frame(Bytes),
    End,
}

struct Sender {
    path: Path,
    items: mpsc::Sender<(Instant, Item)>,
    last: Instant,
}

struct Receiver {
    path: Path,
    items: mpsc::Receiver<(Instant, Item)>,
    /// An item that left the queue but has not arrived yet.
    next: Option<(Instant, Item)>,
    ended: bool,
}

impl Sender {
    async fn put(&mut self, item: Item) -> Result<(), Error> {
        let peer = self.path.to;
        if !self.path.stands() {
            return Err(self.path.broken(peer));
        }
        let bytes = match &item {
            Item::Frame(frame) => frame.len(),
            Item::End => 0,
        };
        let network = &self.path.network;
        // The end arrives together with the last frame.
        let arrival = match item {
            Item::Frame(_) => network.arrival(self.path.from, peer, bytes),
            Item::End => self.last,
        };
        self.last = self.last.max(arrival);
        let mut sending = std::pin::pin!(self.items.send((self.last, item)));
        loop {
            let changed = network.changed();
            if !self.path.stands() {
                return Err(self.path.broken(peer));
            }
            tokio::select! {
                biased;
                sent = &mut sending => return sent.map_err(|_| self.path.broken(peer)),
                () = changed => {}
            }
        }
    }
}

#[async_trait]
impl SendFrames for Sender {
    async fn send(&mut self, frame: Bytes) -> Result<(), Error> {
        if frame.len() > MAX_FRAME_BYTES {
            let why = format!("a frame of {} bytes", frame.len());
            return Err(Error::Protocol(self.path.to, why));
        }
        self.put(Item::Frame(frame)).await
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.put(Item::End).await
    }

    fn set_class(&mut self, _: Class) {}
}

impl Receiver {
    /// Waits until the next item arrives.
    async fn arrive(&mut self) -> Result<Item, Error> {
        let peer = self.path.from;
        let network = self.path.network.clone();
        let mut cut_deadline: Option<Instant> = None;
        loop {
            let changed = network.changed();
            if !self.path.stands() {
                return Err(self.path.broken(peer));
            }
            let cut = self.path.is_cut();
            let wake = match (&self.next, cut) {
                (_, true) => Some(*cut_deadline.get_or_insert(Instant::now() + IDLE_TIMEOUT)),
                (Some((arrival, _)), false) => Some(*arrival),
                (None, false) => None,
            };
            if !cut {
                cut_deadline = None;
            }
            tokio::select! {
                biased;
                () = changed => {}
                item = self.items.recv(), if self.next.is_none() => match item {
                    Some(item) => self.next = Some(item),
                    None => return Err(self.path.broken(peer)),
                },
                () = sleep_until(wake), if wake.is_some() => {
                    if cut {
                        return Err(self.path.broken(peer));
                    }
                    if let Some((_, item)) = self.next.take() {
                        return Ok(item);
                    }
                }
            }
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    if let Some(wake) = wake {
        tokio::time::sleep_until(wake).await;
    }
}

#[async_trait]
impl ReceiveFrames for Receiver {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        if self.ended {
            return Ok(None);
        }
        Ok(match self.arrive().await? {
            Item::Frame(frame) => Some(frame),
            Item::End => {
                self.ended = true;
                None
            }
        })
    }
}

pub(super) fn direction(path: Path) -> (Box<dyn SendFrames>, Box<dyn ReceiveFrames>) {
    let (sender, receiver) = mpsc::channel(IN_FLIGHT);
    let send = Sender {
        path: path.clone(),
        items: sender,
        last: Instant::now(),
    };
    let receive = Receiver {
        path,
        items: receiver,
        next: None,
        ended: false,
    };
    (Box::new(send), Box::new(receive))
}
