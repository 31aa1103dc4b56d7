//! A running node: storage, cluster, model and endpoints, wired together and taken apart.

use std::sync::Arc;
use std::time::Duration;

use archipel_api::admin::{self, Admin, Inside, Trust};
use archipel_api::serve::Service;
use archipel_api::serve::tls::Tls;
use archipel_base::clock::{SystemClock, WallClock};
use archipel_model::Model;
use archipel_storage::Store;
use archipel_traces::Tracer;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::acme::Acme;
use crate::client::Failure;
use crate::config::Settings;
use crate::identity::Identity;
use crate::listeners::{Addresses, Listeners, listen};
use crate::lock::FolderLock;
use crate::network::Links;
use crate::process::StopSignals;
use crate::status::NodeView;
use crate::storage::Storage;
use crate::{
    acme, audit, background, certificates, disks, endpoints, event_targets, first_start, listeners,
    metrics, model, snapshots, socket, storage, traces,
};

/// The threads for blocking work outside storage: name lookups and small files.
const BLOCKING_THREADS: usize = 4;

/// The time that requests wait for the starting node to find the others. Later they are refused.
const FIND_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that the endpoints get to cancel requests after the deadline.
const CUT_OFF_TIME: Duration = Duration::from_secs(1);

/// The time that storage gets to record a clean shutdown, after everything else has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Creates the threads of a server: one a core for requests, and a few for blocking work.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("archipel")
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))
}

/// A running node.
pub struct Node {
    settings: Arc<Settings>,
    model: Model,
    store: Store,
    addresses: Addresses,
    tls: Option<Tls>,
    acme: Option<Acme>,
    signals: StopSignals,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    links: Option<Links>,
    audit: audit::Targets,
    tracer: Tracer,
    traces: traces::Export,
    /// Tasks beside the endpoints. They may be dropped at any moment.
    background: JoinSet<()>,
    _lock: FolderLock,
}

