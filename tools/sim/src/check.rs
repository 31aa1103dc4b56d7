//! `sim check-model`: explores the scenarios, and requires that every mutant is caught.

use std::time::Duration;

use archipel_base::clock::{SystemClock, WallClock};
use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::model::scenario::Scenario;
use sim::model::{catalogue, walk};
use stateright::{Checker, Model};

/// The options of `sim check-model`.
#[derive(clap::Args)]
pub struct Args {
    /// Also explore the large scenarios, and take more walks: 40 minutes on two cores
    #[arg(long)]
    large: bool,
    /// Explore only scenarios whose name contains this text
    #[arg(long, default_value = "")]
    only: String,
    /// Show the walk of this seed: the scenario by --only, with --mutant if given
    #[arg(long)]
    walk: Option<u64>,
    /// Check only this mutant
    #[arg(long)]
    mutant: Option<String>,
    /// Explore at most about this many steps of each scenario, six times as many with --large (0:
    /// all)
    #[arg(long, default_value_t = 8_000_000)]
    states: usize,
}

/// Runs the checks. Returns true if the protocol held and each mutant was caught.
pub fn run(args: &Args) -> bool {
    let known = |name: &String| Mutant::ALL.iter().any(|m| format!("{m:?}") == *name);
    if let Some(name) = args.mutant.as_ref().filter(|name| !known(name)) {
        println!("there is no mutant {name}; there are {:?}", Mutant::ALL);
        return false;
    }
    if let Some(seed) = args.walk {
        return show_walk(args, seed);
    }
    let began = SystemClock.now_millis();
    let mut good = true;
    if args.mutant.is_none() {
        good &= explore_all(args) & walk_all(args);
    }
    good &= catch_all(args);
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    let verdict = if good {
        "the protocol holds and every mutant is caught"
    } else {
        "FAILED"
    };
    println!("verdict after {:.0} s: {verdict}", took.as_secs_f64());
    good
}

fn explore_all(args: &Args) -> bool {
    let mut scenarios = catalogue::small();
    if args.large {
        scenarios.extend(catalogue::large());
    }
    scenarios.retain(|s| s.name.contains(&args.only));
    let mut good = true;
    for scenario in scenarios {
        // The large space has six times as many steps.
        let room = if args.large { 6 } else { 1 };
        good &= explore(scenario, args.states * room);
    }
    good
}

fn explore(scenario: Scenario, states: usize) -> bool {
    let began = SystemClock.now_millis();
    let name = scenario.name;
    let mut builder = scenario.checker().threads(2);
    if states > 0 {
        builder = builder.target_state_count(states);
    }
    let checker = builder.spawn_dfs().join();
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    let found = checker.discovery("linearizable");
    println!(
        "explored  {name}: {} states ({} steps), depth {}, {:.1} s: {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        took.as_secs_f64(),
        match &found {
            Some(_) => "VIOLATED",
            None if states > 0 && checker.state_count() >= states =>
                "holds, but not all was explored",
            None => "holds everywhere",
        }
    );
    if let Some(path) = &found {
        for action in path.clone().into_actions() {
            println!("    {action:?}");
        }
        println!("    {:?}", path.last_state().history());
    }
    found.is_none()
}

fn walk_all(args: &Args) -> bool {
    let walks = if args.large { 240_000 } else { 40_000 };
    let mut good = true;
    for scenario in catalogue::walks() {
        if !scenario.name.contains(&args.only) {
            continue;
        }
        let began = SystemClock.now_millis();
        let walked = walk::walk_in_parallel(&scenario, walks);
        let took = Duration::from_millis(SystemClock.now_millis() - began);
        println!(
            "walked    {}: {} walks, {} steps, {:.1} s: {}",
            scenario.name,
            walked.walks,
            walked.steps,
            took.as_secs_f64(),
            walked
                .violation
                .map_or("holds".into(), |seed| format!("VIOLATED by seed {seed}"))
        );
        good &= walked.violation.is_none();
    }
    good
}

fn catch_all(args: &Args) -> bool {
    let wanted = |m: &Mutant| {
        args.mutant
            .as_ref()
            .is_none_or(|name| format!("{m:?}") == *name)
    };
    let mut good = true;
    for mutant in Mutant::ALL.into_iter().filter(wanted) {
        good &= catch(mutant, args.states);
    }
    good
}

/// Breaks a rule and looks for a scenario that shows it: by random walks, then by exploring the
/// small ones in full.
fn catch(mutant: Mutant, states: usize) -> bool {
    let mut scenarios = catalogue::for_mutant(mutant);
    let mut walks = 0;
    for scenario in &mut scenarios {
        scenario.rules = Rules::broken(mutant);
        let walked = walk::walk_in_parallel(scenario, 400_000);
        walks += walked.walks;
        if let Some(seed) = walked.violation {
            println!(
                "mutant    {mutant:?}: caught in \"{}\" after {walks} walks (seed {seed})",
                scenario.name
            );
            return true;
        }
    }
    for scenario in scenarios.into_iter().filter(|s| s.clients.len() == 1) {
        let name = scenario.name;
        let builder = scenario.checker().threads(2);
        let most = if states > 0 { states } else { usize::MAX };
        let checker = builder.target_state_count(most).spawn_dfs().join();
        if checker.discovery("linearizable").is_some() {
            let steps = checker.state_count();
            println!("mutant    {mutant:?}: caught in \"{name}\", exploring, within {steps} steps");
            return true;
        }
    }
    println!("mutant    {mutant:?}: NOT CAUGHT by {walks} walks");
    false
}

fn show_walk(args: &Args, seed: u64) -> bool {
    let mutant = args.mutant.as_ref();
    let rules = mutant.and_then(|name| Mutant::ALL.into_iter().find(|m| format!("{m:?}") == *name));
    for mut scenario in catalogue::everything() {
        if scenario.name.contains(&args.only) {
            scenario.rules = rules.map_or(Rules::CORRECT, Rules::broken);
            println!("{}", scenario.name);
            let (_, world) =
                walk::walk_once(&scenario, seed, |action, _| println!("    {action:?}"));
            world
                .history()
                .iter()
                .for_each(|event| println!("{event:?}"));
            println!("violated: {}", world.is_violated());
            return !world.is_violated();
        }
    }
    false
}
