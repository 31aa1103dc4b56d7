//! The check that no two listeners have the same address.

use std::net::{IpAddr, SocketAddr};

use super::Check;
use crate::config::Settings;

impl Check {
    /// Reports each listener over TCP that cannot listen because of one before it.
    pub(super) fn listeners(&mut self, settings: &Settings) {
        let all = listeners(settings);
        for (number, (key, address)) in all.iter().enumerate() {
            let mut before = all[..number].iter();
            if let Some((other, _)) = before.find(|(_, other)| collide(*address, *other)) {
                let why = format!("{other} listens there");
                let value = Some(address.to_string());
                self.problem(key, value, &why, "choose another port");
            }
        }
    }
}

/// Returns the listeners over TCP, each with the key of its address.
fn listeners(settings: &Settings) -> Vec<(&'static str, SocketAddr)> {
    let network = settings.cluster.network.as_ref();
    let all = [
        ("s3.listen", Some(settings.s3.listen)),
        ("web.listen", settings.web.as_ref().map(|web| web.listen)),
        ("k2v.listen", settings.k2v.as_ref().map(|k2v| k2v.listen)),
        ("admin.listen", settings.admin.listen),
        (
            "console.listen",
            settings.console.as_ref().map(|console| console.listen),
        ),
        (
            "acme.listen",
            settings.acme.as_ref().and_then(|acme| acme.listen),
        ),
        ("cluster.listen", network.map(|network| network.listen)),
    ];
    let open = all.into_iter();
    open.filter_map(|(key, address)| Some((key, address?)))
        .collect()
}

/// Returns true if only one can listen. The system chooses another port each time for port 0.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    // All interfaces of IPv6 include those of IPv4.
    let covers =
        |a: IpAddr, b: IpAddr| a == b || (a.is_unspecified() && (a.is_ipv6() || b.is_ipv4()));
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && one.port() != 0 && (covers(a, b) || covers(b, a))
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{read, refusal};

    #[test]
    fn two_listeners_on_one_address_are_refused() {
        let text = |k2v: &str| {
            format!(
                "data_dir = \"/d\"\n[s3]\nlisten = \"127.0.0.1:3900\"\n[k2v]\nlisten = \"{k2v}\"\n"
            )
        };
        for taken in ["127.0.0.1:3900", "0.0.0.0:3900", "[::]:3900"] {
            let refusal = refusal(&text(taken));
            let expected = format!("k2v.listen = \"{taken}\": s3.listen listens there; fix: ");
            assert!(refusal.contains(&expected), "{refusal}");
        }
        for free in ["127.0.0.1:3904", "127.0.0.2:3900", "[::1]:3900"] {
            read(&text(free)).unwrap();
        }
        // All interfaces of IPv4 are none of IPv6.
        read(&text("[::1]:3900").replace("127.0.0.1", "0.0.0.0")).unwrap();
        let any = text("127.0.0.1:0").replace("3900", "0");
        read(&any).unwrap();
    }
}
