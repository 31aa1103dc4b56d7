//! `sim check-model`: explores the scenarios, and requires that every mutant is caught.

use std::time::Duration;

use archipel_base::clock::{SystemClock, WallClock};
use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::model::protocol::Protocol;
use sim::model::scenario::Scenario;
use sim::model::{register, uploads, versions, walk};
use stateright::{Checker, Model};

mod verdict;

use verdict::{Explored, Findings};

/// The options of `sim check-model`.
#[derive(clap::Args)]
pub struct Args {
    /// Also explore the large scenarios, and take more walks: 40 minutes on two cores
    #[arg(long)]
    large: bool,
    /// Explore and walk a twelfth as far. Mutants are sought as far as ever
    #[arg(long, conflicts_with = "large")]
    brief: bool,
    /// Explore only scenarios whose name contains this text
    #[arg(long, default_value = "")]
    only: String,
    /// Show the walk of this seed: the scenario by --only, with --mutant if given
    #[arg(long)]
    walk: Option<u64>,
    /// Check only this mutant
    #[arg(long)]
    mutant: Option<String>,
    /// Explore at most about this many steps of each scenario, six times as many with --large, a
    /// twelfth with --brief (0: all)
    #[arg(long, default_value_t = 8_000_000)]
    states: usize,
    /// Fail if the exploration of a scenario was cut off. Without this option the verdict only
    /// names those scenarios
    #[arg(long)]
    whole: bool,
}

impl Args {
    /// Returns how far to go, where `usual` is how far the check goes without options.
    fn effort(&self, usual: usize) -> usize {
        match (self.large, self.brief) {
            (true, _) => 6 * usual,
            (_, true) => usual.div_ceil(12),
            _ => usual,
        }
    }

    /// Returns the scenarios that `--only` names.
    fn chosen<P: Protocol>(
        &self,
        scenarios: Vec<Scenario<P>>,
    ) -> impl Iterator<Item = Scenario<P>> {
        let is_chosen = |scenario: &Scenario<P>| scenario.name.contains(&self.only);
        scenarios.into_iter().filter(is_chosen)
    }
}

/// Runs the checks. Returns true if the protocol held and each mutant was caught.
pub fn run(args: &Args) -> bool {
    let is_known = |name: &String| known().any(|m| format!("{m:?}") == *name);
    if let Some(name) = args.mutant.as_ref().filter(|name| !is_known(name)) {
        let all: Vec<Mutant> = known().collect();
        println!("there is no mutant {name}; there are {all:?}");
        return false;
    }
    if let Some(seed) = args.walk {
        return show_walk(args, seed);
    }
    let began = SystemClock.now_millis();
    let mut findings = Findings::default();
    if args.mutant.is_none() {
        explore_all(args, &mut findings);
        findings.checked(walk_all(args));
    }
    findings.checked(catch_all(args));
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    let verdict = findings.verdict(args.whole);
    println!("verdict after {:.0} s: {verdict}", took.as_secs_f64());
    findings.are_good(args.whole)
}

fn explore_all(args: &Args, findings: &mut Findings) {
    let mut of_register = register::small();
    if args.large {
        of_register.extend(register::large());
    }
    let room = args.effort(args.states);
    explore_each(args, of_register, room, findings);
    explore_each(args, uploads::small(), room, findings);
    // The values are larger, so each step takes longer.
    explore_each(args, versions::small(), room.div_ceil(16), findings);
}

fn explore_each<P: Protocol>(
    args: &Args,
    scenarios: Vec<Scenario<P>>,
    room: usize,
    findings: &mut Findings,
) {
    for scenario in args.chosen(scenarios) {
        findings.explored(scenario.name, explore(scenario, room));
    }
}

fn explore<P: Protocol>(scenario: Scenario<P>, states: usize) -> Explored {
    let began = SystemClock.now_millis();
    let name = scenario.name;
    let mut builder = scenario.checker().threads(2);
    if states > 0 {
        builder = builder.target_state_count(states);
    }
    let checker = builder.spawn_dfs().join();
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    let found = checker.discovery("linearizable");
    let end = Explored::new(found.is_some(), checker.state_count(), states);
    println!(
        "explored  {name}: {} states ({} steps), depth {}, {:.1} s: {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        took.as_secs_f64(),
        end.describe()
    );
    if let Some(path) = &found {
        for action in path.clone().into_actions() {
            println!("    {action:?}");
        }
        println!("    {:?}", path.last_state());
    }
    end
}

fn walk_all(args: &Args) -> bool {
    let walks = args.effort(40_000) as u64;
    let of_register = walk_each(args, register::walks(), walks);
    let of_uploads = walk_each(args, uploads::walks(), walks);
    let of_versions = walk_each(args, versions::walks(), walks / 8);
    of_register && of_uploads && of_versions
}

/// Walks through all scenarios. Returns true if none was violated.
fn walk_each<P: Protocol>(args: &Args, scenarios: Vec<Scenario<P>>, walks: u64) -> bool {
    let mut good = true;
    for scenario in args.chosen(scenarios) {
        good &= walk_through(&scenario, walks);
    }
    good
}

