//! Writes the audit log to its targets: a file, standard output, a webhook.
//!
//! Each target has a queue and a thread or task of its own, so that a slow one delays no other and
//! no request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archipel_api::audit::{Audit, Line, Lines};
use archipel_api::webhook::Webhook;
use archipel_base::clock::WallClock;
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::config;

/// The most lines that are written at once.
const BATCH_LINES: usize = 512;

/// The pause after a failed attempt of the webhook.
const WEBHOOK_PAUSE: Duration = Duration::from_secs(1);

/// The time that targets get for what is left when the node stops.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The targets of a running node.
#[derive(Default)]
pub struct Targets(JoinSet<()>);

/// Opens the audit log that the settings name.
///
/// # Errors
/// A text for the operator.
pub fn open(
    settings: &config::Audit,
    clock: Arc<dyn WallClock>,
    registry: &mut Registry,
) -> Result<(Audit, Targets), String> {
    let mut targets: Vec<Target> = Vec::new();
    if let Some(path) = &settings.file {
        let file = LogFile::open(path).map_err(|error| {
            let fix = "name a file in a folder that the server may write to";
            format!("audit.file = {path:?}: {error}; fix: {fix}")
        })?;
        targets.push(Target::Blocking(Box::new(file)));
    }
    if settings.stdout {
        targets.push(Target::Blocking(Box::new(Stdout::default())));
    }
    if let Some(address) = &settings.webhook {
        let webhook = Webhook::new(address.clone(), None).map_err(|why| {
            let fix = "correct the address, or remove it";
            format!("audit.webhook: {why}; fix: {fix}")
        })?;
        targets.push(Target::Webhook(Box::new(webhook)));
    }
    let registry = registry.sub_registry_with_prefix("archipel");
    let (audit, lines) = Audit::new(targets.len(), clock, registry);
    let refused = Counter::default();
    registry.register(
        "audit_refused_lines",
        "Lines of the audit log that its webhook refused for good",
        refused.clone(),
    );
    let mut tasks = JoinSet::new();
    for (target, lines) in targets.into_iter().zip(lines) {
        match target {
            Target::Blocking(sink) => {
                let ended = on_thread(sink, lines)
                    .map_err(|error| format!("cannot start a thread for the audit log: {error}"))?;
                tasks.spawn(async move {
                    // The sender is dropped when the thread ends.
                    let _ = ended.await;
                });
            }
            Target::Webhook(webhook) => {
                tasks.spawn(send(*webhook, lines, refused.clone()));
            }
        }
    }
    Ok((audit, Targets(tasks)))
}

impl Targets {
    /// Waits, for a limited time, until all lines are written. All endpoints must have ended
    /// before.
    pub async fn finish(mut self) {
        let written = async { while self.0.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_LINES, written).await.is_err() {
            tracing::warn!("the last lines of the audit log could not be written");
        }
    }
}

enum Target {
    Blocking(Box<dyn Sink>),
    Webhook(Box<Webhook>),
}

/// A target that blocks the thread that writes to it.
trait Sink: Send {
    /// Writes whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// Writes whole lines. `is_torn` remembers that a write failed in the middle of a line, so that the
/// next one begins a new line.
fn write_lines(to: &mut impl Write, is_torn: &mut bool, lines: &[u8]) -> io::Result<()> {
    if *is_torn {
        to.write_all(b"\n")?;
        *is_torn = false;
    }
    let mut rest = lines;
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                let (written, left) = rest.split_at_checked(count).unwrap_or((rest, &[]));
                *is_torn = !written.ends_with(b"\n");
                rest = left;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    to.flush()
}

/// A file that may be renamed at any time: the next lines then go to a new file.
struct LogFile {
    path: PathBuf,
    file: File,
    is_torn: bool,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path)?;
        Ok(LogFile {
            is_torn: is_torn(path, &file),
            path: path.to_owned(),
            file,
        })
    }

    /// Returns true if the path no longer names the open file.
    fn is_rotated(&self) -> bool {
        let id = |metadata: io::Result<std::fs::Metadata>| {
            metadata
                .map(|metadata| (metadata.dev(), metadata.ino()))
                .ok()
        };
        id(std::fs::metadata(&self.path)) != id(self.file.metadata())
    }
}

/// Returns true if a file ends in the middle of a line, as an earlier run may have left it.
fn is_torn(path: &Path, file: &File) -> bool {
    // Opening a pipe to read from it would take lines away.
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file);
    let last = metadata.and_then(|metadata| metadata.len().checked_sub(1));
    last.is_some_and(|last| {
        let mut end = [0];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut end, last));
        read.is_ok() && end != *b"\n"
    })
}

impl Sink for LogFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_rotated() {
            *self = LogFile::open(&self.path)?;
        }
        write_lines(&mut self.file, &mut self.is_torn, lines)
    }
}

/// Standard output.
#[derive(Default)]
struct Stdout {
    is_torn: bool,
}

impl Sink for Stdout {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        write_lines(&mut io::stdout().lock(), &mut self.is_torn, lines)
    }
}

/// Writes lines on a thread of its own until they end. The receiver learns the end.
fn on_thread(
    mut sink: Box<dyn Sink>,
    mut lines: Lines,
) -> io::Result<tokio::sync::oneshot::Receiver<()>> {
    let (end, ended) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("audit".into());
    thread.spawn(move || {
        let mut failing = false;
        while let Some(batch) = next_blocking(&mut lines) {
            match sink.write(&batch.concat()) {
                Ok(()) => failing = false,
                // The lines are lost. A log of errors as long as the audit log would help nobody.
                Err(error) if !failing => {
                    failing = true;
                    tracing::error!(%error, "the audit log cannot be written; lines are lost");
                }
                Err(_) => {}
            }
        }
        drop(end);
    })?;
    Ok(ended)
}

/// Waits for lines and takes all that are there, up to a bound.
fn next_blocking(lines: &mut Lines) -> Option<Vec<Line>> {
    let first = lines.blocking_recv()?;
    Some(batch(first, lines))
}

fn batch(first: Line, lines: &mut Lines) -> Vec<Line> {
    let further = std::iter::from_fn(|| lines.try_recv().ok());
    std::iter::once(first)
        .chain(further.take(BATCH_LINES - 1))
        .collect()
}

/// Posts lines to a webhook until they end. A batch that fails is tried again, and the queue loses
/// lines meanwhile. A batch that is refused for good is halved, so that only those lines are
/// dropped that are refused alone. The pause after each of them leaves time to correct a wrong
/// address.
async fn send(webhook: Webhook, mut lines: Lines, refused: Counter) {
    let mut failing = false;
    while let Some(first) = lines.recv().await {
        let mut batches = vec![batch(first, &mut lines)];
        while let Some(mut batch) = batches.pop() {
            let message = Bytes::from(batch.concat());
            let Err(error) = webhook.post("application/x-ndjson", message).await else {
                failing = false;
                continue;
            };
            if error.is_final() && batch.len() > 1 {
                let second = batch.split_off(batch.len() / 2);
                batches.extend([second, batch]);
                continue;
            }
            if !failing {
                tracing::error!(%error, "the webhook of the audit log fails; lines may be lost");
            }
            failing = true;
            if error.is_final() {
                refused.inc();
            } else {
                batches.push(batch);
            }
            tokio::time::sleep(WEBHOOK_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests;
