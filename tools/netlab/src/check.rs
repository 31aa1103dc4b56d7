//! Measurement of a lab: its real behaviour beside the requested one, and the limits of the relay
//! on this machine.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use serde::Serialize;

use crate::lab::Lab;
use crate::link::{Nanos, Quality};
use crate::{Outcome, sys};

const PORT: u16 = 7007;
const PROBE_BYTES: usize = 1200;
const HEADERS_BYTES: usize = 28;
/// Longer than any packet takes in a check.
const LAST: Duration = Duration::from_millis(1500);

/// One direction between two nodes, requested and observed.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// The sending node and the receiving node.
    pub between: [String; 2],
    /// The requested quality of this direction.
    pub asked: Quality,
    /// The requested round trip, in milliseconds.
    pub asked_rtt_ms: f64,
    /// The average round trip.
    pub rtt_ms: f64,
    /// The shortest round trip and the longest.
    pub range_ms: [f64; 2],
    /// The standard deviation of the round trips.
    pub deviation_ms: f64,
    /// The share of packets lost in this direction.
    pub loss: f64,
    /// The bandwidth at a load of one and a half times the rate, in Mbit/s.
    pub rate_mbit: Option<f64>,
}

/// Measures the direction from one node to another.
pub fn observe(lab: &Lab, from: &str, to: &str, probes: u32) -> Outcome<Observed> {
    let nodes = lab.topology.nodes();
    let node = |name: &str| {
        nodes
            .iter()
            .find(|node| node.name == name)
            .ok_or("no such node")
    };
    let asked = lab.topology.link(node(from)?, node(to)?);
    let back = lab.topology.link(node(to)?, node(from)?);
    let mut trips = round_trips(lab, from, to, probes)?;
    trips.sort_by(f64::total_cmp);
    let mean = trips.iter().sum::<f64>() / trips.len() as f64;
    let variance = trips.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / trips.len() as f64;
    let slow = asked.rate_bits > 0 && asked.rate_bits < 1_000_000_000;
    Ok(Observed {
        between: [from.to_owned(), to.to_owned()],
        asked,
        asked_rtt_ms: (asked.latency + back.latency) as f64 / 1e6,
        rtt_ms: mean,
        range_ms: [
            trips.first().copied().unwrap_or(f64::NAN),
            trips.last().copied().unwrap_or(f64::NAN),
        ],
        deviation_ms: variance.sqrt(),
        loss: lost(lab, from, to)?,
        rate_mbit: if slow {
            Some(flood(lab, from, to, asked.rate_bits)?)
        } else {
            None
        },
    })
}

/// Measures one TCP connection between two nodes over the relay. Returns the bytes and the seconds.
pub fn bulk(lab: &Lab, from: &str, to: &str, time: Duration) -> Outcome<(u64, f64)> {
    let address = SocketAddr::from((lab.address(to)?, PORT));
    let listener = within(lab, to, move || TcpListener::bind(address))?;
    let mut sender = within(lab, from, move || TcpStream::connect(address))?;
    let (mut receiver, _) = listener.accept()?;
    let began = sys::now();
    let end = began + time.as_nanos() as u64;
    let sends = std::thread::spawn(move || -> io::Result<()> {
        let bytes = vec![7; 256 << 10];
        while sys::now() < end {
            sender.write_all(&bytes)?;
        }
        Ok(())
    });
    let (mut buffer, mut received) = (vec![0; 256 << 10], 0);
    loop {
        match receiver.read(&mut buffer)? {
            0 => break,
            length => received += length as u64,
        }
    }
    sends.join().map_err(|_| "the sender panicked")??;
    Ok((received, (sys::now() - began) as f64 / 1e9))
}

