//! Deletions, and what they would do.

use archipel_api::admin::types::DeletionPlan;
use clap::Args;

use super::bucket::done;
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};

/// Whether a command deletes, or shows what that would do.
#[derive(Args)]
pub struct Deletion {
    /// Delete nothing: show what would go, and what stands in the way. Exit status 1 if something
    /// does
    #[arg(long)]
    dry_run: bool,
}

impl Deletion {
    /// Deletes what is at `route` and prints `said`, or shows what that would do.
    pub async fn run(
        &self,
        target: &Target,
        client: &Client,
        route: &str,
        said: &str,
    ) -> Result<(), Failure> {
        if self.dry_run {
            return show(target, &client.would_delete(route).await?);
        }
        client.delete(route).await?;
        done(target, said)
    }
}

/// Shows what a deletion would do. Fails if something stands in the way, so that scripts notice.
fn show(target: &Target, plan: &DeletionPlan) -> Result<(), Failure> {
    if target.json {
        table::print_json(plan)?;
    } else {
        let possible = if plan.possible { "yes" } else { "no" };
        let mut pairs = vec![("possible", possible.to_owned())];
        pairs.extend(plan.goes.iter().map(|what| ("would go", what.clone())));
        let obstacles = plan.obstacles.iter();
        pairs.extend(obstacles.map(|what| ("in the way", what.clone())));
        table::print_pairs(&pairs)?;
    }
    match plan.possible {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "that is not possible now: {}",
            plan.obstacles.join("; ")
        ))),
    }
}
