//! `archipel snapshot`

use archipel_api::admin::types::SnapshotInfo;
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::config::{self, size};
use crate::{process, snapshots};

/// What can be done with snapshots.
#[derive(Subcommand)]
pub enum Command {
    /// Make a snapshot of the server's metadata, into "snapshots" in its data folder
    Create,
    /// List the snapshots
    List,
    /// Put a snapshot in the place of the metadata of a server that does not run and is alone; needs --config
    Restore {
        /// The snapshot
        name: String,
    },
}

/// Does it.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let snapshots: Vec<SnapshotInfo> = match command {
        Command::Create => vec![target.client()?.post("/v1/snapshots", &()).await?],
        Command::List => target.client()?.get("/v1/snapshots").await?,
        Command::Restore { name } => return restore(target, &name),
    };
    if target.json {
        return table::print_json(&snapshots);
    }
    let rows: Vec<[String; 3]> = snapshots
        .iter()
        .map(|s| [s.name.clone(), table::age(s.made_ms), size::show(s.bytes)])
        .collect();
    table::print(["SNAPSHOT", "AGE", "SIZE"], &rows)
}

fn restore(target: &Target, name: &str) -> Result<(), Failure> {
    let missing = || Failure("name the server's configuration with --config".into());
    let path = target.config.as_ref().ok_or_else(missing)?;
    let loaded =
        config::load(path, std::env::vars()).map_err(|error| Failure(error.to_string()))?;
    // The metadata holds secrets.
    process::keep_files_private();
    let kept = snapshots::restore(&loaded.settings, name).map_err(Failure)?;
    table::text(&format!(
        "the metadata is that of {name}; what it was before is in {}\n\
         When the server starts, content that was written since {name} is freed for good: to go back, swap the \
         folders before that. Content that was deleted since is gone; `archipel verify --deep` tells what is missing.",
        kept.display()
    ))
}
