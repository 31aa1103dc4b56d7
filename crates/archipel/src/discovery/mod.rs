//! Looking other nodes up: in DNS, Consul and Kubernetes, again and again.
//!
//! The addresses that are found are further seeds of the membership. A source that fails keeps the
//! addresses that it told last. Nothing depends on the sources once nodes know one another.
//!
//! | module | what it holds |
//! |---|---|
//! | `dns` | addresses of a name, and SRV records |
//! | `consul` | the instances of a service in Consul |
//! | `kubernetes` | the endpoints of a service in Kubernetes |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::Cluster;
use archipel_cluster::membership::Members;
use archipel_net::dual::TCP_SCHEME;
use parking_lot::Mutex;

use crate::config::Discovery;

mod consul;
mod dns;
mod kubernetes;

#[cfg(test)]
mod tests;

/// The time between two lookups: while this node is in no layout or reaches no other node, and
/// else.
const OFTEN: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);
/// The time for one lookup.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The sources and what they told. Cheap to clone.
#[derive(Clone)]
pub struct Lookups(Arc<Inner>);

struct Inner {
    /// True if all nodes are reached over TCP, as this one.
    tcp_only: bool,
    sources: Vec<(Discovery, Mutex<Told>)>,
}

/// The results of the lookups at a source.
#[derive(Clone, Default, Debug)]
pub struct Told {
    /// The addresses, as `host:port`.
    pub addresses: BTreeSet<String>,
    /// The number of lookups that failed.
    pub failed: u64,
    /// The error of the last lookup, if it failed.
    pub trouble: Option<String>,
}

impl Lookups {
    /// Creates the lookups of these sources.
    pub fn new(sources: &[Discovery], tcp_only: bool) -> Lookups {
        let sources = sources.iter().cloned();
        Lookups(Arc::new(Inner {
            tcp_only,
            sources: sources.map(|one| (one, Mutex::default())).collect(),
        }))
    }

    /// Looks nodes up until the future is dropped.
    pub async fn run(&self, members: &Members, cluster: &Cluster) {
        if self.0.sources.is_empty() {
            return;
        }
        loop {
            members.looked_up(&self.look().await);
            let reached = members.list().iter().filter(|one| !one.suspected).count();
            let settled = cluster.epoch().is_some() && reached > 1;
            tokio::time::sleep(if settled { SELDOM } else { OFTEN }).await;
        }
    }

    /// Asks all sources at once. Returns the addresses of each.
    async fn look(&self) -> Vec<Vec<String>> {
        let looks = self.0.sources.iter().map(|(source, told)| async move {
            let found = tokio::time::timeout(TIMEOUT, find(source)).await;
            let found = found.unwrap_or_else(|_| Err("it did not answer in time".into()));
            note(source, told, found.map(|found| self.named(source, found)));
            told.lock().addresses.clone()
        });
        let all = futures_util::future::join_all(looks).await;
        all.into_iter().map(Vec::from_iter).collect()
    }

    /// Returns the addresses as the network takes them.
    fn named(&self, source: &Discovery, found: Vec<String>) -> BTreeSet<String> {
        let tcp = self.0.tcp_only || matches!(source, Discovery::Srv { tcp: true, .. });
        let scheme = if tcp { TCP_SCHEME } else { "" };
        let named = found
            .into_iter()
            .map(|address| format!("{scheme}{address}"));
        named.collect()
    }

    /// Returns the sources with what they told.
    pub fn told(&self) -> Vec<(String, Told)> {
        let sources = self.0.sources.iter();
        let told = sources.map(|(source, told)| (source.to_string(), told.lock().clone()));
        told.collect()
    }
}

/// Returns the addresses that a source tells, as `host:port`.
async fn find(source: &Discovery) -> Result<Vec<String>, String> {
    match source {
        Discovery::Dns { host, port } => dns::addresses(host, *port).await,
        Discovery::Srv { name, .. } => dns::services(name).await,
        Discovery::Consul(consul) => consul::instances(consul).await,
        Discovery::Kubernetes(service) => kubernetes::endpoints(service).await,
    }
}

/// Notes and logs what a source told, if it is something else than before.
fn note(source: &Discovery, told: &Mutex<Told>, found: Result<BTreeSet<String>, String>) {
    let mut told = told.lock();
    match found {
        Ok(addresses) => {
            told.trouble = None;
            if addresses != told.addresses {
                let count = addresses.len();
                tracing::info!(%source, count, "addresses of nodes were looked up");
                told.addresses = addresses;
            }
        }
        Err(why) => {
            told.failed += 1;
            if told.trouble.as_ref() != Some(&why) {
                tracing::warn!(%source, why, "nodes cannot be looked up; it is tried again");
                told.trouble = Some(why);
            }
        }
    }
}