/// Returns the round trips in milliseconds of the probes that came back. Probes are 20 ms apart,
/// and an echo answers them.
pub fn round_trips(lab: &Lab, from: &str, to: &str, probes: u32) -> Outcome<Vec<f64>> {
    let (near, far) = sockets(lab, from, to)?;
    let target = far.local_addr()?;
    // The echo ends by itself when no more packets arrive.
    std::thread::spawn(move || {
        sys::hurry();
        let mut buffer = [0; PROBE_BYTES];
        while let Ok((length, who)) = far.recv_from(&mut buffer) {
            let _ = far.send_to(&buffer[..length], who);
        }
    });
    let sender = near.try_clone()?;
    let sends = std::thread::spawn(move || -> io::Result<()> {
        sys::hurry();
        for _ in 0..probes {
            sender.send_to(&sys::now().to_le_bytes(), target)?;
            sys::pause(Duration::from_millis(20));
        }
        Ok(())
    });
    sys::hurry();
    let mut trips = Vec::new();
    let mut buffer = [0; 8];
    while trips.len() < probes as usize && near.recv(&mut buffer).is_ok() {
        trips.push((sys::now() - Nanos::from_le_bytes(buffer)) as f64 / 1e6);
    }
    sends.join().map_err(|_| "the sender panicked")??;
    Ok(trips)
}

/// Returns the share of 4000 small packets that is lost.
fn lost(lab: &Lab, from: &str, to: &str) -> Outcome<f64> {
    const COUNT: u32 = 4000;
    let (near, far) = sockets(lab, from, to)?;
    let target = far.local_addr()?;
    let counts = std::thread::spawn(move || count(&far));
    for number in 0..COUNT {
        near.send_to(&[0], target)?;
        if number % 8 == 7 {
            sys::pause(Duration::from_millis(2));
        }
    }
    let arrived = counts.join().map_err(|_| "the counter panicked")?;
    Ok(1.0 - f64::from(arrived.packets) / f64::from(COUNT))
}

/// Returns the bandwidth of three seconds of traffic at one and a half times the rate.
fn flood(lab: &Lab, from: &str, to: &str, rate_bits: u64) -> Outcome<f64> {
    let (near, far) = sockets(lab, from, to)?;
    let target = far.local_addr()?;
    let counts = std::thread::spawn(move || count(&far));
    let bits = (PROBE_BYTES + HEADERS_BYTES) as u64 * 8;
    let began = sys::now();
    let mut sent = 0;
    loop {
        let elapsed = sys::now() - began;
        if elapsed > 3_000_000_000 {
            break;
        }
        let should =
            (u128::from(elapsed) * u128::from(rate_bits) * 3 / 2 / 1_000_000_000) as u64 / bits;
        while sent < should {
            near.send_to(&[0; PROBE_BYTES], target)?;
            sent += 1;
        }
        sys::pause(Duration::from_micros(500));
    }
    let arrived = counts.join().map_err(|_| "the counter panicked")?;
    let seconds = (arrived.last - arrived.first) as f64 / 1e9;
    let bits = u64::from(arrived.packets.saturating_sub(1)) * bits;
    Ok(bits as f64 / seconds / 1e6)
}

struct Arrived {
    packets: u32,
    first: Nanos,
    last: Nanos,
}

/// Counts packets until none has arrived for a while.
fn count(socket: &UdpSocket) -> Arrived {
    sys::hurry();
    let mut arrived = Arrived {
        packets: 0,
        first: 0,
        last: 0,
    };
    let mut buffer = [0; PROBE_BYTES];
    while socket.recv(&mut buffer).is_ok() {
        arrived.last = sys::now();
        if arrived.packets == 0 {
            arrived.first = arrived.last;
        }
        arrived.packets += 1;
    }
    arrived
}

fn sockets(lab: &Lab, from: &str, to: &str) -> Outcome<(UdpSocket, UdpSocket)> {
    let bind = |node: &str| {
        let address: Ipv4Addr = lab.address(node)?;
        let socket = within(lab, node, move || UdpSocket::bind((address, 0)))?;
        socket.set_read_timeout(Some(LAST))?;
        Outcome::Ok(socket)
    };
    Ok((bind(from)?, bind(to)?))
}

fn within<T: Send>(
    lab: &Lab,
    node: &str,
    run: impl FnOnce() -> io::Result<T> + Send,
) -> Outcome<T> {
    Ok(sys::within(&lab.names().namespace(node), run)?)
}
