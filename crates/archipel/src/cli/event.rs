//! `archipel event`

use archipel_api::admin::types::EventTargetInfo;
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::{Failure, query};

/// The subcommands of `archipel event`.
#[derive(Subcommand)]
pub enum Command {
    /// List the targets of events with their state: what waits for them, and why they fail
    Targets {
        /// List only targets in this state
        #[arg(long, value_name = "STATE", value_parser = ["idle", "waiting", "failing"])]
        state: Option<String>,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let Command::Targets { state } = command;
    let route = query("/v1/event-targets", &[("state", state.as_deref())]);
    let all: Vec<EventTargetInfo> = client.list(&route).await?;
    let headings = [
        "TARGET",
        "KIND",
        "STATE",
        "WAITING",
        "DELIVERED",
        "FAILED",
        "DROPPED",
        "TROUBLE",
    ];
    table::list(target, headings, &all, row)
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
