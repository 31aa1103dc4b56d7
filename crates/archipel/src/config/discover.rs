//! The sources in which nodes are looked up: DNS, Consul, Kubernetes.

use std::fmt;
use std::path::{Path, PathBuf};

use http::Uri;

use super::secret::Secret;

/// The forms of `cluster.discover`, for messages.
pub const FORMS: &str = "write \"dns://HOST:PORT\", \"srv://_archipel._udp.example.org\", \"consul://HOST:PORT/SERVICE\", \"consul+https://HOST:PORT/SERVICE\" or \"kubernetes://NAMESPACE/SERVICE:PORT\"";

/// The files of a pod that name the API server's certificate and hold the pod's token.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The address of the API server as pods know it.
const API_SERVER: &str = "https://kubernetes.default.svc";

/// A source in which nodes are looked up.
#[derive(Clone, Debug)]
pub enum Discovery {
    /// All addresses of a name (A and AAAA records).
    Dns {
        /// The name.
        host: String,
        /// The port of the nodes.
        port: u16,
    },
    /// The targets of a service (SRV records).
    Srv {
        /// The name of the records.
        name: String,
        /// True if the nodes are reached over TCP alone.
        tcp: bool,
    },
    /// The instances of a service in Consul.
    Consul(Consul),
    /// The endpoints of a service in Kubernetes.
    Kubernetes(Kubernetes),
}

/// A service in Consul.
#[derive(Clone, Debug)]
pub struct Consul {
    /// The agent: `http://host:port`.
    pub agent: String,
    /// The service.
    pub service: String,
    /// The token, if the agent wants one.
    pub token: Option<Secret>,
}

/// A service in Kubernetes.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The API server: `https://host:port`.
    pub server: String,
    /// The namespace.
    pub namespace: String,
    /// The service.
    pub service: String,
    /// The port of the nodes.
    pub port: u16,
    /// The folder with the service account: `token` and `ca.crt`.
    pub account: PathBuf,
}

impl Discovery {
    /// Reads a source.
    ///
    /// # Errors
    /// The problem, for the operator.
    pub fn parse(source: &str, token: Option<Secret>) -> Result<Discovery, &'static str> {
        let (scheme, rest) = source.split_once("://").ok_or("not a source of nodes")?;
        match scheme {
            "dns" => {
                let (host, port) = host_port(rest)?;
                Ok(Discovery::Dns { host, port })
            }
            "srv" => {
                let tcp = rest.contains("._tcp.");
                if !rest.starts_with('_') || !(tcp || rest.contains("._udp.")) || !is_name(rest) {
                    return Err("not the name of SRV records");
                }
                let name = rest.to_owned();
                Ok(Discovery::Srv { name, tcp })
            }
            "consul" | "consul+https" => {
                let (agent, service) = rest.split_once('/').ok_or("the service is missing")?;
                host_port(agent)?;
                plain(service)?;
                let scheme = if scheme == "consul" { "http" } else { "https" };
                Ok(Discovery::Consul(Consul {
                    agent: format!("{scheme}://{agent}"),
                    service: service.to_owned(),
                    token,
                }))
            }
            "kubernetes" => kubernetes(rest),
            _ => Err("an unknown kind of source"),
        }
    }
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discovery::Dns { host, port } => write!(f, "dns://{host}:{port}"),
            Discovery::Srv { name, .. } => write!(f, "srv://{name}"),
            Discovery::Consul(Consul { agent, service, .. }) => {
                let agent = agent.strip_prefix("http").unwrap_or(agent);
                let (secure, agent) = agent.split_once("://").unwrap_or(("", agent));
                let plus = if secure.is_empty() { "" } else { "+https" };
                write!(f, "consul{plus}://{agent}/{service}")
            }
            Discovery::Kubernetes(service) => {
                let (namespace, name, port) = (&service.namespace, &service.service, service.port);
                write!(f, "kubernetes://{namespace}/{name}:{port}")
            }
        }
    }
}

/// Reads `NAMESPACE/SERVICE:PORT`, with `?server=URL&account=FOLDER` for clusters whose API server
/// is elsewhere.
fn kubernetes(rest: &str) -> Result<Discovery, &'static str> {
    let (service, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (namespace, service) = service.split_once('/').ok_or("the service is missing")?;
    let (service, port) = host_port(service)?;
    plain(namespace)?;
    plain(&service)?;
    let (mut server, mut account) = (API_SERVER.to_owned(), PathBuf::from(SERVICE_ACCOUNT));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("server", url)) => server = url_of(url)?,
            Some(("account", folder)) => account = Path::new(folder).to_owned(),
            _ => return Err("only server=URL and account=FOLDER may follow the \"?\""),
        }
    }
    Ok(Discovery::Kubernetes(Kubernetes {
        server,
        namespace: namespace.to_owned(),
        service,
        port,
        account,
    }))
}

fn url_of(url: &str) -> Result<String, &'static str> {
    let wrong = "server is not a URL such as https://10.0.0.1:6443";
    let uri: Uri = url.parse().map_err(|_| wrong)?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let bare = uri.path_and_query().is_none_or(|path| path == "/");
    if !known || !bare {
        return Err(wrong);
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn host_port(text: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
    let port = port.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or("the port is none")?;
    if !is_name(host) {
        return Err("the host is none");
    }
    Ok((host.to_owned(), port))
}

fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(legal)
}

/// Refuses a text that does not stand for itself in a path.
fn plain(text: &str) -> Result<(), &'static str> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let fine = !text.is_empty() && text.bytes().all(legal) && !text.trim_matches('.').is_empty();
    fine.then_some(())
        .ok_or("the name of the service or namespace has characters that it must not have")
}
