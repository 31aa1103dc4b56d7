//! The network driven by the clock and by TUN devices: one thread that reads packets, delays them
//! as their link requires, and delivers them. It runs with a higher priority than ordinary threads,
//! so that its delays hold on a busy machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::lab::Names;
use crate::link::Nanos;
use crate::network::{Network, Sent};
use crate::sys;
use crate::topology::Topology;

/// The limit of packets read from one device before the others have their turn.
const TURN: usize = 64;
const IPV4_HEADER: usize = 20;
/// The interval at which the relay asks whether it should go on.
const ASK_AFTER: Nanos = 250_000_000;

/// The network, shared with readers and the control.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Network>>);

impl Shared {
    /// Locks the network. The relay waits meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Network> {
        self.0.lock()
    }
}

/// The devices and the network, before they run.
pub struct Relay {
    devices: Vec<File>,
    shared: Shared,
    buffer: Vec<u8>,
}

impl Relay {
    /// Creates the device of each node in its namespace, which must exist.
    pub fn open(topology: &Topology, names: &Names) -> io::Result<Self> {
        let nodes = topology.nodes();
        let open = |node: &str| sys::within(&names.namespace(node), sys::open_tun);
        let devices: io::Result<_> = nodes.iter().map(|node| open(&node.name)).collect();
        Ok(Self {
            devices: devices?,
            shared: Shared(Arc::new(Mutex::new(Network::new(topology)))),
            buffer: vec![0; usize::from(u16::MAX)],
        })
    }

    /// Returns the network of the relay.
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Carries packets until `goes_on` returns false, which is called a few times a second, or
    /// until a device is gone.
    pub fn run(mut self, goes_on: impl Fn() -> bool) -> io::Result<()> {
        sys::hurry();
        let poll = self.poll()?;
        let mut events = Vec::with_capacity(64);
        let mut asked = sys::now();
        loop {
            if sys::now() - asked > ASK_AFTER {
                asked = sys::now();
                if !goes_on() {
                    return Ok(());
                }
            }
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&poll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.hand_on()?;
            for event in &events {
                self.take(event.data.u64() as usize)?;
            }
        }
    }

    fn poll(&self) -> io::Result<OwnedFd> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, device) in self.devices.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&poll, device, data, epoll::EventFlags::IN)?;
        }
        Ok(poll)
    }

    /// Returns the time until the next packet is due, at most a quarter of a second.
    fn timeout(&self) -> Timespec {
        let now = sys::now();
        let next = self.shared.lock().next_due();
        let wait: Nanos = next.map_or(Nanos::MAX, |due| due.saturating_sub(now));
        Timespec {
            tv_sec: 0,
            tv_nsec: wait.min(ASK_AFTER) as i64,
        }
    }

    /// Delivers the packets that have arrived.
    fn hand_on(&mut self) -> io::Result<()> {
        let mut network = self.shared.lock();
        let now = sys::now();
        while let Some(flight) = network.arrive(now) {
            deliver(self.devices.get(flight.to), &flight.packet)?;
            network.recycle(flight);
        }
        Ok(())
    }

    /// Reads the packets of a node, up to one turn.
    fn take(&mut self, from: usize) -> io::Result<()> {
        let Some(mut device) = self.devices.get(from) else {
            return Ok(());
        };
        let mut network = self.shared.lock();
        for _ in 0..TURN {
            let length = match device.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let packet = &self.buffer[..length];
            let to = target(packet).and_then(Names::number);
            let Some(to) = to.filter(|to| *to < self.devices.len()) else {
                continue;
            };
            if network.send(sys::now(), from, to, packet) == Sent::Now {
                deliver(self.devices.get(to), packet)?;
            }
        }
        Ok(())
    }
}

/// Returns the destination of an IP version 4 packet, and `None` for other packets.
fn target(packet: &[u8]) -> Option<Ipv4Addr> {
    let is_ipv4 = packet.len() >= IPV4_HEADER && packet[0] >> 4 == 4;
    let bytes: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    is_ipv4.then(|| bytes.into())
}

/// Delivers a packet to a node. A node whose interface is down drops it, as in any network.
fn deliver(device: Option<&File>, packet: &[u8]) -> io::Result<()> {
    let Some(mut device) = device else {
        return Ok(());
    };
    match device.write(packet) {
        Ok(_) => Ok(()),
        Err(error) if is_refusal(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    let refusals = [libc::EIO, libc::ENOBUFS, libc::EAGAIN, libc::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|code| refusals.contains(&code))
}
