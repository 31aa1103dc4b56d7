//! Requests a second by address and by user, so that one client cannot take the time of all others.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::addresses::{TIMES_OF_SITE, counted_as, site_of};

/// After so many requests, clients that were quiet for a while are forgotten. So memory is bounded
/// by the clients of a few seconds.
const REQUESTS_BETWEEN_CLEANINGS: usize = 10_000;

/// The requests a second of one address whose credentials may be refused at once. A client that
/// guesses keys, or only wants to keep the node busy, sends more.
const REFUSED_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// The look-ups a second that clients of one address may cause at once, by names of access keys and
/// tokens that the node does not know.
const LOOKED_UP_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// The pause before the refusals of further ones, and before further look-ups.
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// The rates of all clients of a node. Cheap to clone. By default there is no limit of requests.
#[derive(Clone)]
pub struct Rates(Arc<Inner>);

struct Inner {
    addresses: Option<AddressLimiter>,
    users: Option<Limiter<String>>,
    refused: AddressLimiter,
    looked_up: AddressLimiter,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates::new(None, None)
    }
}

/// Counts requests by address, and by the site of an address of IPv6.
struct AddressLimiter {
    addresses: Limiter<IpAddr>,
    sites: Limiter<IpAddr>,
}

struct Limiter<K: Hash + Eq + Clone> {
    limiter: RateLimiter<K, HashMapStateStore<K>, DefaultClock>,
    requests: AtomicUsize,
}

impl Rates {
    /// Limits the requests a second of each address and of each user; `None` for no limit. In a
    /// burst, a client may have those of a second at once.
    pub fn new(of_address: Option<NonZeroU32>, of_user: Option<NonZeroU32>) -> Rates {
        Rates(Arc::new(Inner {
            addresses: of_address.map(AddressLimiter::new),
            users: of_user.map(Limiter::new),
            refused: AddressLimiter::new(REFUSED_AT_ONCE),
            looked_up: AddressLimiter::new(LOOKED_UP_AT_ONCE),
        }))
    }

    /// Waits before an answer that refuses the credentials of a request of this address, if there
    /// were many such answers. A connection that waits costs nothing, and other requests of the
    /// address do not wait.
    pub async fn pace_refusal(&self, address: IpAddr) {
        if !self.0.refused.admits(address) {
            tokio::time::sleep(REFUSAL_PAUSE).await;
        }
    }

    /// Waits before a look-up that other nodes are asked for, if clients of this address caused
    /// many of them and have proven nothing yet. Returns false if there still are too many.
    pub async fn admits_look_up(&self, address: IpAddr) -> bool {
        if self.0.looked_up.admits(address) {
            return true;
        }
        tokio::time::sleep(REFUSAL_PAUSE).await;
        self.0.looked_up.admits(address)
    }

    /// Counts a request of this address. Returns false if there were too many. A network of IPv6
    /// counts as one address, and a site has twice as many.
    pub fn admits_address(&self, address: IpAddr) -> bool {
        let addresses = self.0.addresses.as_ref();
        addresses.is_none_or(|limiter| limiter.admits(address))
    }

    /// Counts a request of this user, by unique id. Returns false if there were too many.
    pub fn admits_user(&self, id: &str) -> bool {
        let users = self.0.users.as_ref();
        users.is_none_or(|limiter| limiter.admits(&id.to_owned()))
    }
}

impl AddressLimiter {
    fn new(per_second: NonZeroU32) -> AddressLimiter {
        AddressLimiter {
            addresses: Limiter::new(per_second),
            sites: Limiter::new(per_second.saturating_mul(TIMES_OF_SITE)),
        }
    }

    fn admits(&self, address: IpAddr) -> bool {
        let address = counted_as(address);
        let site = site_of(address);
        self.addresses.admits(&address) && site.is_none_or(|site| self.sites.admits(&site))
    }
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    fn new(per_second: NonZeroU32) -> Limiter<K> {
        Limiter {
            limiter: RateLimiter::hashmap(Quota::per_second(per_second)),
            requests: AtomicUsize::new(0),
        }
    }

