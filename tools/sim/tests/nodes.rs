//! Whole nodes under faults: the first seconds of `cargo xtask sim --only nodes`.

use archipel_cluster::register::Rules;
use sim::nodes::{Options, simulate};

const SHORT: Options = Options {
    seconds: 25,
    trace: false,
    answer_before_sync: false,
    trust_old_store: false,
    ignore_fences: false,
    swallow_full: false,
    trust_buffered: false,
    rules: Rules::CORRECT,
};

#[test]
fn nodes_keep_their_guarantees_and_a_seed_replays_exactly() {
    for seed in 0..2 {
        let verdict = simulate(seed, SHORT);
        assert_eq!(verdict.violation, None, "seed {seed}");
        assert!(verdict.counts.answered > 20, "{:?}", verdict.counts);
        if seed == 1 {
            assert_eq!(simulate(seed, SHORT), verdict);
        }
    }
}

/// A simulation proves something only if it finds a planted defect.
#[test]
fn the_simulator_catches_nodes_that_answer_before_sync() {
    let broken = Options {
        answer_before_sync: true,
        ..SHORT
    };
    let noticed = (0..10).any(|seed| simulate(seed, broken).violation.is_some());
    assert!(noticed);
}
