//! Writes the audit log to its targets: a file, standard output, a webhook.
//!
//! Each target has a queue and a thread or task of its own, so that a slow one delays no other and no
//! request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archipel_api::audit::{Audit, Lines};
use archipel_api::webhook::Webhook;
use archipel_base::clock::WallClock;
use bytes::{Bytes, BytesMut};
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
        targets.push(Target::Blocking(Box::new(Stdout)));
    }
    if let Some(address) = &settings.webhook {
        let webhook = Webhook::new(address.clone(), None).map_err(|why| {
            let fix = "correct the address, or remove it";
            format!("audit.webhook = \"{address}\": {why}; fix: {fix}")
        })?;
        targets.push(Target::Webhook(Box::new(webhook)));
    }
    let registry = registry.sub_registry_with_prefix("archipel");
    let (audit, lines) = Audit::new(targets.len(), clock, registry);
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
                tasks.spawn(send(*webhook, lines));
            }
        }
    }
    Ok((audit, Targets(tasks)))
}

impl Targets {
    /// Waits, for a limited time, until all lines are written. All endpoints must have ended before.
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

/// What lines are written to.
trait Sink: Send {
    /// Writes whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// A file that may be renamed at any time: the next lines then go to a new file.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path)?;
        let path = path.to_owned();
        Ok(LogFile { path, file })
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

impl Sink for LogFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_rotated() {
            *self = LogFile::open(&self.path)?;
        }
        self.file.write_all(lines)
    }
}

/// Standard output.
struct Stdout;

impl Sink for Stdout {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(lines)?;
        stdout.flush()
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
            match sink.write(&batch) {
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
fn next_blocking(lines: &mut Lines) -> Option<Bytes> {
    let first = lines.blocking_recv()?;
    Some(batch(first, lines))
}

fn batch(first: Bytes, lines: &mut Lines) -> Bytes {
    let mut batch = BytesMut::from(&first[..]);
    for _ in 1..BATCH_LINES {
        match lines.try_recv() {
            Ok(line) => batch.extend_from_slice(&line),
            Err(_) => break,
        }
    }
    batch.freeze()
}

/// Posts lines to a webhook until they end. An answer other than 2xx, or none, is tried again; the
/// queue loses lines meanwhile.
async fn send(webhook: Webhook, mut lines: Lines) {
    let mut failing = false;
    while let Some(first) = lines.recv().await {
        let batch = batch(first, &mut lines);
        while let Err(why) = webhook.post("application/x-ndjson", batch.clone()).await {
            if !failing {
                tracing::error!(
                    why,
                    "the webhook of the audit log fails; later lines may be lost"
                );
            }
            failing = true;
            tokio::time::sleep(WEBHOOK_PAUSE).await;
        }
        failing = false;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{LogFile, Sink};

    #[test]
    fn renamed_file_gets_no_further_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut log = LogFile::open(&path).unwrap();
        log.write(b"1\n").unwrap();
        let rotated = folder.path().join("audit.log.1");
        fs::rename(&path, &rotated).unwrap();
        log.write(b"2\n").unwrap();
        log.write(b"3\n").unwrap();
        assert_eq!(fs::read_to_string(&rotated).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n3\n");
        fs::remove_file(&path).unwrap();
        log.write(b"4\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
    }
}
