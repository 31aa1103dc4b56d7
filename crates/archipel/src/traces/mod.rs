//! Sends finished spans to the collector that the settings name: in the background, many at once.
//!
//! | module | what it holds |
//! |---|---|
//! | [`otlp`] | the messages of OTLP |

mod otlp;

use std::sync::Arc;
use std::time::Duration;

use archipel_api::webhook::Webhook;
use archipel_base::clock::WallClock;
use archipel_base::random::SystemRandom;
use archipel_traces::{Queue, Record, Sampling, Tracer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config;

/// The most spans of one message.
const BATCH_SPANS: usize = 512;

/// The time for which spans wait for others, so that a message holds several.
const GATHER: Duration = Duration::from_secs(1);

/// The pause after a failed message.
const PAUSE: Duration = Duration::from_secs(1);

/// The time for what is left when the node stops.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// The export of a running node. The default has nothing to send.
#[derive(Default)]
pub struct Export {
    stop: watch::Sender<()>,
    tasks: JoinSet<()>,
}

/// Starts the export of traces, if the settings name a collector. `node` is the id of this node.
///
/// # Errors
/// A text for the operator.
pub fn start(
    settings: Option<&config::Traces>,
    node: &str,
    clock: Arc<dyn WallClock>,
) -> Result<(Tracer, Export), String> {
    let Some(settings) = settings else {
        return Ok((Tracer::default(), Export::default()));
    };
    let roots = settings.ca_file.as_ref().map(std::fs::read).transpose();
    let roots = roots.map_err(|error| {
        let fix = "check that the file exists and that the server's user may read it";
        format!(
            "traces.ca_file = {:?}: {error}; fix: {fix}",
            settings.ca_file
        )
    })?;
    let (address, headers) = (settings.address.clone(), settings.headers.clone());
    let webhook = Webhook::with_headers(address, headers, roots.as_deref()).map_err(|why| {
        let fix = "correct the address or traces.ca_file, or remove the section";
        format!(
            "traces.endpoint = \"{}\": {why}; fix: {fix}",
            settings.address
        )
    })?;
    let sampling = Sampling {
        share: settings.sample,
        trusts_clients: settings.trust_clients,
    };
    let (tracer, queue) = Tracer::new(sampling, clock, Arc::new(SystemRandom));
    let exporter = Exporter {
        webhook,
        queue,
        resource: otlp::resource(node),
        is_failing: false,
    };
    let (stop, stopping) = watch::channel(());
    let mut tasks = JoinSet::new();
    tasks.spawn(exporter.run(stopping));
    Ok((tracer, Export { stop, tasks }))
}

impl Export {
    /// Sends what is left, for a limited time. All endpoints must have ended before.
    pub async fn finish(self) {
        let Export { stop, mut tasks } = self;
        drop(stop);
        let sent = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_SPANS, sent).await.is_err() {
            tracing::warn!("the last spans could not be sent to the collector of traces");
        }
    }
}

struct Exporter {
    webhook: Webhook,
    queue: Queue,
    resource: otlp::Resource,
    is_failing: bool,
}

impl Exporter {
    /// Sends spans until `stopping` closes, and then what is left.
    async fn run(mut self, mut stopping: watch::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH_SPANS);
        loop {
            let first = self.queue.receive(&mut batch, BATCH_SPANS);
            tokio::select! {
                received = first => if received == 0 {
                    return;
                },
                _ = stopping.changed() => break,
            }
            tokio::select! {
                () = fill(&mut self.queue, &mut batch) => {}
                _ = stopping.changed() => {}
            }
            self.send(&mut batch).await;
            if self.is_failing {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    _ = stopping.changed() => {}
                }
            }
        }
        while let Some(span) = self.queue.try_receive() {
            batch.push(span);
            if batch.len() == BATCH_SPANS {
                self.send(&mut batch).await;
            }
        }
        self.send(&mut batch).await;
    }

    /// Sends the spans of a batch. They are lost if that fails: later ones need the room.
    async fn send(&mut self, batch: &mut Vec<Record>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len();
        let message = otlp::message(&self.resource, batch);
        batch.clear();
        let posted = self.webhook.post("application/x-protobuf", message).await;
        match posted {
            Ok(()) => {
                self.queue.exported(count);
                self.is_failing = false;
            }
            Err(error) => {
                self.queue.failed(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the collector of traces fails; spans are lost");
                }
            }
        }
    }
}

/// Waits until a batch is full, or for a limited time.
async fn fill(queue: &mut Queue, batch: &mut Vec<Record>) {
    let filled = async {
        while batch.len() < BATCH_SPANS {
            let room = BATCH_SPANS - batch.len();
            if queue.receive(batch, room).await == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(GATHER, filled).await;
}

#[cfg(test)]
mod tests;
