//! Proxies whose word about the client's address counts.
//!
//! A proxy adds the address of its peer at the end of a header. So the list is read from
//! its end: addresses of trusted proxies are passed over, and the first other one is the client's.
//! The client may have made up those before it.

use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderMap;

/// The most addresses that are passed over.
const MAX_HOPS: usize = 16;

/// A network of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text is no network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a network")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Network, NotANetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| NotANetwork)?,
            None => most,
        };
        match bits <= most {
            true => Ok(Network { address, bits }),
            false => Err(NotANetwork),
        }
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let differ = |a: u128, b: u128, width: u32| {
            let rest = width - u32::from(self.bits);
            (a ^ b).checked_shr(rest).unwrap_or(0) != 0
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                !differ(own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => !differ(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// The header in which proxies name the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The proxies that are trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Proxies {
    /// Their addresses. They stay for as long as the process.
    pub networks: &'static [Network],
    /// The one header that is read: a proxy that writes one passes the other on as the client sent
    /// it.
    pub header: ProxyHeader,
}

impl Proxies {
    /// Returns true if an address is that of a trusted proxy.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.networks
            .iter()
            .any(|network| network.contains(address))
    }

    /// Returns the address of a request's client, as the proxies tell it.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trust(peer) {
            return peer;
        }
        let name = match self.header {
            ProxyHeader::XForwardedFor => "x-forwarded-for",
            ProxyHeader::Forwarded => "forwarded",
        };
        let values: Vec<_> = headers.get_all(name).iter().collect();
        let lists = values
            .iter()
            .rev()
            .map(|value| value.to_str().unwrap_or(""));
        let hops = lists.flat_map(|list| list.rsplit(',')).take(MAX_HOPS);
        let mut client = peer;
        for hop in hops {
            // If the last proxy in a row could not tell it, no other may.
            let Some(address) = self.address(hop.trim()) else {
                break;
            };
            client = address;
            if !self.trust(address) {
                break;
            }
        }
        client
    }

    /// Reads one hop. This machine is no client of another one, so its address is none.
    fn address(&self, hop: &str) -> Option<IpAddr> {
        let node = match self.header {
            ProxyHeader::XForwardedFor => hop,
            ProxyHeader::Forwarded => {
                let mut pairs = hop.split(';').filter_map(|pair| pair.split_once('='));
                let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
                node.trim().trim_matches('"')
            }
        };
        let address: IpAddr = match node.strip_prefix('[') {
            Some(rest) => rest.split(']').next()?.parse().ok()?,
            None => match node.parse() {
                Ok(address) => address,
                // An address of version 4 with a port.
                Err(_) => node.split_once(':')?.0.parse().ok()?,
            },
        };
        let address = address.to_canonical();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use http::{HeaderMap, HeaderValue};

    use super::{Network, Proxies, ProxyHeader};

    fn proxies(header: ProxyHeader) -> Proxies {
        let networks = ["10.0.0.0/8", "fd00::/8", "192.0.2.7"];
        let networks: Vec<Network> = networks.iter().map(|n| n.parse().unwrap()).collect();
        Proxies {
            networks: networks.leak(),
            header,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn client(header: ProxyHeader, peer: &str, values: &[&str]) -> IpAddr {
        let name = match header {
            ProxyHeader::XForwardedFor => "x-forwarded-for",
            ProxyHeader::Forwarded => "forwarded",
        };
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        proxies(header).client(ip(peer), &headers)
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let of = |peer, values: &[&str]| client(ProxyHeader::XForwardedFor, peer, values);
        assert_eq!(of("203.0.113.9", &["198.51.100.1"]), ip("203.0.113.9"));
        assert_eq!(of("192.0.2.8", &["198.51.100.1"]), ip("192.0.2.8"));
        assert_eq!(of("10.1.2.3", &["198.51.100.1"]), ip("198.51.100.1"));
        assert_eq!(of("::ffff:10.1.2.3", &["198.51.100.1"]), ip("198.51.100.1"));
        assert_eq!(of("fd12::1", &["2001:db8::5"]), ip("2001:db8::5"));
        assert_eq!(of("10.1.2.3", &[]), ip("10.1.2.3"));
    }

    #[test]
    fn what_a_client_made_up_does_not_count() {
        let of = |values: &[&str]| client(ProxyHeader::XForwardedFor, "10.1.2.3", values);
        let real = ip("198.51.100.1");
        assert_eq!(of(&["1.2.3.4, 198.51.100.1"]), real);
        assert_eq!(of(&["1.2.3.4", "198.51.100.1"]), real);
        assert_eq!(of(&["10.9.9.9, 198.51.100.1, 10.4.4.4"]), real);
        assert_eq!(of(&["198.51.100.1:4711"]), real);
        assert_eq!(of(&["[2001:db8::5]:4711"]), ip("2001:db8::5"));
        // The last proxy in a row did not say whom it serves.
        assert_eq!(of(&["1.2.3.4, unknown"]), ip("10.1.2.3"));
        assert_eq!(of(&["1.2.3.4, \u{e9}"]), ip("10.1.2.3"));
        assert_eq!(of(&["1.2.3.4, , 10.4.4.4"]), ip("10.4.4.4"));
        assert_eq!(of(&["127.0.0.1"]), ip("10.1.2.3"));
        assert_eq!(of(&["::1"]), ip("10.1.2.3"));
        assert_eq!(of(&[&"10.0.0.1,".repeat(100)]), ip("10.1.2.3"));
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_says() {
        let of = |values: &[&str]| client(ProxyHeader::Forwarded, "10.1.2.3", values);
        assert_eq!(of(&["for=198.51.100.1;proto=https"]), ip("198.51.100.1"));
        assert_eq!(
            of(&["For=1.2.3.4, proto=https; FOR=\"[2001:db8::5]:4711\""]),
            ip("2001:db8::5")
        );
        assert_eq!(of(&["for=1.2.3.4, for=_hidden"]), ip("10.1.2.3"));
        assert_eq!(of(&["for=1.2.3.4, by=10.4.4.4"]), ip("10.1.2.3"));
    }

    #[test]
    fn networks_are_read_and_matched() {
        for wrong in [
            "",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0/8",
            "x",
            "10.0.0.0/",
            "10.0.0.0/-1",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let has =
            |network: &str, address| network.parse::<Network>().unwrap().contains(ip(address));
        assert!(has("0.0.0.0/0", "203.0.113.9"));
        assert!(!has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("::/0", "2001:db8::1"));
        assert!(has("10.1.0.0/16", "10.1.255.255"));
        assert!(!has("10.1.0.0/16", "10.2.0.0"));
    }
}
