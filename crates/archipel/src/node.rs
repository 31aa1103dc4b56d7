//! A running node: storage, cluster, model and endpoints, wired together and taken apart.

use std::sync::Arc;
use std::time::Duration;

use archipel_api::serve::tls::Tls;
use archipel_base::clock::{SystemClock, WallClock};
use archipel_model::Model;
use archipel_storage::Store;
use archipel_traces::Tracer;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::acme::Acme;
use crate::certificates::InUse;
use crate::client::Failure;
use crate::config::Settings;
use crate::identity::Identity;
use crate::listeners::{Addresses, Listeners};
use crate::lock::FolderLock;
use crate::network::Links;
use crate::process::StopSignals;
use crate::{
    acme, audit, background, certificates, event_targets, first_start, listeners, model, snapshots,
    storage, traces,
};

mod opening;

/// The threads for blocking work outside storage: name lookups and small files.
const BLOCKING_THREADS: usize = 4;

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
    certificates: InUse,
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
    /// Starts a node. It serves requests when this returns. Returns `None` if a stop signal came
    /// before, for instance while its store was wiped: the next start goes on with that.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn start(settings: Settings) -> Result<Option<Node>, String> {
        let mut signals = StopSignals::new().map_err(|error| format!("signals: {error}"))?;
        let lock = FolderLock::take(&settings.data_dir)?;
        // The addresses are checked before anything is made or opened, because an address in use is
        // the most common mistake.
        let loaded = certificates::load(&settings)?;
        let tls = loaded.as_ref().map(|loaded| loaded.tls.clone());
        let certificates = loaded.as_ref().map(|loaded| loaded.in_use.clone());
        let listeners = Listeners::open(&settings).await?;
        let addresses = listeners.addresses()?;
        let settings = Arc::new(settings);
        let identity = Identity::load(&settings.data_dir)?;
        snapshots::remove_remains(settings.clone()).await;
        let storage = storage::open(settings.clone(), &identity).await?;
        let store = storage.store.clone();
        let links = open_links(&settings, &store, addresses).await?;
        let clock: Arc<dyn WallClock> = match &links {
            Some(links) => links.members.clock(),
            None => Arc::new(SystemClock),
        };
        let configured = settings.traces.as_ref();
        let (tracer, traces) = traces::start(configured, &identity.node_id(), clock.clone())?;
        let opening = model::open(&settings, &store, &identity, links.as_ref(), clock.clone());
        let stop = async || signals.next().await;
        let Some(model) = unless_stopped(opening, stop, close(&store)).await? else {
            return Ok(None);
        };
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
        if let (Some(loaded), Some(configured)) = (loaded, &settings.tls) {
            let files = configured.certificates.clone();
            background.spawn(certificates::watch(files, loaded, clock.clone()));
        }
        let acme = acme::start(&settings, tls.as_ref(), &model, &clock, &mut background);
        let warnings = listeners::plain_text(&settings, addresses);
        for warning in warnings.iter().chain(&storage.shared_disks) {
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
            certificates: certificates.unwrap_or_default(),
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
        Ok(Some(node))
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

    /// Serves until SIGINT or SIGTERM, or until an endpoint ends, and then stops. Running requests
    /// get the time that the settings allow. A second signal ends the process at once.
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
            signal = signals.next() => Err(ended_at_once(signal)),
        }
    }
}

fn ended_at_once(signal: &str) -> String {
    format!("ended at once by a second signal ({signal})")
}

/// Waits for a part of the start, unless a stop comes first. Then it leaves the rest to the next
/// start, closes the store with `close` and returns `None`.
///
/// # Errors
/// A text for the operator: the part failed, the store could not be closed cleanly, or a second
/// signal arrived.
async fn unless_stopped<T>(
    part: impl Future<Output = Result<T, String>>,
    mut stop: impl AsyncFnMut() -> &'static str,
    close: impl Future<Output = Result<(), String>>,
) -> Result<Option<T>, String> {
    tokio::select! {
        done = part => return done.map(Some),
        signal = stop() => tracing::info!(
            signal,
            "stopping before the start has ended; another signal ends the process at once"
        ),
    }
    tokio::select! {
        closed = close => closed.map(|()| None),
        signal = stop() => Err(ended_at_once(signal)),
    }
}

/// Opens the network between nodes, if the settings name one.
async fn open_links(
    settings: &Settings,
    store: &Store,
    addresses: Addresses,
) -> Result<Option<Links>, String> {
    let Some(network) = &settings.cluster.network else {
        return Ok(None);
    };
    let s3 = listeners::url(settings, "s3", addresses.s3);
    let capacity = storage::capacity_bytes(settings, store).await;
    let links = Links::open(network, &settings.data_dir, store, &s3, capacity).await?;
    Ok(Some(links))
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
    use std::future::pending;

    use archipel_base::random::SystemRandom;
    use archipel_storage::Threads;
    use archipel_storage::engine::Durability;

    use crate::config;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn node_stops_in_order_when_an_endpoint_ends() {
        let folder = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let settings = config::for_demo(folder.path().to_owned(), any, any, any, any);
        let mut node = Node::start(settings).await.unwrap().unwrap();
        let socket = node.settings.admin.socket.clone();
        assert!(socket.exists());
        node.tasks.spawn(async {});
        let error = node.run_until_signal().await.unwrap_err();
        // An error of storage would stand here instead.
        assert!(error.starts_with("an endpoint ended"), "{error}");
        assert!(!socket.exists(), "the node did not stop in order");
    }

    /// A store that comes back is wiped before its node serves, which may take many minutes.
    #[tokio::test]
    async fn a_stop_does_not_wait_for_a_start() {
        let random = Arc::new(SystemRandom);
        let store = archipel_cluster::memory_store(random, Threads::Inline).unwrap();
        let endless = pending::<Result<(), String>>();
        let mut signals = ["SIGTERM"].into_iter();
        let stop = async || match signals.next() {
            Some(signal) => signal,
            None => pending().await,
        };
        let stopped = unless_stopped(endless, stop, close(&store));
        assert_eq!(stopped.await, Ok(None));
        let later = store.transact(Durability::Fsync, |_| Ok(()));
        assert!(later.await.is_err(), "the store is open still");
    }

    /// A store whose disk hangs does not close in time.
    #[tokio::test]
    async fn a_second_signal_ends_a_stop_before_the_start_has_ended() {
        let endless = pending::<Result<(), String>>();
        let stopped = unless_stopped(endless, async || "SIGTERM", pending()).await;
        assert_eq!(stopped, Err(ended_at_once("SIGTERM")));
    }
}
