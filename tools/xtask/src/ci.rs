//! `cargo xtask ci`: everything that must hold before a change lands, step by step, with times.
//!
//! Steps use one another's builds: all use one profile, so that nothing is compiled twice.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::black_box::{self, PROFILE, Program, root};
use crate::{Outcome, deny, openapi, tidy};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Leave a step out; may be repeated
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Run only this step; may be repeated
    #[arg(long, value_name = "STEP", conflicts_with = "skip")]
    only: Vec<String>,
    /// Go on after a step that failed
    #[arg(long)]
    keep_going: bool,
}

/// One step: its name, what it is for, how it runs.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Outcome,
}

/// The step of `cargo xtask check` that the build of the tests does as well.
const CLIPPY: Step = Step {
    name: "clippy",
    about: "lints, with the bans of clippy.toml; warnings are errors",
    run: || {
        let all = ["clippy", "--workspace", "--all-targets", "--locked"];
        let how = ["--profile", PROFILE, "--", "-D", "warnings"];
        cargo(&[&all[..], &how].concat())
    },
};

/// The other steps of `cargo xtask check`: no server, no tests.
const CHECKS: &[Step] = &[
    Step {
        name: "fmt",
        about: "formatting",
        run: || cargo(&["fmt", "--all", "--", "--check"]),
    },
    Step {
        name: "tidy",
        about: "the rules of this repository that no tool knows",
        run: tidy::run,
    },
    Step {
        name: "deny",
        about: "licences, banned crates and sources of dependencies",
        run: deny::run,
    },
];

/// The steps of `cargo xtask ci` after the checks.
const TESTS: &[Step] = &[
    Step {
        name: "test",
        about: "lints, as in `cargo xtask check`; unit, property and conformance tests",
        run: || {
            let all = ["test", "--workspace", "--locked"];
            let how = ["--profile", PROFILE, "--quiet", "--no-fail-fast"];
            let mut test = of_cargo(&[&all[..], &how].concat());
            black_box::run(black_box::linted(&mut test))
        },
    },
    Step {
        name: "openapi",
        about: "the OpenAPI document of the admin API against its linter",
        run: openapi::run,
    },
    Step {
        name: "build",
        about: "the server and the simulator",
        run: || {
            black_box::build(Program::Archipel)?;
            black_box::build(Program::Sim).map(drop)
        },
    },
    Step {
        name: "model",
        about: "the register protocol, model-checked; the verdict names the scenarios that were cut off",
        run: || xtask(&["check-model", "--brief"]),
    },
    Step {
        name: "sim",
        about: "whole clusters, simulated with faults",
        run: || {
            xtask(&["sim", "--only", "register", "--seeds", "2000"])?;
            // Days pass in each of them: more of these are a command of their own.
            xtask(&["sim", "--only", "nodes", "--seeds", "40"])
        },
    },
    Step {
        name: "clients",
        about: "the server as a process, and real S3 clients",
        run: || xtask(&["clients"]),
    },
    Step {
        name: "power-cuts",
        about: "a few power cuts under load (needs root; 200 rounds: cargo xtask power-cuts)",
        run: power_cuts,
    },
];

/// The result of a step.
struct Done {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
    /// The space that was free on the disk afterwards, in GiB, if the system tells.
    free_gib: Option<u64>,
}

/// Runs all steps.
pub fn run(args: &Args) -> Outcome {
    let steps: Vec<&Step> = CHECKS.iter().chain(TESTS).collect();
    let known = |name: &String| steps.iter().any(|step| step.name == name);
    if let Some(unknown) = args.skip.iter().chain(&args.only).find(|name| !known(name)) {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        return Err(format!(
            "there is no step {unknown}; the steps are {}",
            names.join(", ")
        ));
    }
    let wanted = |step: &&&Step| match args.only.is_empty() {
        true => !args.skip.iter().any(|name| name == step.name),
        false => args.only.iter().any(|name| name == step.name),
    };
    run_steps(steps.iter().filter(wanted).copied(), args.keep_going)
}

/// Runs the checks.
pub fn run_checks() -> Outcome {
    run_steps(CHECKS.iter().chain([&CLIPPY]), true)
}

fn run_steps<'a>(steps: impl Iterator<Item = &'a Step>, keep_going: bool) -> Outcome {
    myself();
    let mut done: Vec<Done> = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let started = now();
        let outcome = (step.run)();
        if let Err(why) = &outcome {
            println!("== {} failed: {why}", step.name);
        }
        let failed = outcome.is_err();
        done.push(Done {
            name: step.name,
            outcome,
            took: now().saturating_sub(started),
            free_gib: free_gib(),
        });
        if failed && !keep_going {
            break;
        }
    }
    verdict(&done)
}

fn verdict(done: &[Done]) -> Outcome {
    println!("\nstep         result   time     disk");
    for step in done {
        let result = if step.outcome.is_ok() {
            "passed"
        } else {
            "FAILED"
        };
        let took = step.took.as_secs();
        match step.free_gib {
            Some(free) => println!("{:12} {result:8} {took:>5} s  {free} GiB free", step.name),
            None => println!("{:12} {result:8} {took:>5} s", step.name),
        }
    }
    let total: u64 = done.iter().map(|step| step.took.as_secs()).sum();
    let failed: Vec<&str> = done
        .iter()
        .filter(|step| step.outcome.is_err())
        .map(|step| step.name)
        .collect();
    match failed.is_empty() {
        true => {
            println!(
                "\nci: all {} steps passed in {} min {} s",
                done.len(),
                total / 60,
                total % 60
            );
            Ok(())
        }
        false => {
            let full = done.iter().any(|step| step.free_gib == Some(0));
            let hint = match full {
                true => "; the disk was nearly full: a whole run takes about 12 GiB",
                false => "",
            };
            Err(format!("these steps failed: {}{hint}", failed.join(", ")))
        }
    }
}

/// Returns what is free on the disk of the repository, in whole GiB. Servers refuse new data on a
/// disk that is nearly full, and then tests of all kinds fail.
fn free_gib() -> Option<u64> {
    let mut df = Command::new("df");
    let shown = df.args(["-k", "--output=avail"]).arg(root()).output();
    let shown = String::from_utf8(shown.ok()?.stdout).ok()?;
    let kib: u64 = shown.lines().nth(1)?.trim().parse().ok()?;
    Some(kib >> 20)
}

/// Returns the time since an arbitrary start; steps are measured by it.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Duration {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn power_cuts() -> Outcome {
    if !is_root() {
        println!("left out: it mounts file systems, which needs root");
        return Ok(());
    }
    xtask(&["power-cuts", "--rounds", "6"])
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn cargo(arguments: &[&str]) -> Outcome {
    black_box::run(&mut of_cargo(arguments))
}

fn of_cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Returns where this program is. It asks once, at the start: the tests build it again, and
/// afterwards the system only knows the file that was replaced.
fn myself() -> Option<&'static PathBuf> {
    static MYSELF: OnceLock<Option<PathBuf>> = OnceLock::new();
    MYSELF.get_or_init(|| std::env::current_exe().ok()).as_ref()
}

/// Runs a command of this program, in a process of its own.
fn xtask(arguments: &[&str]) -> Outcome {
    let myself = myself().ok_or("the path of this program is not known")?;
    black_box::run(Command::new(myself).args(arguments).current_dir(root()))
}
