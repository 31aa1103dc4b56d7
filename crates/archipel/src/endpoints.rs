//! The endpoints for users, made from settings.

use std::sync::Arc;
use std::time::Duration;

use archipel_api::admin::{Admin, Inside};
use archipel_api::audit::Audit;
use archipel_api::k2v::{K2v, K2vConfig};
use archipel_api::s3::{HealthSource, S3, S3Config};
use archipel_api::serve::tls::Tls;
use archipel_api::serve::{self, Limits, Metrics, Proxies, Rates, Service};
use archipel_api::web::{Web, WebConfig};
use archipel_base::clock::WallClock;
use archipel_base::random::SystemRandom;
use archipel_console::{Console, ConsoleConfig};
use archipel_model::Model;
use archipel_traces::Tracer;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::acme::Acme;
use crate::acme::plain::PlainService;
use crate::config::{self, Settings};
use crate::listeners::{self, Addresses};

/// The settings of all endpoints.
pub struct Common {
    settings: Arc<Settings>,
    limits: Limits,
}

impl Common {
    /// Reads the settings. Call it once: a copy of the networks of proxies stays in memory for
    /// good.
    pub fn new(settings: Arc<Settings>) -> Common {
        let limits = limits(&settings);
        Common { settings, limits }
    }

    fn rates(&self) -> Rates {
        let limits = &self.settings.limits;
        Rates::new(
            limits.requests_per_second_per_address,
            limits.requests_per_second_per_user,
        )
    }
}

/// Creates the S3 API on `model`, with its metrics in `registry`.
pub fn s3(
    common: &Common,
    model: &Model,
    clock: Arc<dyn WallClock>,
    audit: Audit,
    registry: &mut Registry,
) -> S3 {
    let settings = &common.settings;
    let config = S3Config {
        region: settings.s3.region.clone(),
        base_domains: settings.s3.base_domains.clone(),
        signature_v2: settings.s3.signature_v2,
        plain_keys: settings.s3.sse_c_over_http,
        limits: common.limits,
        rates: common.rates(),
        audit,
    };
    let metrics = Metrics::register(registry.sub_registry_with_prefix("archipel"), "s3");
    S3::new(model.clone(), config, metrics, clock, &SystemRandom)
}

/// Returns the source of health checks on the address for S3.
pub fn health(admin: Arc<Admin>) -> HealthSource {
    Arc::new(move |check| {
        let admin = admin.clone();
        Box::pin(async move { admin.is_healthy(check).await })
    })
}

/// Creates the websites of `model`, with their metrics in `registry`.
pub fn web(
    common: &Common,
    root_domain: Option<&str>,
    model: &Model,
    audit: Audit,
    registry: &mut Registry,
) -> Web {
    let config = WebConfig {
        root_domain: root_domain.map(str::to_owned),
        limits: common.limits,
        rates: common.rates(),
        audit,
    };
    let metrics = Metrics::register(registry.sub_registry_with_prefix("archipel"), "web");
    Web::new(model.clone(), config, metrics, &SystemRandom)
}

/// HTTP/2: the polls that one connection may have. Each takes little memory.
const K2V_STREAMS: u32 = 256;
/// HTTP/1.1: the smallest read buffer that hyper accepts. With a larger limit it would take a
/// buffer of twice this size, because its first read gets only the beginning of a head.
const K2V_HEAD_BYTES: usize = 8 << 10;

/// Creates the K2V API on `model`, with its metrics in `registry`.
pub fn k2v(
    common: &Common,
    of_k2v: &config::K2v,
    model: &Model,
    clock: Arc<dyn WallClock>,
    audit: Audit,
    registry: &mut Registry,
) -> K2v {
    let connections = of_k2v.connections as usize;
    let config = K2vConfig {
        region: common.settings.s3.region.clone(),
        limits: Limits {
            connections,
            // Each poll over HTTP/1.1 takes a connection, and one application may have many. Not
            // all: a stranger could take them, too.
            connections_per_address: connections - connections / 6,
            // Many polls wait on behalf of clients that may go away.
            half_close: false,
            streams: K2V_STREAMS,
            head_bytes: K2V_HEAD_BYTES,
            ..common.limits
        },
        rates: common.rates(),
        audit,
    };
    let registry = registry.sub_registry_with_prefix("archipel");
    K2v::new(model.clone(), config, registry, clock, &SystemRandom)
}

/// Creates the service that answers an authority over plain HTTP.
pub fn plain(common: &Common, acme: Acme, metrics: Metrics) -> PlainService {
    PlainService::new(acme, common.limits, metrics)
}

/// Registers the metrics of an endpoint.
pub fn metrics_of(endpoint: &str, registry: &mut Registry) -> Metrics {
    Metrics::register(registry.sub_registry_with_prefix("archipel"), endpoint)
}

/// Creates the web console over the admin API and S3 of this node.
pub fn console(
    common: &Common,
    of_console: &config::Console,
    admin: Inside,
    s3: S3,
    clock: Arc<dyn WallClock>,
    addresses: Addresses,
    metrics: Metrics,
) -> Console {
    let settings = &common.settings;
    let here = || listeners::url(settings, "s3", addresses.s3);
    let config = ConsoleConfig {
        limits: common.limits,
        port: addresses.console.map_or(0, |at| at.port()),
        s3_url: of_console.s3_url.clone().unwrap_or_else(here),
        region: settings.s3.region.clone(),
    };
    Console::new(admin, s3, config, clock, Arc::new(SystemRandom), metrics)
}

fn limits(settings: &Settings) -> Limits {
    let defaults = Limits::default();
    let of_address = settings.limits.connections_per_address;
    let of_address = of_address.map(|connections| connections as usize);
    Limits {
        connections: settings.limits.connections as usize,
        connections_per_address: of_address.unwrap_or(defaults.connections_per_address),
        spares_loopback: of_address.is_none(),
        proxies: Proxies {
            networks: settings.limits.trusted_proxies.clone().leak(),
            header: settings.limits.proxy_header,
        },
        shutdown: Duration::from_secs(settings.limits.shutdown_seconds.into()),
        ..defaults
    }
}

/// Serves a service until `stop` turns true and the running requests have ended. `tracer` begins
/// their spans.
pub async fn serve_endpoint(
    service: Arc<dyn Service>,
    listener: TcpListener,
    tls: Option<Tls>,
    tracer: Tracer,
    mut stop: watch::Receiver<bool>,
) {
    let stopped = async move {
        // An error means that the sender is gone, which also means stop.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    serve::serve(vec![listener], service, tls, tracer, Box::pin(stopped)).await;
}
