//! The endpoints of a starting node: those for users first, then the admin API over all of them.

use std::sync::Arc;
use std::time::Duration;

use archipel_api::admin::{self, Admin, Inside, Trust};
use archipel_api::audit::Audit;
use archipel_api::s3::S3;
use archipel_api::serve::tls::Tls;
use archipel_api::serve::{Metrics, Service};
use archipel_base::clock::WallClock;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::Node;
use crate::config::Secret;
use crate::endpoints::Common;
use crate::identity::Identity;
use crate::listeners::{Listeners, listen};
use crate::status::NodeView;
use crate::storage::Storage;
use crate::{audit, endpoints, metrics, socket};

/// The time that requests wait for the starting node to find the others. Later they are refused.
const FIND_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts that several endpoints take.
struct Shared {
    common: Common,
    clock: Arc<dyn WallClock>,
    audit: Audit,
    /// The metrics of the node so far.
    registry: Registry,
}

impl Node {
    /// Opens the endpoints that the settings name.
    ///
    /// # Errors
    /// A text for the operator.
    pub(super) async fn open_endpoints(
        &mut self,
        storage: Storage,
        identity: &Identity,
        listeners: Listeners,
        clock: Arc<dyn WallClock>,
    ) -> Result<(), String> {
        let mut registry = self.metrics(clock.clone());
        let (audit, targets) = audit::open(&self.settings.audit, clock.clone(), &mut registry)?;
        self.audit = targets;
        let mut shared = Shared {
            common: Common::new(self.settings.clone()),
            clock,
            audit,
            registry,
        };
        let s3 = self.open_s3(&mut shared, listeners.s3);
        self.open_acme(&mut shared, listeners.plain);
        self.open_web(&mut shared, listeners.web);
        self.open_k2v(&mut shared, listeners.k2v);
        let pages = endpoints::metrics_of("console", &mut shared.registry);
        let Shared {
            common,
            clock,
            audit,
            registry,
        } = shared;
        let admin = self.admin(storage, identity, clock.clone(), audit, registry);
        s3.set_health(endpoints::health(admin.clone()));
        if let Some(listener) = listeners.console {
            self.open_console(&common, listener, &admin, s3, clock, pages);
        }
        self.open_admin(admin).await
    }

    /// Returns the metrics of the node, without those of its endpoints.
    fn metrics(&self, clock: Arc<dyn WallClock>) -> Registry {
        let mut registry = Registry::default();
        metrics::register(&mut registry, clock, self.store.clone());
        metrics::upkeep::register(&mut registry, self.model.cluster().clone());
        metrics::keyring::register(&mut registry, self.model.clone());
        metrics::lifecycle::register(&mut registry, self.model.clone());
        if let Some(links) = &self.links {
            metrics::register_links(&mut registry, links.clone());
        }
        metrics::traces::register(&mut registry, self.tracer.clone());
        metrics::events::register(&mut registry, self.model.clone());
        registry
    }

    fn open_s3(&mut self, shared: &mut Shared, listener: TcpListener) -> S3 {
        let (clock, audit) = (shared.clock.clone(), shared.audit.clone());
        let registry = &mut shared.registry;
        let s3 = endpoints::s3(&shared.common, &self.model, clock, audit, registry);
        self.open_endpoint("s3", s3.clone(), listener);
        s3
    }

    /// Opens the endpoint for an authority of certificates, if there is one.
    fn open_acme(&mut self, shared: &mut Shared, listener: Option<TcpListener>) {
        let of_acme = endpoints::metrics_of("acme", &mut shared.registry);
        if let (Some(listener), Some(acme)) = (listener, &self.acme) {
            let plain = endpoints::plain(&shared.common, acme.clone(), of_acme);
            self.open_endpoint("acme", plain, listener);
        }
        let (files, acme) = (self.certificates.clone(), self.acme.clone());
        metrics::certificates::register(&mut shared.registry, files, acme);
    }

