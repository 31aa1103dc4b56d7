//! The addresses of targets: `scheme://host:port,host:port/path`.

use percent_encoding::percent_decode_str;

use crate::config::Host;

/// The parts of an address.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    /// The machines; at least one.
    pub hosts: Vec<Host>,
    /// The part behind the slash that follows them, without its escapes.
    pub path: String,
}

impl Address {
    /// Reads the part behind `scheme://`. A host without a port gets `default_port`.
    ///
    /// # Errors
    /// The reason why it is no address.
    pub fn parse(rest: &str, default_port: u16) -> Result<Address, &'static str> {
        if rest.contains(['?', '#']) {
            return Err("an address of this kind takes no parameters");
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').map(|one| host(one, default_port));
        let path = percent_decode_str(path).decode_utf8();
        Ok(Address {
            hosts: hosts.collect::<Option<_>>().ok_or("not host:port")?,
            path: path.map_err(|_| "the path is not UTF-8")?.into_owned(),
        })
    }

    /// Returns the only machine.
    pub fn only_host(&self) -> Option<&Host> {
        match self.hosts.as_slice() {
            [host] => Some(host),
            _ => None,
        }
    }
}

fn host(text: &str, default_port: u16) -> Option<Host> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            name.parse::<std::net::Ipv6Addr>().ok()?;
            (name, port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
            if name.is_empty() || !name.bytes().all(fine) {
                return None;
            }
            (name, port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None if port.is_empty() => default_port,
        None => return None,
    };
    Some(Host {
        name: name.to_owned(),
        port,
    })
}

/// Returns an address without a name and a password in it.
pub fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // Behind the last one, because a password may hold any character.
    match (rest.rsplit_once('@'), scheme) {
        (None, _) => url.to_owned(),
        (Some((_, host)), "") => format!("...@{host}"),
        (Some((_, host)), scheme) => format!("{scheme}://...@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_its_password() {
        for (url, expected) in [
            (
                "https://hooks.example.org/in",
                "https://hooks.example.org/in",
            ),
            ("https://ann:pass@host/in", "https://...@host/in"),
            ("https://ann:p@ss/w@host/in", "https://...@host/in"),
            ("ann:pass@host", "...@host"),
            ("ftp://x", "ftp://x"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn addresses_are_read() {
        let host = |name: &str, port| Host {
            name: name.into(),
            port,
        };
        for (text, hosts, path) in [
            ("a", vec![host("a", 9)], ""),
            ("a.b-c_d:1/", vec![host("a.b-c_d", 1)], ""),
            (
                "a:1,10.0.0.1,c:3/t/%2F",
                vec![host("a", 1), host("10.0.0.1", 9), host("c", 3)],
                "t//",
            ),
            ("[::1]", vec![host("::1", 9)], ""),
            ("[::1]:5/db", vec![host("::1", 5)], "db"),
        ] {
            let expected = Address {
                hosts,
                path: path.into(),
            };
            assert_eq!(Address::parse(text, 9), Ok(expected), "{text}");
        }
        for wrong in [
            "", "/x", "a:", "a:0", "a:x", "a:70000", "a,", "a b", "[a]", "[::1]x", "::1", "a?x=1",
            "a/%ff",
        ] {
            assert!(Address::parse(wrong, 9).is_err(), "{wrong}");
        }
    }
}