    fn admits(&self, client: &K) -> bool {
        let count = self.requests.fetch_add(1, Ordering::Relaxed);
        if count % REQUESTS_BETWEEN_CLEANINGS == REQUESTS_BETWEEN_CLEANINGS - 1 {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(client).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::num::NonZeroU32;
    use std::ops::Range;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{
        LOOKED_UP_AT_ONCE, REFUSAL_PAUSE, REFUSED_AT_ONCE, REQUESTS_BETWEEN_CLEANINGS, Rates,
        TIMES_OF_SITE,
    };

    /// Returns how many of `count` requests are admitted. A slow machine admits more of them.
    fn admitted(count: usize, mut admits: impl FnMut() -> bool) -> usize {
        (0..count).filter(|_| admits()).count()
    }

    #[test]
    fn address_and_user_have_the_requests_of_a_second() {
        let rates = Rates::new(NonZeroU32::new(5), NonZeroU32::new(3));
        let mut names = ["192.0.2.1", "::ffff:192.0.2.1"].iter().cycle();
        let mut address = || names.next().unwrap().parse().unwrap();
        let of_one = admitted(1000, || rates.admits_address(address()));
        assert!((5..1000).contains(&of_one), "{of_one}");
        assert!(rates.admits_address("192.0.2.2".parse().unwrap()));
        let of_user = admitted(1000, || rates.admits_user("AIDA1"));
        assert!((3..1000).contains(&of_user), "{of_user}");
        assert!(rates.admits_user("AIDA2"));
    }

    #[test]
    fn networks_of_one_site_have_the_requests_of_two_addresses() {
        let rates = Rates::new(NonZeroU32::new(5), None);
        let mut networks = (0..1000).map(|n| format!("2001:db8:1:{n:x}::1"));
        let mut address = || networks.next().unwrap().parse().unwrap();
        let of_site = admitted(1000, || rates.admits_address(address()));
        assert!((10..1000).contains(&of_site), "{of_site}");
        assert!(rates.admits_address("2001:db8:2::1".parse().unwrap()));
    }

    #[test]
    fn nothing_is_limited_by_default() {
        let rates = Rates::default();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(admitted(1000, || rates.admits_address(address)), 1000);
        assert_eq!(admitted(1000, || rates.admits_user("AIDA1")), 1000);
    }

    /// Only the pauses take time here.
    #[tokio::test(start_paused = true)]
    async fn many_refusals_of_an_address_are_answered_slowly() {
        let rates = Rates::default();
        let paused = async |address: &str, count: u32| {
            let (address, begun) = (address.parse().unwrap(), Instant::now());
            for _ in 0..count {
                rates.pace_refusal(address).await;
            }
            begun.elapsed()
        };
        assert_eq!(
            paused("192.0.2.1", REFUSED_AT_ONCE.get()).await,
            Duration::ZERO
        );
        assert!(paused("192.0.2.1", 5000).await >= REFUSAL_PAUSE);
        assert_eq!(paused("192.0.2.2", 1).await, Duration::ZERO);
    }

    /// The limiter's own clock does not stand still, so that a slow machine admits more.
    #[tokio::test(start_paused = true)]
    async fn many_look_ups_of_an_address_wait_and_are_refused() {
        let rates = Rates::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let (mut admitted, begun) = (0, Instant::now());
        for _ in 0..LOOKED_UP_AT_ONCE.get() {
            admitted += u32::from(rates.admits_look_up(one).await);
        }
        assert_eq!(admitted, LOOKED_UP_AT_ONCE.get());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let mut refused = false;
        for _ in 0..5000 {
            refused |= !rates.admits_look_up(one).await;
        }
        assert!(refused && begun.elapsed() >= REFUSAL_PAUSE);
        assert!(rates.admits_look_up(other).await);
    }

    /// A site is a /48 at least, with 65,536 networks. None of them does here more than it may.
    #[tokio::test(start_paused = true)]
    async fn networks_of_one_site_cause_the_refusals_and_look_ups_of_two_addresses() {
        let rates = Rates::default();
        let address = |site: u32, network: u32| -> IpAddr {
            format!("2001:db8:{site:x}:{network:x}::1").parse().unwrap()
        };
        let paused = async |site: u32, networks: Range<u32>| {
            let begun = Instant::now();
            for network in networks {
                rates.pace_refusal(address(site, network)).await;
            }
            begun.elapsed()
        };
        let at_once = REFUSED_AT_ONCE.saturating_mul(TIMES_OF_SITE).get();
        assert_eq!(paused(1, 0..at_once).await, Duration::ZERO);
        assert!(paused(1, at_once..5000).await >= REFUSAL_PAUSE);
        assert_eq!(paused(2, 0..1).await, Duration::ZERO);
        let mut refused = false;
        for network in 0..5000 {
            refused |= !rates.admits_look_up(address(1, network)).await;
        }
        assert!(refused);
        assert!(rates.admits_look_up(address(2, 0)).await);
    }

    #[test]
    fn quiet_clients_are_forgotten() {
        let rates = Rates::new(NonZeroU32::new(1_000_000), None);
        for n in 0..REQUESTS_BETWEEN_CLEANINGS as u32 - 1 {
            assert!(rates.admits_address(IpAddr::V4(Ipv4Addr::from_bits(n))));
        }
        let limiter = &rates.0.addresses.as_ref().unwrap().addresses;
        assert!(limiter.limiter.len() > 1);
        // A client is quiet after a microsecond.
        for _ in 0..REQUESTS_BETWEEN_CLEANINGS + 1 {
            rates.admits_address(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        assert_eq!(limiter.limiter.len(), 1);
    }
}
