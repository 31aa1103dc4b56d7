//! Admission: how many connections that have proven nothing are open at once, and whose.
//!
//! Strangers and members have rooms of their own, so that no flood of strangers keeps a member out.
//! A member is known by its address: a connection from there or to there has proven the secret.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::rooms::{Limits, Place, Rooms};

/// The most connections of strangers that have not proven the secret, and the most of members.
pub(super) const ROOM: usize = 64;
/// The most of either that come from one address.
pub(super) const ROOM_OF_ONE: usize = 32;
/// The number of unproven connections from which on addresses are validated first. It is above what
/// the nodes of a cluster need when all start at once.
const BUSY: usize = 16;
/// The most addresses of members that are remembered. The ones that proved the secret longest ago
/// are forgotten.
const REMEMBERED: usize = 1024;

/// Counts unproven connections.
pub(super) struct Admission {
    /// The unproven connections of each address.
    unproven: Arc<Rooms<IpAddr>>,
    proven: Mutex<Proven>,
}

#[derive(Default)]
struct Proven {
    /// The addresses that have proven the secret, each with the number of its last proof.
    addresses: HashMap<IpAddr, u64>,
    proofs: u64,
}

/// The permission to prove the secret. The room is free again once it is dropped.
pub(super) type Pass = Place<IpAddr>;

/// Returns the address for which connections are counted: of IPv6 the network, because one host may
/// have all addresses of it.
fn origin(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(whole) => Ipv6Addr::from_bits(whole.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl Default for Admission {
    fn default() -> Admission {
        let limits = Limits {
            all: ROOM,
            of_one: ROOM_OF_ONE,
        };
        Admission {
            unproven: Rooms::new(limits, limits),
            proven: Mutex::default(),
        }
    }
}

impl Admission {
    /// Returns the permission for a connection from there, or `None` if there is no room.
    pub fn enter(&self, from: SocketAddr) -> Option<Pass> {
        let origin = origin(from);
        let is_member = self.proven.lock().addresses.contains_key(&origin);
        self.unproven.enter(origin, is_member)
    }

    /// Returns true if so many connections have proven nothing that a further one must show first
    /// that it comes from where it says.
    pub fn is_busy(&self) -> bool {
        self.unproven.taken() >= BUSY
    }

    /// Notes that a connection with this address has proven the secret.
    pub fn proven(&self, address: SocketAddr) {
        let mut proven = self.proven.lock();
        proven.proofs += 1;
        let proof = proven.proofs;
        proven.addresses.insert(origin(address), proof);
        if proven.addresses.len() > REMEMBERED {
            let oldest = proven.addresses.iter().min_by_key(|(_, proof)| **proof);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                proven.addresses.remove(&oldest);
            }
        }
    }
}