fn walk_through<P: Protocol>(scenario: &Scenario<P>, walks: u64) -> bool {
    let began = SystemClock.now_millis();
    let walked = walk::walk_in_parallel(scenario, 0..walks);
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
    walked.violation.is_none()
}

fn catch_all(args: &Args) -> bool {
    let wanted = |m: &Mutant| {
        args.mutant
            .as_ref()
            .is_none_or(|name| format!("{m:?}") == *name)
    };
    let mut good = true;
    for mutant in Mutant::ALL.into_iter().filter(wanted) {
        good &= catch(mutant, register::for_mutant(mutant), args.states);
    }
    for mutant in Mutant::OF_TWO_ROWS.into_iter().filter(wanted) {
        good &= catch(mutant, uploads::for_mutant(mutant), args.states);
    }
    for mutant in Mutant::OF_VERSIONS.into_iter().filter(wanted) {
        good &= catch(mutant, versions::for_mutant(mutant), args.states);
    }
    good
}

/// Breaks a rule and looks for a scenario that shows it: by random walks through those of several
/// clients, then by exploring those of one client.
fn catch<P: Protocol>(mutant: Mutant, mut scenarios: Vec<Scenario<P>>, states: usize) -> bool {
    for scenario in &mut scenarios {
        scenario.rules = Rules::broken(mutant);
    }
    let (small, others): (Vec<_>, Vec<_>) =
        scenarios.into_iter().partition(|s| s.clients.len() == 1);
    let is_caught = catch_by_walks(mutant, &others) || catch_by_exploring(mutant, small, states);
    if !is_caught {
        println!("mutant    {mutant:?}: NOT CAUGHT");
    }
    is_caught
}

fn catch_by_walks<P: Protocol>(mutant: Mutant, scenarios: &[Scenario<P>]) -> bool {
    let mut walks = 0;
    let mut first = first_seed(mutant);
    for scenario in scenarios {
        let walked = walk::walk_in_parallel(scenario, first..first + 400_000);
        first = 0;
        walks += walked.walks;
        if let Some(seed) = walked.violation {
            let name = scenario.name;
            println!(
                "mutant    {mutant:?}: caught in \"{name}\" after {walks} walks (seed {seed})"
            );
            return true;
        }
    }
    false
}

fn catch_by_exploring<P: Protocol>(
    mutant: Mutant,
    scenarios: Vec<Scenario<P>>,
    states: usize,
) -> bool {
    let most = if states > 0 { states } else { usize::MAX };
    for scenario in scenarios {
        let name = scenario.name;
        let builder = scenario.checker().threads(2);
        let checker = builder.target_state_count(most).spawn_dfs().join();
        if checker.discovery("linearizable").is_some() {
            let steps = checker.state_count();
            println!("mutant    {mutant:?}: caught in \"{name}\", exploring, within {steps} steps");
            return true;
        }
    }
    false
}

/// Returns the seed at which the search for a mutant begins, in its first scenario. A mutant that
/// few walks notice is found there at once. After a change of the protocol or of a scenario the
/// search takes longer: it goes on from there, through as many seeds as for any mutant.
fn first_seed(mutant: Mutant) -> u64 {
    match mutant {
        Mutant::CountAcrossLayouts => 38_700,
        Mutant::ForgetMeansNever => 16_000,
        Mutant::FloorWithoutAbsent => 67_000,
        Mutant::SpreadUnmarked => 81_900,
        Mutant::PromiseOneRow => 27_700,
        Mutant::ForgetChanges => 10_200,
        Mutant::HoldByQuorum => 266_600,
        Mutant::AnswerEarly => 15_700,
        Mutant::RetireWritten => 17_900,
        Mutant::KillNullTwice => 5_600,
        _ => 0,
    }
}

/// Shows the walk of a seed through the first scenario of that name.
fn show_walk(args: &Args, seed: u64) -> bool {
    let mutant = args.mutant.as_ref();
    let rules = mutant.and_then(|name| known().find(|m| format!("{m:?}") == *name));
    let rules = rules.map_or(Rules::CORRECT, Rules::broken);
    let of_register = show_first(args, register::everything(), rules, seed);
    let of_uploads = || show_first(args, uploads::walks(), rules, seed);
    let of_versions = || show_first(args, versions::walks(), rules, seed);
    let holds = of_register.or_else(of_uploads).or_else(of_versions);
    holds.unwrap_or(false)
}

/// Shows the walk through the first of these scenarios. Returns true if it holds; `None` if there
/// is no such scenario.
fn show_first<P: Protocol>(
    args: &Args,
    scenarios: Vec<Scenario<P>>,
    rules: Rules,
    seed: u64,
) -> Option<bool> {
    let mut scenario = args.chosen(scenarios).next()?;
    scenario.rules = rules;
    println!("{}", scenario.name);
    let (_, world) = walk::walk_once(&scenario, seed, |action, _| println!("    {action:?}"));
    println!("violated: {}", world.is_violated());
    world.history().iter().for_each(|e| println!("{e:?}"));
    Some(!world.is_violated())
}

fn known() -> impl Iterator<Item = Mutant> {
    let rows = Mutant::ALL.into_iter().chain(Mutant::OF_TWO_ROWS);
    rows.chain(Mutant::OF_VERSIONS)
}
