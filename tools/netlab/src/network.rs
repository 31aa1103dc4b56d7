//! All links of a network, and the packets on their way. No clock, no devices: time is an argument.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::link::{Fate, Link, Nanos, mix};
use crate::topology::{Node, Topology};

#[cfg(test)]
mod tests;

/// The most that may be on its way, all links together.
pub const MAX_AIR_BYTES: usize = 512 << 20;

/// Buffers are kept for packets up to this size, and for larger ones apart.
const SMALL: usize = 2048;
/// How many buffers of a kind are kept while nobody needs them.
const KEPT: usize = 4096;

/// The network's state.
pub struct Network {
    nodes: Vec<Node>,
    links: Vec<Link>,
    in_air: Vec<u32>,
    air: BinaryHeap<Flight>,
    air_bytes: usize,
    overflows: u64,
    serial: u64,
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

/// What is to be done with a packet that entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Hand it on at once; nothing was kept.
    Now,
    /// It is on its way.
    Later,
    /// It is lost.
    Lost,
}

/// A packet on its way.
#[derive(Debug)]
pub struct Flight {
    due: Nanos,
    serial: u64,
    link: usize,
    /// The number of the node it goes to.
    pub to: usize,
    /// The packet.
    pub packet: Vec<u8>,
}

impl Network {
    /// A network without traffic.
    pub fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes();
        let mut links = Vec::with_capacity(nodes.len() * nodes.len());
        for from in &nodes {
            for to in &nodes {
                let seed = mix(topology.seed).wrapping_add(mix(links.len() as u64));
                links.push(Link::new(topology.link(from, to), seed));
            }
        }
        Self {
            in_air: vec![0; links.len()],
            nodes,
            links,
            air: BinaryHeap::new(),
            air_bytes: 0,
            overflows: 0,
            serial: 0,
            small: Vec::new(),
            large: Vec::new(),
        }
    }

    /// All nodes; the place is the number.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The link from one node to another, by their numbers, which must exist.
    pub fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.nodes.len() + to]
    }

    /// The same, to be changed.
    pub fn link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from * self.nodes.len() + to]
    }

    /// Packets lost because too much was on its way.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// A packet enters at `from`; both numbers must exist, and what is due must have been taken by [`Self::arrive`].
    pub fn send(&mut self, now: Nanos, from: usize, to: usize, packet: &[u8]) -> Sent {
        let number = from * self.nodes.len() + to;
        let Fate::Arrives(due) = self.links[number].send(now, packet.len() as u64) else {
            return Sent::Lost;
        };
        if due <= now && self.in_air[number] == 0 {
            return Sent::Now;
        }
        if self.air_bytes + packet.len() > MAX_AIR_BYTES {
            self.overflows += 1;
            return Sent::Lost;
        }
        let packet = self.keep(packet);
        self.air_bytes += packet.len();
        self.in_air[number] += 1;
        self.serial += 1;
        self.air.push(Flight {
            due,
            serial: self.serial,
            link: number,
            to,
            packet,
        });
        Sent::Later
    }

    /// When the next packet arrives.
    pub fn next_due(&self) -> Option<Nanos> {
        self.air.peek().map(|flight| flight.due)
    }

    /// A packet that has arrived by now; give it back to [`Self::recycle`].
    pub fn arrive(&mut self, now: Nanos) -> Option<Flight> {
        if self.next_due()? > now {
            return None;
        }
        let flight = self.air.pop()?;
        self.air_bytes -= flight.packet.len();
        self.in_air[flight.link] -= 1;
        Some(flight)
    }

    /// Takes a packet's memory back.
    pub fn recycle(&mut self, flight: Flight) {
        let is_large = flight.packet.capacity() > SMALL;
        let pool = if is_large {
            &mut self.large
        } else {
            &mut self.small
        };
        let kept = if is_large { KEPT / 8 } else { KEPT };
        if pool.len() < kept {
            pool.push(flight.packet);
        }
    }

    fn keep(&mut self, packet: &[u8]) -> Vec<u8> {
        let pool = if packet.len() > SMALL {
            &mut self.large
        } else {
            &mut self.small
        };
        let mut buffer = pool
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(packet.len().max(SMALL)));
        buffer.clear();
        buffer.extend_from_slice(packet);
        buffer
    }
}

/// Earliest first out of a heap that gives its greatest; those due together in the order they came.
impl Ord for Flight {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.serial).cmp(&(self.due, self.serial))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Flight {}
