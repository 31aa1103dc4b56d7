//! `sim check-model`: explores the scenarios, and requires that every mutant is caught.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use archipel_base::clock::{SystemClock, WallClock};
use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::model::catalogue;
use sim::model::uploads::{self, Uploads};
use sim::model::versions::{self, Versions};
use sim::model::walk::{self, Walk};
use stateright::{Checker, Model};

mod verdict;

use verdict::{Explored, Findings};

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
    /// Fail if the exploration of a scenario was cut off. Without this option the verdict only names
    /// those scenarios
    #[arg(long)]
    whole: bool,
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
    let mut scenarios = catalogue::small();
    if args.large {
        scenarios.extend(catalogue::large());
    }
    scenarios.retain(|s| s.name.contains(&args.only));
    let mut worlds = uploads::small();
    worlds.retain(|s| s.name.contains(&args.only));
    // The large space has six times as many steps.
    let room = args.states * if args.large { 6 } else { 1 };
    for scenario in scenarios {
        findings.explored(scenario.name, explore(scenario.name, scenario, room));
    }
    for world in worlds {
        findings.explored(world.name, explore(world.name, world, room));
    }
    // The values are larger, so each step takes longer.
    for world in versions::small() {
        if world.name.contains(&args.only) {
            findings.explored(world.name, explore(world.name, world, room.div_ceil(16)));
        }
    }
}

fn explore<M>(name: &str, model: M, states: usize) -> Explored
where
    M: Model<Action: Clone + Debug + PartialEq> + Send + Sync + 'static,
    M::State: Hash + Debug + Clone + PartialEq + Send + Sync + 'static,
{
    let began = SystemClock.now_millis();
    let mut builder = model.checker().threads(2);
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
    let walks = if args.large { 240_000 } else { 40_000 };
    let mut good = true;
    for scenario in catalogue::walks() {
        good &= !scenario.name.contains(&args.only) || walk_one(scenario.name, &scenario, walks);
    }
    for world in uploads::walks() {
        good &= !world.name.contains(&args.only) || walk_one(world.name, &world, walks);
    }
    for world in versions::walks() {
        good &= !world.name.contains(&args.only) || walk_one(world.name, &world, walks / 8);
    }
    good
}

fn walk_one<M: Walk>(name: &str, model: &M, walks: u64) -> bool {
    let began = SystemClock.now_millis();
    let walked = walk::walk_in_parallel(model, 0..walks);
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    println!(
        "walked    {name}: {} walks, {} steps, {:.1} s: {}",
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
        good &= catch(mutant, args.states);
    }
    for mutant in Mutant::OF_TWO_ROWS.into_iter().filter(wanted) {
        good &= catch_of_two_rows(mutant);
    }
    for mutant in Mutant::OF_VERSIONS.into_iter().filter(wanted) {
        good &= catch_of_versions(mutant);
    }
    good
}

/// Breaks a rule and looks for a scenario that shows it: by random walks through those of several
/// clients, then by exploring those of one client.
fn catch(mutant: Mutant, states: usize) -> bool {
    let mut scenarios = catalogue::for_mutant(mutant);
    for scenario in &mut scenarios {
        scenario.rules = Rules::broken(mutant);
    }
    let (small, others): (Vec<_>, Vec<_>) =
        scenarios.into_iter().partition(|s| s.clients.len() == 1);
    if catch_by_walks(mutant, others.iter().map(|s| (s.name, s))) {
        return true;
    }
    for scenario in small {
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
    println!("mutant    {mutant:?}: NOT CAUGHT");
    false
}

fn catch_of_two_rows(mutant: Mutant) -> bool {
    let mut worlds = uploads::for_mutant(mutant);
    for world in &mut worlds {
        world.rules = Rules::broken(mutant);
    }
    let caught = catch_by_walks(mutant, worlds.iter().map(|w| (w.name, w)));
    if !caught {
        println!("mutant    {mutant:?}: NOT CAUGHT");
    }
    caught
}

fn catch_of_versions(mutant: Mutant) -> bool {
    let mut worlds = versions::for_mutant(mutant);
    for world in &mut worlds {
        world.rules = Rules::broken(mutant);
    }
    let caught = catch_by_walks(mutant, worlds.iter().map(|w| (w.name, w)));
    if !caught {
        println!("mutant    {mutant:?}: NOT CAUGHT");
    }
    caught
}

fn catch_by_walks<'a, M: Walk + 'a>(
    mutant: Mutant,
    models: impl Iterator<Item = (&'static str, &'a M)>,
) -> bool {
    let mut walks = 0;
    let mut first = first_seed(mutant);
    for (name, model) in models {
        let walked = walk::walk_in_parallel(model, first..first + 400_000);
        first = 0;
        walks += walked.walks;
        if let Some(seed) = walked.violation {
            println!(
                "mutant    {mutant:?}: caught in \"{name}\" after {walks} walks (seed {seed})"
            );
            return true;
        }
    }
    false
}

/// Returns the seed at which the search for a mutant begins, in its first scenario. A mutant that few
/// walks notice is found there at once. After a change of the protocol or of a scenario the search
/// takes longer: it goes on from there, through as many seeds as for any mutant.
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
        Mutant::MoveRowsAlone => 33_300,
        _ => 0,
    }
}

fn show_walk(args: &Args, seed: u64) -> bool {
    let mutant = args.mutant.as_ref();
    let rules = mutant.and_then(|name| known().find(|m| format!("{m:?}") == *name));
    let rules = rules.map_or(Rules::CORRECT, Rules::broken);
    for mut scenario in catalogue::everything() {
        if scenario.name.contains(&args.only) {
            scenario.rules = rules;
            println!("{}", scenario.name);
            let world = show(&scenario, seed);
            world.history().iter().for_each(|e| println!("{e:?}"));
            return !world.is_violated();
        }
    }
    for mut world in uploads::walks() {
        if world.name.contains(&args.only) {
            world.rules = rules;
            println!("{}", world.name);
            let end = show(&world, seed);
            end.history().iter().for_each(|e| println!("{e:?}"));
            return !Uploads::is_violated(&end);
        }
    }
    for mut world in versions::walks() {
        if world.name.contains(&args.only) {
            world.rules = rules;
            println!("{}", world.name);
            let end = show(&world, seed);
            end.history().iter().for_each(|e| println!("{e:?}"));
            return !Versions::is_violated(&end);
        }
    }
    false
}

fn show<M: Walk<Action: Debug>>(model: &M, seed: u64) -> M::State {
    let (_, world) = walk::walk_once(model, seed, |action, _| println!("    {action:?}"));
    println!("violated: {}", M::is_violated(&world));
    world
}

fn known() -> impl Iterator<Item = Mutant> {
    let rows = Mutant::ALL.into_iter().chain(Mutant::OF_TWO_ROWS);
    rows.chain(Mutant::OF_VERSIONS)
}
