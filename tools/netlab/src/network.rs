//! All links of a network and the packets on their way. No clock, no devices: time is an argument.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::link::{Fate, Link, Nanos, mix};
use crate::topology::{Node, Topology};

#[cfg(test)]
mod tests;

/// The limit of bytes on their way over all links.
pub const MAX_AIR_BYTES: usize = 512 << 20;

/// The buffer size for small packets. Larger packets have separate buffers.
const SMALL: usize = 2048;
/// The limit of unused buffers of each kind.
const KEPT: usize = 4096;

/// A network with its state.
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

/// The treatment of a packet that entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Deliver it at once; the network has not kept it.
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
    /// The number of the receiving node.
    pub to: usize,
    /// The packet.
    pub packet: Vec<u8>,
}

impl Network {
    /// Creates a network without traffic.
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

    /// Returns all nodes; the index is the node's number.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the link between two nodes, by their numbers, which must exist.
    pub fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.nodes.len() + to]
    }

    /// Returns the link for changes.
    pub fn link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from * self.nodes.len() + to]
    }

    /// Returns the number of packets lost because too many were on their way.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Sends a packet from `from` to `to`. Both numbers must exist, and all due packets must have
    /// been taken by [`Self::arrive`].
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

    /// Returns the arrival time of the next packet.
    pub fn next_due(&self) -> Option<Nanos> {
        self.air.peek().map(|flight| flight.due)
    }

    /// Returns a packet that has arrived by now. Give it back with [`Self::recycle`].
    pub fn arrive(&mut self, now: Nanos) -> Option<Flight> {
        if self.next_due()? > now {
            return None;
        }
        let flight = self.air.pop()?;
        self.air_bytes -= flight.packet.len();
        self.in_air[flight.link] -= 1;
        Some(flight)
    }

    /// Takes a packet's buffer back.
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

/// Reverses the order, so that the heap returns the earliest packet first. Packets due at the same
/// time keep their order.
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
