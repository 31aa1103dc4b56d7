//! `archipel snapshot`

use archipel_api::admin::types::{OperationInfo, OperationState, SnapshotInfo};
use clap::Subcommand;

use super::filter::Prefix;
use super::progress::{LOOK, attended, waiting};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};
use crate::config::{self, Settings, size};
use crate::{process, snapshots};

/// The message to a person who ends the wait.
const GOES_ON: &str = "the server goes on with the snapshot: archipel operation info snapshot shows it, and archipel snapshot list names it once it is made";

/// The subcommands of `archipel snapshot`.
#[derive(Subcommand)]
pub enum Command {
    /// Make a snapshot of the server's metadata, in "snapshots" in its data folder
    Create,
    /// List the snapshots
    List(Prefix),
    /// Replace the metadata of a stopped server that has no cluster by a snapshot; needs --config
    Restore {
        /// The snapshot
        name: String,
    },
    /// Accept this node's data as it is, after the folders of ALL nodes of a cluster were restored
    /// from copies. Run it on every node before the first one starts; needs --config
    Accept,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let snapshots: Vec<SnapshotInfo> = match command {
        Command::Create => {
            let client = target.client()?;
            let making = waiting("making a snapshot", create(&client));
            let made = attended(GOES_ON, making).await?;
            if target.json {
                return table::print_json(&made);
            }
            vec![made]
        }
        Command::List(filter) => target.client()?.list(&filter.of("/v1/snapshots")).await?,
        Command::Restore { name } => return restore(target, &name),
        Command::Accept => return accept(target).await,
    };
    table::list(target, ["SNAPSHOT", "AGE", "SIZE"], &snapshots, |one| {
        let (age, size) = (table::age(one.made_ms), size::show(one.bytes));
        [one.name.clone(), age, size]
    })
}

/// Makes a snapshot. The server goes on with it after the time that an answer may take.
async fn create(client: &Client) -> Result<SnapshotInfo, Failure> {
    match client.post("/v1/snapshots", &()).await {
        Err(failure) if failure.is_no_answer() => {}
        answered => return answered,
    }
    loop {
        let making: OperationInfo = client.get("/v1/operations/snapshot").await?;
        match making.state {
            OperationState::Running => tokio::time::sleep(LOOK).await,
            OperationState::Done => break,
            state => {
                let why = making.trouble.unwrap_or_else(|| state.name().to_owned());
                return Err(Failure::new(format!(
                    "no snapshot was made: {why}; fix: archipel snapshot create, once that is over"
                )));
            }
        }
    }
    let all: Vec<SnapshotInfo> = client.list("/v1/snapshots").await?;
    let newest = all.into_iter().max_by_key(|one| one.made_ms);
    newest.ok_or_else(|| {
        Failure::new("the snapshot is gone again; fix: archipel snapshot create, once more".into())
    })
}

/// Returns the settings of a stopped server.
fn settings(target: &Target) -> Result<Settings, Failure> {
    let missing = || {
        Failure::new("no configuration is named; fix: add --config FILE, that of the server".into())
    };
    let path = target.config.as_ref().ok_or_else(missing)?;
    let loaded = config::load(path, std::env::vars());
    let loaded = loaded.map_err(|error| Failure::new(error.to_string()))?;
    // The metadata holds secrets.
    process::keep_files_private();
    Ok(loaded.settings)
}

async fn accept(target: &Target) -> Result<(), Failure> {
    let epoch = snapshots::accept(settings(target)?)
        .await
        .map_err(Failure::new)?;
    if target.json {
        return table::print_json(&serde_json::json!({ "epoch": epoch }));
    }
    table::document(&format!(
        "This node's data is accepted as it is (layout epoch {epoch}). Run this command on all other nodes, too, \
         before the first one starts.\nThen start all nodes, wait until `archipel status` shows on each that \
         nothing is left to fetch, and run `archipel verify --deep`."
    ))
}

fn restore(target: &Target, name: &str) -> Result<(), Failure> {
    let kept = snapshots::restore(&settings(target)?, name).map_err(Failure::new)?;
    if target.json {
        let previous = kept.display().to_string();
        return table::print_json(&serde_json::json!({ "name": name, "previous": previous }));
    }
    table::document(&format!(
        "The metadata is now that of {name}. The previous metadata is in {}\n\
         When the server starts, it frees content that was written after {name} for good. To go back, swap the \
         two folders before that. Content that was deleted after {name} is gone; `archipel verify --deep` lists \
         what is missing.",
        kept.display()
    ))
}
