//! The register under the model checker and the simulator: the first seconds of `cargo xtask
//! check-model` and `cargo xtask sim`.

use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::cluster::{Options, simulate};
use sim::model::scenario::Scenario;
use sim::model::uploads::{self, Uploads};
use sim::model::{register, walk};
use stateright::{Checker, Model};

/// Every interleaving of a write and a read.
#[test]
fn a_small_scenario_holds_everywhere() {
    let scenario = register::tiny();
    let checker = scenario.checker().spawn_dfs().join();
    assert!(checker.unique_state_count() > 10_000);
    assert!(checker.discovery("linearizable").is_none());
}

#[test]
fn random_walks_hold() {
    for scenario in register::walks() {
        let walked = walk::walk(&scenario, 0..100);
        assert_eq!(walked.violation, None, "{}", scenario.name);
    }
}

/// Found by a walk. One replica accepted a write in epoch 2. Another one accepted it before epoch
/// 3, after a conditional write that did not see it. Together they are a quorum of epoch 3 alone,
/// and the write was counted as having happened.
#[test]
fn acceptances_of_an_earlier_layout_do_not_add_up() {
    const SEED: u64 = 38_759;
    let mut scenarios = register::for_mutant(Mutant::CountAcrossLayouts).into_iter();
    let mut scenario = scenarios.next().expect("a scenario with layouts");
    assert!(!walk::walk_once(&scenario, SEED, |_, _| ()).1.is_violated());
    scenario.rules = Rules::broken(Mutant::CountAcrossLayouts);
    assert!(walk::walk_once(&scenario, SEED, |_, _| ()).1.is_violated());
}

/// A checker that cannot fail proves nothing. (`cargo xtask check-model` checks the mutants that
/// take longer to catch.)
#[test]
fn broken_rules_are_caught() {
    let soon = [
        Mutant::SkipWriteBack,
        Mutant::ActOnMinority,
        Mutant::BlindRetry,
        Mutant::AcceptBelowPromise,
        Mutant::LeaveAttemptBehind,
        Mutant::OneLayoutQuorum,
        Mutant::RetireEarly,
        Mutant::DropTombstoneEarly,
    ];
    for mutant in soon {
        let mut scenarios = register::for_mutant(mutant).into_iter();
        let caught = scenarios.any(|mut scenario| {
            scenario.rules = Rules::broken(mutant);
            walk::walk(&scenario, 0..1500).violation.is_some()
        });
        assert!(caught, "{mutant:?} was not caught");
    }
}

/// A third version follows a change that cannot end.
#[test]
fn broken_rules_are_caught_in_a_stuck_layout_change() {
    let correct = register::stuck_change();
    assert_eq!(correct.epochs.len(), 6);
    assert_eq!(walk::walk(&correct, 0..1500).violation, None);
    for mutant in [Mutant::RetireEarly, Mutant::OneLayoutQuorum] {
        let mut scenario = correct.clone();
        scenario.rules = Rules::broken(mutant);
        let caught = walk::walk(&scenario, 0..1500).violation.is_some();
        assert!(caught, "{mutant:?} was not caught");
    }
}

#[test]
fn random_walks_of_an_object_and_its_upload_hold() {
    for world in uploads::walks() {
        let walked = walk::walk(&world, 0..100);
        assert_eq!(walked.violation, None, "{}", world.name);
    }
}

/// Each seed is of a walk that shows the mutant, and that holds with all rules.
#[test]
fn broken_rules_of_two_rows_are_caught() {
    let seeds = [
        (Mutant::UndoUnknown, 1442),
        (Mutant::UndoUnasked, 3),
        (Mutant::MarkApart, 1),
        (Mutant::SpreadUnmarked, 81_902),
        (Mutant::PromiseOneRow, 27_728),
        (Mutant::RepeatIntent, 6),
        (Mutant::TrustUnmarked, 3197),
        (Mutant::MarkAbsent, 126),
    ];
    assert_eq!(seeds.map(|(mutant, _)| mutant), Mutant::OF_TWO_ROWS);
    for (mutant, seed) in seeds {
        let sound = uploads::for_mutant(mutant).swap_remove(0);
        let mut broken = sound.clone();
        broken.rules = Rules::broken(mutant);
        assert!(
            !is_violated(&sound, seed),
            "{mutant:?}: the walk is wrong without it"
        );
        // Any change of the protocol makes another walk of the same seed.
        let shows = |seed: &u64| is_violated(&broken, *seed) && !is_violated(&sound, *seed);
        assert!(
            is_violated(&broken, seed),
            "{mutant:?} was not caught; this seed shows it: {:?}",
            (0..200_000).find(shows)
        );
    }
}

/// Returns true if the walk of a seed ends in a state that is wrong.
fn is_violated(world: &Scenario<Uploads>, seed: u64) -> bool {
    walk::walk_once(world, seed, |_, _| ()).1.is_violated()
}

#[test]
fn simulated_clusters_hold_and_a_seed_replays_exactly() {
    for seed in 0..12 {
        let verdict = simulate(seed, Options::default());
        assert_eq!(verdict.violation, None, "seed {seed}");
        let again = simulate(seed, Options::default());
        assert_eq!(again.hash, verdict.hash, "seed {seed}");
    }
}

#[test]
fn the_simulator_catches_machines_that_answer_before_sync() {
    let careless = Options {
        answer_before_sync: true,
        ..Options::default()
    };
    let noticed = |seed| simulate(seed, careless).violation.is_some();
    assert!((20..45).any(noticed));
}
