//! `archipel event`

use archipel_api::admin::types::EventTargetInfo;
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;

/// The subcommands of `archipel event`.
#[derive(Subcommand)]
pub enum Command {
    /// List the targets of events with their state: what waits for them, and why they fail
    Targets,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let all: Vec<EventTargetInfo> = match command {
        Command::Targets => client.list("/v1/event-targets").await?,
    };
    if target.json {
        return table::print_json(&all);
    }
    let rows: Vec<[String; 8]> = all.iter().map(row).collect();
    table::print(
        [
            "TARGET",
            "KIND",
            "STATE",
            "WAITING",
            "DELIVERED",
            "FAILED",
            "DROPPED",
            "TROUBLE",
        ],
        &rows,
    )
}

fn row(one: &EventTargetInfo) -> [String; 8] {
    let trouble = match (&one.error, one.retry_ms) {
        (None, _) => "-".into(),
        (Some(why), None) => why.clone(),
        (Some(why), Some(time)) => format!("{why}; tried again in {}", table::until(time)),
    };
    [
        one.name.clone(),
        one.kind.clone().unwrap_or("not declared".into()),
        one.state.name().to_owned(),
        one.waiting.to_string(),
        one.delivered.to_string(),
        one.failed.to_string(),
        one.dropped.to_string(),
        trouble,
    ]
}
