//! The endpoints of a service in Kubernetes, by the service account of the pod.
//!
//! Source: Kubernetes, "EndpointSlice v1 discovery.k8s.io", and "Accessing the Kubernetes API from
//! a Pod".

use std::path::PathBuf;

use archipel_api::fetch::{Ask, fetch};
use http::{HeaderValue, header};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::dns::joined;
use crate::config::Kubernetes;

/// The most bytes of an answer.
const LIMIT: usize = 4 << 20;

#[derive(Deserialize)]
struct Slices {
    items: Vec<Slice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slice {
    address_type: String,
    /// Kubernetes writes an empty list as null.
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
struct Endpoint {
    addresses: Vec<String>,
}

/// Returns the addresses of the service's endpoints, ready or not: a node that waits for others is
/// not ready yet.
pub async fn endpoints(service: &Kubernetes) -> Result<Vec<String>, String> {
    let url = format!(
        "{}/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{}",
        service.server, service.namespace, service.service
    );
    // Tokens expire, and the platform replaces the file.
    let token = read(service.account.join("token")).await?;
    let roots = match service.server.starts_with("https:") {
        true => Some(read(service.account.join("ca.crt")).await?),
        false => None,
    };
    let bearer = [b"Bearer ", token.trim_ascii()].concat();
    let mut bearer = HeaderValue::from_bytes(&bearer)
        .map_err(|_| "the token of the service account is not fit for a header".to_owned())?;
    bearer.set_sensitive(true);
    let headers = [(header::AUTHORIZATION, bearer)];
    let answer = fetch(Ask {
        url: &url,
        limit: LIMIT,
        headers: &headers,
        roots: roots.as_deref(),
    });
    let answer = answer.await.map_err(|why| format!("{url}: {why}"))?;
    let slices: Slices =
        serde_json::from_slice(&answer).map_err(|error| format!("{url}: {error}"))?;
    let of_addresses = slices
        .items
        .into_iter()
        .filter(|slice| slice.address_type != "FQDN");
    let endpoints = of_addresses.flat_map(|slice| slice.endpoints.unwrap_or_default());
    let addresses = endpoints.flat_map(|endpoint| endpoint.addresses);
    Ok(addresses.map(|host| joined(&host, service.port)).collect())
}

async fn read(path: PathBuf) -> Result<Vec<u8>, String> {
    let shown = path.display().to_string();
    let read = spawn_blocking(move || std::fs::read(&path)).await;
    let read = read.map_err(|error| error.to_string())?;
    read.map_err(|error| format!("{shown}: {error}"))
}
