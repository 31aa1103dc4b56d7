//! `archipel snapshot`

use archipel_api::admin::types::SnapshotInfo;
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::config::{self, Settings, size};
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
    /// After the folders of ALL nodes of a cluster were put back from copies: have this one believed as it is. To be done on every node
    /// before the first one starts; needs --config
    Accept,
}

/// Does it.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let snapshots: Vec<SnapshotInfo> = match command {
        Command::Create => vec![target.client()?.post("/v1/snapshots", &()).await?],
        Command::List => target.client()?.get("/v1/snapshots").await?,
        Command::Restore { name } => return restore(target, &name),
        Command::Accept => return accept(target).await,
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

/// The settings of a server that does not run.
fn settings(target: &Target) -> Result<Settings, Failure> {
    let missing = || Failure("name the server's configuration with --config".into());
    let path = target.config.as_ref().ok_or_else(missing)?;
    let loaded = config::load(path, std::env::vars());
    let loaded = loaded.map_err(|error| Failure(error.to_string()))?;
    // The metadata holds secrets.
    process::keep_files_private();
    Ok(loaded.settings)
}

async fn accept(target: &Target) -> Result<(), Failure> {
    let epoch = snapshots::accept(settings(target)?)
        .await
        .map_err(Failure)?;
    table::text(&format!(
        "this node is believed as it is (epoch {epoch} of the layout), once all others have done the same: do that before the first one \
         starts.\nThen start them all, wait until `archipel status` tells of nothing to fetch, and run `archipel verify --deep`."
    ))
}

fn restore(target: &Target, name: &str) -> Result<(), Failure> {
    let kept = snapshots::restore(&settings(target)?, name).map_err(Failure)?;
    table::text(&format!(
        "the metadata is that of {name}; what it was before is in {}\n\
         When the server starts, content that was written since {name} is freed for good: to go back, swap the \
         folders before that. Content that was deleted since is gone; `archipel verify --deep` tells what is missing.",
        kept.display()
    ))
}
