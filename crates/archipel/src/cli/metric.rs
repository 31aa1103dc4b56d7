//! `archipel metric`

use archipel_api::admin::types::MetricInfo;
use clap::Subcommand;

use super::filter::Prefix;
use super::table::{self, names};
use super::target::Target;
use crate::client::Failure;

/// The subcommands of `archipel metric`.
#[derive(Subcommand)]
pub enum Command {
    /// List the metrics that the server can show, with their labels and meaning
    List(Prefix),
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let Command::List(filter) = command;
    let route = filter.of("/v1/metrics");
    let all: Vec<MetricInfo> = target.client()?.list(&route).await?;
    let headings = ["METRIC", "KIND", "LABELS", "MEANING"];
    table::list(target, headings, &all, |one| {
        let (name, kind) = (one.name.clone(), one.kind.clone());
        [name, kind, names(&one.labels), one.about.clone()]
    })
}
