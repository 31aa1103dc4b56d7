//! `archipel metadata`

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_storage::RebuildProgress;
use archipel_storage::engine::EngineKind;
use archipel_storage::engine::convert::{Converted, Step};
use archipel_storage::store::Rebuilt;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::progress::{self, LOOK, Progress};
use super::{ServerArgs, table, terminal};
use crate::client::Failure;
use crate::config::{Settings, size};
use crate::{ask, metadata, process, server};

/// The subcommands of `archipel metadata`.
#[derive(Subcommand)]
pub enum Command {
    /// Convert the metadata to another engine. The old engine's files stay
    Convert {
        /// The new engine: lmdb, sqlite or fjall
        engine: EngineKind,
        /// The server.
        #[command(flatten)]
        local: Local,
    },
    /// Rebuild the index of blocks, from all disks and all objects. It takes as long as reading all
    /// blocks. If it is interrupted, run it again before the server starts
    RebuildBlocks {
        /// The server.
        #[command(flatten)]
        local: Local,
    },
}

/// A stopped server.
#[derive(Args)]
pub struct Local {
    /// The server.
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print results and errors only: no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs a subcommand.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Convert { engine, local } => convert(&local, engine),
        Command::RebuildBlocks { local } => rebuild(&local),
    }
}

/// The JSON of `convert`.
#[derive(Serialize)]
struct ConvertedJson {
    from: &'static str,
    to: &'static str,
    entries: u64,
    bytes: u64,
    old_files: PathBuf,
}

fn convert(local: &Local, to: EngineKind) -> Result<(), Failure> {
    let settings = settings(local)?;
    let mut shown = Progress::new();
    let converted = metadata::convert(&settings, to, &mut |step| shown.show(&line(step)));
    shown.end();
    let Converted {
        from,
        copied,
        old_files,
    } = converted.map_err(Failure::new)?;
    if local.json {
        return table::print_json(&ConvertedJson {
            from: from.name(),
            to: to.name(),
            entries: copied.entries,
            bytes: copied.bytes,
            old_files,
        });
    }
    table::document(&format!(
        "Converted {} entries ({}) from {from} to {to}, and compared them.\nSet engine = \"{to}\" in the \
         configuration before the server starts. Once it works, remove {}.",
        copied.entries,
        size::show(copied.bytes),
        old_files.display()
    ))
}

/// Returns the progress line of a conversion.
fn line(step: Step) -> String {
    match step {
        Step::Copying(copied) => format!(
            "copying: {} entries, {}",
            copied.entries,
            size::show(copied.bytes)
        ),
        Step::Comparing { done, all } => format!("comparing: {}", progress::bar(done, all)),
    }
}

/// The JSON of `rebuild-blocks`.
#[derive(Serialize)]
struct RebuiltJson {
    blocks: u64,
    duplicates: u64,
    broken: u64,
    references: u64,
    missing: u64,
    dropped: u64,
    damaged: u64,
}

fn rebuild(local: &Local) -> Result<(), Failure> {
    let settings = settings(local)?;
    let progress = Arc::new(RebuildProgress::default());
    let Rebuilt {
        found,
        references,
        missing,
        dropped,
        damaged,
    } = watched(&progress, || {
        ask(async {
            let rebuilt = metadata::rebuild_blocks(&settings, &progress);
            rebuilt.await.map_err(Failure::new)
        })
    })?;
    if local.json {
        return table::print_json(&RebuiltJson {
            blocks: found.blocks,
            duplicates: found.duplicates,
            broken: found.broken,
            references,
            missing,
            dropped,
            damaged,
        });
    }
    let mut text = format!(
        "The index has {} blocks with {references} references. {dropped} blocks that no object refers to were freed.",
        found.blocks - dropped
    );
    if damaged > 0 {
        text += &format!(
            "\n{damaged} objects or parts are damaged in the metadata; their blocks were freed if nothing else \
             refers to them."
        );
    }
    if missing > 0 {
        text += &format!(
            "\n{missing} references are to blocks that no disk holds. In a cluster, start the server and run \
             `archipel repair blocks`; alone, `archipel verify --deep` names the objects."
        );
    }
    table::document(&text)
}

/// Runs `work` and shows `progress` meanwhile.
fn watched<T>(progress: &RebuildProgress, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (over, ended) = std::sync::mpsc::sync_channel::<()>(0);
        scope.spawn(move || {
            let mut shown = Progress::new();
            // The sender is dropped at the end of the work.
            while ended.recv_timeout(LOOK) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                shown.show(&rebuild_line(progress));
            }
            shown.end();
        });
        let done = work();
        drop(over);
        done
    })
}

/// Returns the progress line of a rebuild.
fn rebuild_line(progress: &RebuildProgress) -> String {
    let [all, scanned, references] = [
        &progress.all_bytes,
        &progress.scanned_bytes,
        &progress.references,
    ]
    .map(|number| number.load(Ordering::Relaxed));
    if scanned < all || references == 0 {
        let bar = progress::bar(scanned, all);
        return format!("reading blocks: {bar} of {}", size::show(all));
    }
    format!("counting references: {references}")
}

fn settings(local: &Local) -> Result<Settings, Failure> {
    terminal::be_quiet_if_asked(local.quiet, local.json);
    let loaded = server::load(&local.server)?;
    // The metadata holds secrets.
    process::keep_files_private();
    Ok(loaded.settings)
}
