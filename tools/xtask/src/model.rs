//! `check-model` and `sim`: the register protocol, checked by `tools/sim`.

use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program};

/// Options of `check-model`.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Also explore the large scenarios, and walk further: 40 minutes on two cores
    #[arg(long)]
    large: bool,
    /// Explore and walk a twelfth as far, and seek mutants as far as ever: what `ci` does
    #[arg(long, conflicts_with = "large")]
    brief: bool,
    /// Explore at most about this many steps of each small scenario, six times as many with --large, a twelfth
    /// with --brief (0: all)
    #[arg(long, value_name = "STEPS")]
    states: Option<u64>,
    /// Only scenarios whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Fail if the exploration of a scenario was cut off. Without this option the verdict only
    /// names those scenarios
    #[arg(long)]
    whole: bool,
}

/// Options of `sim`.
#[derive(clap::Args)]
pub struct SimArgs {
    /// The number of seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Replay this seed alone, with a trace
    #[arg(long)]
    seed: Option<u64>,
    /// Only the register's state machines (`register`), or only whole nodes (`nodes`)
    #[arg(long)]
    only: Option<String>,
    /// Break a rule, to see that it is noticed
    #[arg(long)]
    mutant: Option<String>,
}

/// Model-checks the protocol and its mutants.
pub fn check(args: &CheckArgs) -> Outcome {
    let mut options = vec!["check-model".to_owned()];
    if args.large {
        options.push("--large".into());
    }
    if args.brief {
        options.push("--brief".into());
    }
    if args.whole {
        options.push("--whole".into());
    }
    if let Some(states) = args.states {
        options.push(format!("--states={states}"));
    }
    if let Some(only) = &args.only {
        options.extend(["--only".into(), only.clone()]);
    }
    run(&options)
}

/// Simulates clusters.
pub fn sim(args: &SimArgs) -> Outcome {
    let mut options = vec![
        "run".to_owned(),
        format!("--seeds={}", args.seeds),
        format!("--first={}", args.first),
    ];
    if let Some(seed) = args.seed {
        options.push(format!("--seed={seed}"));
    }
    if let Some(only) = &args.only {
        options.push(format!("--only={only}"));
    }
    if let Some(mutant) = &args.mutant {
        options.push(format!("--mutant={mutant}"));
    }
    run(&options)
}

/// Builds `tools/sim` optimised, and runs it.
fn run(options: &[String]) -> Outcome {
    let program = black_box::build(Program::Sim)?;
    black_box::run(Command::new(program).args(options))
}
