//! Random walks through scenarios that are too large to explore in full.

use std::ops::Range;

use stateright::Model;

use super::protocol::Protocol;
use super::scenario::Scenario;
use super::world::{Action, World};
use crate::rng::Rng;

/// The result of a number of walks.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// The number of walks.
    pub walks: u64,
    /// The number of steps of all walks.
    pub steps: u64,
    /// The seed of the first walk that found a violation.
    pub violation: Option<u64>,
}

/// Walks with these seeds until one finds a violation.
pub fn walk<P: Protocol>(scenario: &Scenario<P>, seeds: Range<u64>) -> Walked {
    let mut walked = Walked::default();
    for seed in seeds {
        let (steps, world) = walk_once(scenario, seed, |_, _| ());
        walked.walks += 1;
        walked.steps += steps;
        if world.is_violated() {
            walked.violation = Some(seed);
            break;
        }
    }
    walked
}

/// Walks with these seeds on two threads, in portions, so that the first violation is the same each
/// time.
pub fn walk_in_parallel<P: Protocol>(scenario: &Scenario<P>, seeds: Range<u64>) -> Walked {
    const PORTION: u64 = 2_000;
    let mut total = Walked::default();
    let mut from = seeds.start;
    while from < seeds.end && total.violation.is_none() {
        let end = seeds.end.min(from + PORTION);
        let middle = from + (end - from) / 2;
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| walk(scenario, middle..end));
            let first = walk(scenario, from..middle);
            (first, second.join().unwrap_or_default())
        });
        total.walks += first.walks + second.walks;
        total.steps += first.steps + second.steps;
        total.violation = first.violation.or(second.violation);
        from = end;
    }
    total
}

/// Takes one walk and shows each step.
pub fn walk_once<P: Protocol>(
    scenario: &Scenario<P>,
    seed: u64,
    mut show: impl FnMut(&Action<P>, &World<P>),
) -> (u64, World<P>) {
    const MAX_STEPS: u64 = 2000;
    let mut rng = Rng::new(seed);
    let mut world = scenario.init_states().remove(0);
    let mut actions = Vec::new();
    // The probability of rare steps in this walk.
    let rare = rng.between(1, 12);
    for step in 0..MAX_STEPS {
        actions.clear();
        scenario.actions(&world, &mut actions);
        if actions.is_empty() || world.is_violated() {
            return (step, world);
        }
        let action = choose(&actions, rare, &mut rng);
        if let Some(next) = scenario.next_state(&world, action.clone()) {
            world = next;
            show(action, &world);
        }
    }
    (MAX_STEPS, world)
}

/// Chooses messages and new tasks mostly, and rare steps now and then.
fn choose<'a, P: Protocol>(actions: &'a [Action<P>], rare: u64, rng: &mut Rng) -> &'a Action<P> {
    let usual: Vec<&Action<P>> = actions.iter().filter(|a| a.is_common()).collect();
    if usual.is_empty() || rng.chance(rare) {
        return &actions[rng.below(actions.len() as u64) as usize];
    }
    usual[rng.below(usual.len() as u64) as usize]
}
