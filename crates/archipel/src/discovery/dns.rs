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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// A resolver that does not answer keeps its thread. Here it is the only one, and taken.
    #[test]
    fn a_name_is_not_waited_for_without_end() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .start_paused(true)
            .build()
            .unwrap();
        // The thread is free once this is dropped.
        let (_taken, free) = mpsc::channel::<()>();
        runtime.block_on(async {
            tokio::task::spawn_blocking(move || free.recv());
            let asked = tokio::spawn(addresses("localhost", 3901));
            let all_go_on = async || {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            };
            all_go_on().await;
            assert!(!asked.is_finished());
            tokio::time::advance(TIMEOUT + Duration::from_secs(1)).await;
            all_go_on().await;
            assert!(asked.is_finished(), "it waits for ever");
            let why = asked.await.unwrap().unwrap_err();
            assert!(why.starts_with("localhost: "), "{why}");
        });
    }
}
