//! Connections and HTTP/2 requests by address, so that one address cannot take the places of all
//! others.
//!
//! A client can take any address of its network of IPv6, so the network (/64) counts as one
//! address. But providers give each customer a /56 or a /48: 256 or 65,536 such networks. RFC 6177
//! calls that a site. So a /48 has at most twice the places of one address: half of all places, by
//! default. Not fewer, because a provider may give a /48 to several customers, or a company may
//! have many clients in it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Limits;

/// The bits of an IPv6 address that name its network. Clients choose the others.
const NETWORK_BITS: u32 = 64;
/// The bits of an IPv6 address that name its site. No customer of a provider chooses them.
const SITE_BITS: u32 = 48;
/// The limit of a site, as a multiple of that of an address.
pub(super) const TIMES_OF_SITE: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// The open connections, or the HTTP/2 requests in progress, by address. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Addresses(Arc<Inner>);

struct Inner {
    limits: Limits,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    addresses: HashMap<IpAddr, usize>,
    sites: HashMap<IpAddr, usize>,
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

    /// Returns a place for one more from this address; `None` if the address or its site has too
    /// many already.
    pub fn place(&self, peer: IpAddr) -> Option<AddressPlace> {
        let address = counted_as(peer);
        let limits = &self.0.limits;
        if address.is_loopback() && limits.spares_loopback || limits.proxies.trust(peer) {
            return Some(AddressPlace(None));
        }
        let (most, site) = (limits.connections_per_address, site_of(address));
        let mut open = self.0.open.lock();
        let opened =
            |counts: &HashMap<IpAddr, usize>, at: &IpAddr| counts.get(at).copied().unwrap_or(0);
        let is_full = opened(&open.addresses, &address) >= most;
        let most_of_site = most.saturating_mul(TIMES_OF_SITE.get() as usize);
        if is_full || site.is_some_and(|site| opened(&open.sites, &site) >= most_of_site) {
            return None;
        }
        *open.addresses.entry(address).or_default() += 1;
        if let Some(site) = site {
            *open.sites.entry(site).or_default() += 1;
        }
        Some(AddressPlace(Some((self.clone(), address))))
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some((addresses, address)) = &self.0 else {
            return;
        };
        let mut open = addresses.0.open.lock();
        free(&mut open.addresses, *address);
        if let Some(site) = site_of(*address) {
            free(&mut open.sites, site);
        }
    }
}

fn free(counts: &mut HashMap<IpAddr, usize>, at: IpAddr) {
    if let Some(count) = counts.get_mut(&at) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&at);
        }
    }
}

/// Returns the address that a connection counts for: of IPv6 the network, because a client can take
/// any address in it.
pub(super) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => first_of(v6, NETWORK_BITS),
        other => other,
    }
}

/// Returns the site that a connection counts for, too, by the address that it counts for; `None` if
/// this is of IPv4.
pub(super) fn site_of(counted: IpAddr) -> Option<IpAddr> {
    match counted {
        IpAddr::V6(v6) => Some(first_of(v6, SITE_BITS)),
        IpAddr::V4(_) => None,
    }
}

/// Returns the first address of a network with this many bits.
fn first_of(address: Ipv6Addr, bits: u32) -> IpAddr {
    let mask = u128::MAX << (128 - bits);
    IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
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
        assert!(all.0.open.lock().addresses.is_empty());
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

    /// One customer of a provider may have a /56 or a /48: enough networks to take all places.
    #[test]
    fn networks_of_one_site_have_twice_the_places_of_an_address() {
        let all = addresses(true);
        let place = |text: &str| all.place(text.parse().unwrap());
        let networks = (0..256).map(|n| place(&format!("2001:db8:1:ff{n:02x}::1")));
        let held: Vec<_> = networks.flatten().collect();
        assert_eq!(held.len(), 4);
        assert!(place("2001:db8:1:1::1").is_none());
        let other = place("2001:db8:2:ff00::1");
        assert!(other.is_some());
        drop(held);
        assert!(place("2001:db8:1:1::1").is_some());
        drop(other);
        let open = all.0.open.lock();
        assert!(open.addresses.is_empty() && open.sites.is_empty());
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
