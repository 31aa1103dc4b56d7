//! The door: how many connections that have proven nothing are open at once, and whose.
//!
//! Strangers and members have rooms of their own, so that no flood of strangers keeps a member out.
//! A member is known by its address: a connection from there or to there has proven the secret.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

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
#[derive(Default)]
pub(super) struct Door(Mutex<State>);

#[derive(Default)]
struct State {
    /// The unproven connections of each address.
    open: HashMap<IpAddr, usize>,
    strangers: usize,
    members: usize,
    /// The addresses that have proven the secret, each with the number of its last proof.
    proven: HashMap<IpAddr, u64>,
    proofs: u64,
}

/// The permission to prove the secret. The room is free again once it is dropped.
pub(super) struct Pass {
    door: Arc<Door>,
    origin: IpAddr,
    is_member: bool,
}

/// Returns the address for which connections are counted: of IPv6 the network, because one host may
/// have all addresses of it.
fn origin(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(whole) => Ipv6Addr::from_bits(whole.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl State {
    /// Returns the number of unproven connections of members, or of strangers.
    fn room(&mut self, of_members: bool) -> &mut usize {
        match of_members {
            true => &mut self.members,
            false => &mut self.strangers,
        }
    }
}

impl Door {
    /// Returns the permission for a connection from there, or `None` if there is no room.
    pub fn enter(self: &Arc<Door>, from: SocketAddr) -> Option<Pass> {
        let origin = origin(from);
        let mut state = self.0.lock();
        let is_member = state.proven.contains_key(&origin);
        let of_one = state.open.get(&origin).copied().unwrap_or_default();
        if *state.room(is_member) >= ROOM || of_one >= ROOM_OF_ONE {
            return None;
        }
        *state.room(is_member) += 1;
        state.open.insert(origin, of_one + 1);
        Some(Pass {
            door: self.clone(),
            origin,
            is_member,
        })
    }

    /// Returns true if so many connections have proven nothing that a further one must show first
    /// that it comes from where it says.
    pub fn is_busy(&self) -> bool {
        let state = self.0.lock();
        state.strangers + state.members >= BUSY
    }

    /// Notes that a connection with this address has proven the secret.
    pub fn proven(&self, address: SocketAddr) {
        let mut state = self.0.lock();
        state.proofs += 1;
        let proof = state.proofs;
        state.proven.insert(origin(address), proof);
        if state.proven.len() > REMEMBERED {
            let oldest = state.proven.iter().min_by_key(|(_, proof)| **proof);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                state.proven.remove(&oldest);
            }
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.door.0.lock();
        *state.room(self.is_member) -= 1;
        if let Some(of_one) = state.open.get_mut(&self.origin) {
            *of_one -= 1;
            if *of_one == 0 {
                state.open.remove(&self.origin);
            }
        }
    }
}
