//! Addresses of a name, by the system's resolver, and SRV records, which that one does not tell.

use archipel_net::lookup::look_up;
use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;

use super::TIMEOUT;

/// Returns all addresses of a name, with the port.
pub async fn addresses(host: &str, port: u16) -> Result<Vec<String>, String> {
    let found = look_up(&joined(host, port), TIMEOUT).await;
    let found = found.map_err(|error| format!("{host}: {error}"))?;
    Ok(found.iter().map(ToString::to_string).collect())
}

/// Returns the targets of SRV records.
pub async fn services(name: &str) -> Result<Vec<String>, String> {
    // Made again, because the system's settings may have changed.
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let resolver = resolver.map_err(|error| format!("the system's DNS settings: {error}"))?;
    let found = resolver.srv_lookup(name).await;
    let found = found.map_err(|error| format!("{name}: {error}"))?;
    let targets = found
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => {
                let host = service.target.to_utf8();
                Some(joined(host.trim_end_matches('.'), service.port))
            }
            _ => None,
        });
    Ok(targets.collect())
}

/// Returns host and port as one text.
pub fn joined(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
