//! To be written.

use crate::Outcome;

/// Options.
#[derive(clap::Args)]
pub struct CheckArgs {}

/// Options.
#[derive(clap::Args)]
pub struct SimArgs {}

/// Model-checks.
pub fn check(_args: &CheckArgs) -> Outcome {
    Err("not written yet".into())
}

/// Simulates.
pub fn sim(_args: &SimArgs) -> Outcome {
    Err("not written yet".into())
}
