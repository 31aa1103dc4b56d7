//! Deletions, and their dry runs.

use archipel_api::admin::types::DeletionPlan;
use clap::Args;

use super::escape;
use super::table::{self, done};
use super::target::Target;
use crate::client::{Client, Failure};

/// The options of a command that deletes.
#[derive(Args)]
pub struct Deletion {
    /// Delete nothing: show what would be deleted, and the obstacles. Exit status 1 if there are
    /// obstacles
    #[arg(long)]
    dry_run: bool,
}

impl Deletion {
    /// Deletes the resource at `route` and prints `message`, or shows the effect of that.
    pub async fn run(
        &self,
        target: &Target,
        client: &Client,
        route: &str,
        message: &str,
    ) -> Result<(), Failure> {
        if self.dry_run {
            return show(target, &client.would_delete(route).await?);
        }
        client.delete(route).await?;
        done(target, message)
    }
}

/// Shows the effect of a deletion. Fails if there are obstacles, so that scripts notice.
fn show(target: &Target, plan: &DeletionPlan) -> Result<(), Failure> {
    if target.json {
        table::print_json(plan)?;
    } else {
        let possible = if plan.possible { "yes" } else { "no" };
        let mut pairs = vec![("possible", possible.to_owned())];
        pairs.extend(plan.goes.iter().map(|what| ("also deletes", what.clone())));
        let obstacles = plan.obstacles.iter();
        pairs.extend(obstacles.map(|what| ("obstacle", what.clone())));
        table::print_pairs(&pairs)?;
    }
    match plan.possible {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "the deletion is not possible: {}",
            escape::line(&plan.obstacles.join("; "))
        ))),
    }
}
