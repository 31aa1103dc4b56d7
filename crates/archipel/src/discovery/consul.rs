//! The instances of a service in Consul.
//!
//! Source: HashiCorp, "Health HTTP API", List Service Instances for Service.

use archipel_api::fetch::{Ask, fetch};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;

use super::dns::joined;
use crate::config::Consul;

/// The most bytes of an answer.
const LIMIT: usize = 4 << 20;
/// The header of the token.
const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    node: Node,
    service: Service,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    /// Empty for the address of the node.
    #[serde(default)]
    address: String,
    port: u16,
}

/// Returns the addresses of the service, whatever its checks say: a node that waits for others is
/// not healthy yet.
pub async fn instances(consul: &Consul) -> Result<Vec<String>, String> {
    let url = format!("{}/v1/health/service/{}", consul.agent, consul.service);
    let mut headers = Vec::new();
    if let Some(token) = &consul.token {
        let value = HeaderValue::from_str(token.expose());
        let value = value.map_err(|_| "the token is not fit for a header".to_owned())?;
        headers.push((TOKEN, value));
    }
    let answer = fetch(Ask {
        url: &url,
        limit: LIMIT,
        headers: &headers,
        roots: None,
    });
    let answer = answer.await.map_err(|why| format!("{url}: {why}"))?;
    let entries: Vec<Entry> =
        serde_json::from_slice(&answer).map_err(|error| format!("{url}: {error}"))?;
    let addresses = entries.into_iter().map(|entry| {
        let Service { address, port } = entry.service;
        let host = if address.is_empty() {
            entry.node.address
        } else {
            address
        };
        joined(&host, port)
    });
    Ok(addresses.collect())
}
