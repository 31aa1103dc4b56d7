//! Connections and HTTP/2 requests by address, so that one address cannot take the places of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Limits;

/// The bits of an IPv6 address that a customer of a provider cannot choose.
const NETWORK_BITS: u32 = 64;

/// The open connections, or the HTTP/2 requests in progress, by address. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Addresses(Arc<Inner>);

struct Inner {
    limits: Limits,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of a connection or a request. It is free again when this is dropped.
pub(crate) struct AddressPlace(Option<(Addresses, IpAddr)>);

impl Addresses {
    pub fn new(limits: Limits) -> Addresses {
        Addresses(Arc::new(Inner {
            limits,
            open: Mutex::default(),
        }))
    }

    /// Returns a place for one more from this address; `None` if the address has too many already.
    pub fn place(&self, peer: IpAddr) -> Option<AddressPlace> {
        let address = counted_as(peer);
        let limits = &self.0.limits;
        if address.is_loopback() && limits.spares_loopback || limits.proxies.trust(peer) {
            return Some(AddressPlace(None));
        }
        let mut open = self.0.open.lock();
        let count = open.entry(address).or_default();
        if *count >= self.0.limits.connections_per_address {
            return None;
        }
        *count += 1;
        Some(AddressPlace(Some((self.clone(), address))))
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some((addresses, address)) = &self.0 else {
            return;
        };
        let mut open = addresses.0.open.lock();
        if let Some(count) = open.get_mut(address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(address);
            }
        }
    }
}

/// Returns the address that a connection counts for: of IPv6 the network, because a client can take
/// any address in it.
pub(super) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let mask = u128::MAX << (128 - NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::Addresses;
    use crate::serve::Limits;

    fn addresses(spares_loopback: bool) -> Addresses {
        Addresses::new(Limits {
            connections_per_address: 2,
            spares_loopback,
            ..Limits::default()
        })
    }

    #[test]
    fn address_has_its_places_again_when_connections_end() {
        let all = addresses(true);
        let place = |text: &str| all.place(text.parse().unwrap());
        let (first, second) = (place("192.0.2.1").unwrap(), place("::ffff:192.0.2.1"));
        assert!(second.is_some() && place("192.0.2.1").is_none());
        assert!(place("192.0.2.2").is_some());
        drop(first);
        let third = place("192.0.2.1");
        assert!(third.is_some() && place("192.0.2.1").is_none());
        drop((second, third));
        assert!(all.0.open.lock().is_empty());
    }

    #[test]
    fn network_of_ipv6_counts_as_one_address() {
        let all = addresses(true);
        let place = |text: &str| all.place(text.parse().unwrap());
        let held = (place("2001:db8::1"), place("2001:db8::2"));
        assert!(place("2001:db8:0:0:ffff::3").is_none());
        assert!(place("2001:db8:0:1::1").is_some());
        drop(held);
    }

    #[test]
    fn loopback_may_be_spared() {
        for spares in [true, false] {
            let all = addresses(spares);
            let places: Vec<_> = (0..4)
                .map(|_| all.place("127.0.0.1".parse().unwrap()))
                .collect();
            assert_eq!(places.iter().flatten().count(), if spares { 4 } else { 2 });
        }
    }
}
