//! `cargo xtask soak`: everything that takes hours, one after another, with a table at the end.

use std::process::Command;
use std::time::Duration;

use crate::Outcome;
use crate::black_box;
use crate::ci;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Only the steps whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Print the steps, and run none
    #[arg(long)]
    list: bool,
}

/// A command of this program, with a variable for the tests that it runs.
struct Step {
    name: &'static str,
    line: &'static str,
    variable: Option<(&'static str, &'static str)>,
}

const fn step(name: &'static str, line: &'static str) -> Step {
    Step {
        name,
        line,
        variable: None,
    }
}

/// The steps, the shorter ones first. `tests/README.md` says how long each of them takes.
const STEPS: &[Step] = &[
    Step {
        variable: Some(("ARCHIPEL_TEST_OBJECTS", "20000")),
        ..step("changes in a row", "clients -k changes_in_a_row -- cluster")
    },
    step("power cuts, control", "power-cuts --rounds 20 --control"),
    step(
        "power cuts, buffered, control",
        "power-cuts --rounds 20 --durability buffered --control",
    ),
    step("power cuts", "power-cuts --rounds 200"),
    step(
        "power cuts, buffered",
        "power-cuts --rounds 200 --durability buffered",
    ),
    step("lost disk", "faults --scenario disk -- --blocks 50000"),
    step("model", "check-model --large"),
    step("faults", "faults --seconds 300 --runs 12"),
    step("losses", "faults --scenario losses --seconds 300 --runs 12"),
    step("simulator", "sim --seeds 10000"),
];

/// Runs the steps, also after one that failed.
pub fn run(args: &Args) -> Outcome {
    let chosen = chosen(args.only.as_deref());
    if chosen.is_empty() {
        return Err("no step has such a name; --list names them".into());
    }
    if args.list {
        for step in chosen {
            println!("{:32} cargo xtask {}", step.name, step.line);
        }
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let mut rows = Vec::new();
    for step in chosen {
        println!("--- {}: cargo xtask {}", step.name, step.line);
        let mut command = Command::new(&program);
        command
            .args(step.line.split(' '))
            .current_dir(black_box::root());
        command.envs(step.variable);
        let began = ci::now();
        let outcome = black_box::run(&mut command);
        rows.push((step.name, ci::now().saturating_sub(began), outcome));
    }
    verdict(&rows)
}

fn chosen(only: Option<&str>) -> Vec<&'static Step> {
    let fits = |step: &&Step| only.is_none_or(|part| step.name.contains(part));
    STEPS.iter().filter(fits).collect()
}

/// Prints how each step went. An error names those that failed.
fn verdict(rows: &[(&str, Duration, Outcome)]) -> Outcome {
    let mut failed = Vec::new();
    for (name, took, outcome) in rows {
        let minutes = took.as_secs_f64() / 60.0;
        let how = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("{name:32} {how} {minutes:7.1} min");
        if outcome.is_err() {
            failed.push(*name);
        }
    }
    match failed[..] {
        [] => Ok(()),
        _ => Err(format!("failed: {}", failed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::{STEPS, chosen, verdict};

    #[test]
    fn every_step_is_a_command_of_this_program() {
        for step in STEPS {
            let words = std::iter::once("xtask").chain(step.line.split(' '));
            let parsed = crate::Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{}: {:?}", step.line, parsed.err());
        }
    }

    #[test]
    fn steps_are_chosen_by_name() {
        assert_eq!(chosen(None).len(), STEPS.len());
        assert_eq!(chosen(Some("buffered")).len(), 2);
        assert!(chosen(Some("no such step")).is_empty());
    }

    #[test]
    fn a_failed_step_fails_the_whole() {
        let second = Duration::from_secs(1);
        assert!(verdict(&[("a", second, Ok(()))]).is_ok());
        let failed = verdict(&[("a", second, Ok(())), ("b", second, Err("why".into()))]);
        assert_eq!(failed, Err("failed: b".into()));
    }
}
