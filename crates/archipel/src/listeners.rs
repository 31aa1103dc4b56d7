//! The listeners of a node.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::config::Settings;

/// The listeners for users.
pub struct Listeners {
    /// S3.
    pub s3: TcpListener,
    /// Websites.
    pub web: Option<TcpListener>,
    /// K2V.
    pub k2v: Option<TcpListener>,
    /// The web console.
    pub console: Option<TcpListener>,
    /// Plain HTTP, for an authority.
    pub plain: Option<TcpListener>,
}

/// The addresses of the listeners for users.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// S3.
    pub s3: SocketAddr,
    /// Websites.
    pub web: Option<SocketAddr>,
    /// K2V.
    pub k2v: Option<SocketAddr>,
    /// The web console.
    pub console: Option<SocketAddr>,
}

impl Listeners {
    /// Opens the listeners that the settings name.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn open(settings: &Settings) -> Result<Listeners, String> {
        Ok(Listeners {
            s3: listen("s3.listen", settings.s3.listen).await?,
            web: match &settings.web {
                Some(web) => Some(listen("web.listen", web.listen).await?),
                None => None,
            },
            k2v: match &settings.k2v {
                Some(k2v) => Some(listen("k2v.listen", k2v.listen).await?),
                None => None,
            },
            console: match &settings.console {
                Some(console) => Some(listen("console.listen", console.listen).await?),
                None => None,
            },
            plain: match settings.acme.as_ref().and_then(|acme| acme.listen) {
                Some(address) => Some(listen("acme.listen", address).await?),
                None => None,
            },
        })
    }

    /// Returns the addresses: a port may have been chosen by the system.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn addresses(&self) -> Result<Addresses, String> {
        let address = |listener: &TcpListener| listener.local_addr().map_err(|e| e.to_string());
        Ok(Addresses {
            s3: address(&self.s3)?,
            web: self.web.as_ref().map(address).transpose()?,
            k2v: self.k2v.as_ref().map(address).transpose()?,
            console: self.console.as_ref().map(address).transpose()?,
        })
    }
}

impl Addresses {
    /// Returns the sections of the listeners, with their addresses.
    pub fn named(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = [
            ("s3", Some(self.s3)),
            ("web", self.web),
            ("k2v", self.k2v),
            ("console", self.console),
        ];
        let open = all.into_iter();
        open.filter_map(|(name, address)| Some((name, address?)))
            .collect()
    }
}

/// Returns the URL of a listener.
pub fn url(settings: &Settings, section: &str, address: SocketAddr) -> String {
    let scheme = if settings.has_tls(section) {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{address}")
}

/// Returns a warning for each listener that speaks plain text beyond this machine.
pub fn plain_text(settings: &Settings, addresses: Addresses) -> Vec<String> {
    let mut all = addresses.named();
    all.extend(settings.admin.listen.map(|admin| ("admin", admin)));
    let is_plain = |(section, address): &(&str, SocketAddr)| {
        !address.ip().is_loopback() && !settings.has_tls(section)
    };
    let plain = all.into_iter().filter(is_plain);
    plain
        .map(|(section, address)| {
            format!(
                "{section}.listen = \"{address}\" speaks plain text beyond this machine: use [tls], or a \
                 proxy that ends TLS"
            )
        })
        .collect()
}

/// Listens on the address of the setting `key`.
///
/// # Errors
/// A text for the operator.
pub async fn listen(key: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| {
        let fix = "choose another address or port, or stop what listens there";
        format!("{key} = \"{address}\": {error}; fix: {fix}")
    })
}