impl Node {
    /// Starts a node. It serves requests when this returns.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn start(settings: Settings) -> Result<Node, String> {
        let signals = StopSignals::new().map_err(|error| format!("signals: {error}"))?;
        let lock = FolderLock::take(&settings.data_dir)?;
        // The addresses are checked before anything is made or opened, because an address in use is
        // the most common mistake.
        let tls = certificates::load(&settings)?;
        let listeners = Listeners::open(&settings).await?;
        let addresses = listeners.addresses()?;
        let settings = Arc::new(settings);
        let identity = Identity::load(&settings.data_dir)?;
        snapshots::remove_remains(settings.clone()).await;
        let storage = storage::open(settings.clone(), &identity).await?;
        let store = storage.store.clone();
        let links = match &settings.cluster.network {
            None => None,
            Some(network) => {
                let s3 = listeners::url(&settings, "s3", addresses.s3);
                let capacity = storage::capacity_bytes(&settings, &store).await;
                Some(Links::open(network, &settings.data_dir, &store, &s3, capacity).await?)
            }
        };
        let clock: Arc<dyn WallClock> = match &links {
            Some(links) => links.members.clock(),
            None => Arc::new(SystemClock),
        };
        let configured = settings.traces.as_ref();
        let (tracer, traces) = traces::start(configured, &identity.node_id(), clock.clone())?;
        let model =
            model::open(&settings, &store, &identity, links.as_ref(), clock.clone()).await?;
        // First: those who deliver events begin with the targets that are known.
        event_targets::declare(&model, &settings)?;
        let mut background = background::start(&settings, &model, &store);
        let first = settings.first_start.clone();
        background.spawn(first_start::run(model.clone(), first));
        if let (Some(links), Some(network)) = (&links, &settings.cluster.network) {
            links.rpc.trace_with(tracer.clone());
            links.start(model.cluster(), &mut background);
            let zone = &settings.cluster.zone;
            links.find(network, zone, model.cluster(), &mut background);
        }
        if let (Some(tls), Some(configured)) = (&tls, &settings.tls) {
            let files = configured.certificates.clone();
            background.spawn(certificates::watch(files, tls.clone()));
        }
        let acme = acme::start(&settings, tls.as_ref(), &model, &clock, &mut background);
        let mut warnings = listeners::plain_text(&settings, addresses);
        warnings.extend(disks::on_one_file_system(&settings.disks));
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let mut node = Node {
            background,
            links,
            settings,
            model,
            store,
            addresses,
            tls,
            acme,
            signals,
            audit: audit::Targets::default(),
            tracer,
            traces,
            stop: watch::channel(false).0,
            tasks: JoinSet::new(),
            _lock: lock,
        };
        node.open_endpoints(storage, &identity, listeners, clock)
            .await?;
        tracing::info!(
            node = identity.node_id(),
            s3 = %addresses.s3,
            web = addresses.web.map(tracing::field::display),
            k2v = addresses.k2v.map(tracing::field::display),
            console = addresses.console.map(tracing::field::display),
            engine = node.settings.engine.name(),
            version = crate::version::LONG.as_str(),
            "ready"
        );
        Ok(node)
    }

    async fn open_endpoints(
        &mut self,
        storage: Storage,
        identity: &Identity,
        listeners: Listeners,
        clock: Arc<dyn WallClock>,
    ) -> Result<(), String> {
        let mut registry = Registry::default();
        metrics::register(&mut registry, clock.clone(), self.store.clone());
        metrics::upkeep::register(&mut registry, self.model.cluster().clone());
        metrics::keyring::register(&mut registry, self.model.clone());
        metrics::lifecycle::register(&mut registry, self.model.clone());
        if let Some(links) = &self.links {
            metrics::register_links(&mut registry, links.clone());
        }
        metrics::traces::register(&mut registry, self.tracer.clone());
        metrics::events::register(&mut registry, self.model.clone());
        let opened = audit::open(&self.settings.audit, clock.clone(), &mut registry)?;
        let audit = opened.0;
        self.audit = opened.1;
        let (settings, model) = (self.settings.clone(), self.model.clone());
        let common = endpoints::Common::new(settings.clone());
        let (of_s3, log) = (clock.clone(), audit.clone());
        let s3 = endpoints::s3(&common, &model, of_s3, log, &mut registry);
        self.open_endpoint("s3", s3.clone(), listeners.s3);
        let of_acme = endpoints::metrics_of("acme", &mut registry);
        if let (Some(listener), Some(acme)) = (listeners.plain, &self.acme) {
            let plain = endpoints::plain(&common, acme.clone(), of_acme);
            self.open_endpoint("acme", plain, listener);
        }
        metrics::certificates::register(&mut registry, self.acme.clone());
        if let (Some(listener), Some(web)) = (listeners.web, &settings.web) {
            let root = web.root_domain.as_deref();
            let web = endpoints::web(&common, root, &model, audit.clone(), &mut registry);
            self.open_endpoint("web", web, listener);
        }
        if let (Some(listener), Some(of_k2v)) = (listeners.k2v, &settings.k2v) {
            let (clock, audit) = (clock.clone(), audit.clone());
            let k2v = endpoints::k2v(&common, of_k2v, &model, clock, audit, &mut registry);
            self.open_endpoint("k2v", k2v, listener);
        }
        let pages = endpoints::metrics_of("console", &mut registry);
        let view = NodeView::new(
            self.settings.clone(),
            storage,
            identity,
            self.addresses,
            clock.clone(),
            self.links.clone(),
            self.acme.clone(),
        );
        let view: Arc<dyn admin::Node> = Arc::new(view);
        admin::metrics::register(&mut registry, self.model.clone(), view.clone());
        let token =
            |secret: &Option<crate::config::Secret>| secret.as_ref().map(|s| s.expose().to_owned());
        let admin = Admin::new(
            self.model.clone(),
            view,
            Arc::new(registry),
            token(&self.settings.admin.token).as_deref(),
            token(&self.settings.admin.metrics_token).as_deref(),
        );
        let admin = Arc::new(admin.with_audit(audit).with_tracer(self.tracer.clone()));
        s3.set_health(endpoints::health(admin.clone()));
        if let (Some(listener), Some(of_console)) = (listeners.console, &settings.console) {
            let (inside, at) = (Inside::new(admin.clone()), self.addresses);
            let console = endpoints::console(&common, of_console, inside, s3, clock, at, pages);
            self.open_endpoint("console", console, listener);
        }
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

    /// Returns the model, for tasks beside the endpoints.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the settings of the node.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the addresses for users.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until SIGINT or SIGTERM, or until an endpoint ends, and then stops. Running requests get
    /// the time that the settings allow. A second signal ends the process at once.
    ///
    /// # Errors
    /// A text for the operator: an endpoint ended, storage could not be closed cleanly, or a second
    /// signal arrived.
    pub async fn run_until_signal(mut self) -> Result<(), String> {
        let deadline_seconds = self.settings.limits.shutdown_seconds;
        let signal = tokio::select! {
            signal = self.signals.next() => Some(signal),
            // The endpoints end only when they are told to.
            _ = self.tasks.join_next() => None,
        };
        if signal.is_none() {
            tracing::error!("an endpoint ended unexpectedly");
        }
        tracing::info!(
            signal,
            deadline_seconds,
            "stopping; another signal ends the process at once"
        );
        let Node {
            mut signals,
            stop,
            tasks,
            mut background,
            links,
            store,
            settings,
            audit,
            traces,
            ..
        } = self;
        stop.send_replace(true);
        let end = async {
            let deadline = Duration::from_secs(deadline_seconds.into()) + CUT_OFF_TIME;
            // Running requests still need the other nodes.
            finish(tasks, deadline).await;
            tokio::join!(audit.finish(), traces.finish());
            // This precedes the transport, because tasks that wait for calls would keep it from
            // closing.
            background.shutdown().await;
            if let Some(links) = links {
                links.rpc.transport().close().await;
            }
            let _ = std::fs::remove_file(&settings.admin.socket);
            close(&store).await
        };
        tokio::select! {
            ended = end => match signal {
                Some(_) => ended,
                None => ended.and(Err("an endpoint ended unexpectedly: see the log".into())),
            },
            signal = signals.next() => Err(format!("ended at once by a second signal ({signal})")),
        }
    }
}

/// Waits for the endpoints to close, up to the deadline.
async fn finish(mut tasks: JoinSet<()>, deadline: Duration) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(deadline, all).await.is_err() {
        tracing::warn!("requests still run after the deadline and are cancelled");
        tasks.shutdown().await;
    }
}

async fn close(store: &Store) -> Result<(), String> {
    match tokio::time::timeout(CLOSE_TIMEOUT, store.close()).await {
        Ok(Ok(())) => {
            tracing::info!("stopped");
            Ok(())
        }
        Ok(Err(error)) => Err(format!("storage did not close cleanly: {error}")),
        Err(_) => Err("storage did not close in time".into()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn node_stops_in_order_when_an_endpoint_ends() {
        let folder = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let settings = config::for_demo(folder.path().to_owned(), any, any, any, any);
        let mut node = Node::start(settings).await.unwrap();
        let socket = node.settings.admin.socket.clone();
        assert!(socket.exists());
        node.tasks.spawn(async {});
        let error = node.run_until_signal().await.unwrap_err();
        // An error of storage would stand here instead.
        assert!(error.starts_with("an endpoint ended"), "{error}");
        assert!(!socket.exists(), "the node did not stop in order");
    }
}
