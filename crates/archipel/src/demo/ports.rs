//! The ports of a demo's nodes.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;

use archipel_base::random::{Random, SystemRandom};

/// Where ports for traffic between nodes are looked for: below those that Linux gives out to
/// programs that ask for any.
const PORTS: Range<u16> = 20_000..32_000;

/// The distances of the ports of websites, of K2V and of the console from that of S3.
const WEB_PORTS: u16 = 100;
const K2V_PORTS: u16 = 200;
const CONSOLE_PORTS: u16 = 300;

/// Returns the port for websites of a node with this port for S3. 0 is any free one.
pub fn web(s3: u16) -> u16 {
    port_above(s3, WEB_PORTS)
}

/// Returns the port for K2V of a node with this port for S3. 0 is any free one.
pub fn k2v(s3: u16) -> u16 {
    port_above(s3, K2V_PORTS)
}

/// Returns the port for the console of a node with this port for S3. 0 is any free one.
pub fn console(s3: u16) -> u16 {
    port_above(s3, CONSOLE_PORTS)
}

fn port_above(s3: u16, by: u16) -> u16 {
    match s3 {
        0 => 0,
        port => port.checked_add(by).unwrap_or(0),
    }
}

/// Returns a loopback address whose port is free for UDP and TCP.
///
/// The plan keeps it while its node is down. A port that the system gives out could be another
/// program's by then.
pub fn free_address(taken: &[SocketAddr]) -> std::io::Result<SocketAddr> {
    for _ in 0..1000 {
        let spread = SystemRandom.next_u64() % u64::from(PORTS.end - PORTS.start);
        let address = SocketAddr::from(([127, 0, 0, 1], PORTS.start + spread as u16));
        match UdpSocket::bind(address).and_then(|_| TcpListener::bind(address)) {
            Ok(_) if !taken.contains(&address) => return Ok(address),
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_port_is_none_that_the_system_gives_out() {
        for _ in 0..50 {
            let address = free_address(&[]).unwrap();
            assert!(address.port() < 32_768, "{address}");
        }
    }
}
