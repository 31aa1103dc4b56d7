//! Whole nodes under faults: a few seconds of what `cargo xtask sim --only nodes` does at length.

use archipel_cluster::register::Rules;
use sim::nodes::{Options, simulate};

const SHORT: Options = Options {
    seconds: 25,
    trace: false,
    answer_before_sync: false,
    trust_old: false,
    rules: Rules::CORRECT,
};

#[test]
fn nodes_keep_what_they_promise_and_a_seed_is_a_run() {
    for seed in 0..2 {
        let verdict = simulate(seed, SHORT);
        assert_eq!(verdict.violation, None, "seed {seed}");
        assert!(verdict.counts.told > 20, "{:?}", verdict.counts);
        if seed == 1 {
            assert_eq!(simulate(seed, SHORT), verdict);
        }
    }
}

/// A simulation that finds nothing proves something only if it finds what is there.
#[test]
fn answers_that_do_not_wait_for_the_disk_are_noticed() {
    let broken = Options {
        answer_before_sync: true,
        ..SHORT
    };
    let noticed = (0..10).any(|seed| simulate(seed, broken).violation.is_some());
    assert!(noticed);
}