    fn open_web(&mut self, shared: &mut Shared, listener: Option<TcpListener>) {
        if let (Some(listener), Some(web)) = (listener, &self.settings.web) {
            let (root, audit) = (web.root_domain.as_deref(), shared.audit.clone());
            let registry = &mut shared.registry;
            let web = endpoints::web(&shared.common, root, &self.model, audit, registry);
            self.open_endpoint("web", web, listener);
        }
    }

    fn open_k2v(&mut self, shared: &mut Shared, listener: Option<TcpListener>) {
        if let (Some(listener), Some(of_k2v)) = (listener, &self.settings.k2v) {
            let (clock, audit) = (shared.clock.clone(), shared.audit.clone());
            let (common, registry) = (&shared.common, &mut shared.registry);
            let k2v = endpoints::k2v(common, of_k2v, &self.model, clock, audit, registry);
            self.open_endpoint("k2v", k2v, listener);
        }
    }

    /// Creates the admin API, which shows all metrics and the node itself.
    fn admin(
        &self,
        storage: Storage,
        identity: &Identity,
        clock: Arc<dyn WallClock>,
        audit: Audit,
        mut registry: Registry,
    ) -> Arc<Admin> {
        let view = NodeView::new(
            self.settings.clone(),
            storage,
            identity,
            self.addresses,
            clock,
            self.links.clone(),
            self.acme.clone(),
        );
        let view = view.with_certificates(self.certificates.clone());
        let view: Arc<dyn admin::Node> = Arc::new(view);
        admin::metrics::register(&mut registry, self.model.clone(), view.clone());
        let tokens = &self.settings.admin;
        let admin = Admin::new(
            self.model.clone(),
            view,
            Arc::new(registry),
            tokens.token.as_ref().map(Secret::expose),
            tokens.metrics_token.as_ref().map(Secret::expose),
        );
        let of_disks = metrics::disks::registry(self.store.clone());
        let admin = admin.with_disk_metrics(Arc::new(of_disks));
        Arc::new(admin.with_audit(audit).with_tracer(self.tracer.clone()))
    }

    fn open_console(
        &mut self,
        common: &Common,
        listener: TcpListener,
        admin: &Arc<Admin>,
        s3: S3,
        clock: Arc<dyn WallClock>,
        metrics: Metrics,
    ) {
        if let Some(of_console) = &self.settings.console {
            let (inside, at) = (Inside::new(admin.clone()), self.addresses);
            let console = endpoints::console(common, of_console, inside, s3, clock, at, metrics);
            self.open_endpoint("console", console, listener);
        }
    }

    /// Serves the admin API on the local socket, and on the TCP address that the settings may name.
    async fn open_admin(&mut self, admin: Arc<Admin>) -> Result<(), String> {
        let path = &self.settings.admin.socket;
        let local = socket::listen(path).await.map_err(|error| {
            format!("admin.socket = {path:?}: {error}; fix: name a path in a folder that the server may write to")
        })?;
        self.tasks.spawn(admin::serve(
            local,
            Trust::Peer,
            admin.clone(),
            None,
            self.stop.subscribe(),
        ));
        if let Some(address) = self.settings.admin.listen {
            let listener = listen("admin.listen", address).await?;
            self.tasks.spawn(admin::serve(
                listener,
                Trust::Token,
                admin,
                self.tls_of("admin"),
                self.stop.subscribe(),
            ));
        }
        Ok(())
    }

    /// Returns the certificates of a listener, if it speaks TLS.
    fn tls_of(&self, section: &str) -> Option<Tls> {
        let tls = self.tls.clone();
        tls.filter(|_| self.settings.has_tls(section))
    }

    /// Serves a service once the buckets and keys are known.
    fn open_endpoint(&mut self, section: &str, service: impl Service, listener: TcpListener) {
        let (tls, tracer) = (self.tls_of(section), self.tracer.clone());
        let (model, mut stop) = (self.model.clone(), self.stop.subscribe());
        self.tasks.spawn(async move {
            // Until then, connections wait in the listener's queue.
            tokio::select! {
                () = model.wait_until_read(FIND_TIMEOUT) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            endpoints::serve_endpoint(Arc::new(service), listener, tls, tracer, stop).await;
        });
    }
}
