//! To be written.

use crate::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: &Args) -> Outcome {
    Err("not written yet".into())
}
