//! The scenarios by name.

use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::rules::Mutant;

use super::{
    Register,
    Task::{self, Fickle, Read, Retire, Swap, Write},
};
use crate::model::scenario;

type Scenario = scenario::Scenario<Register>;

const W1: Task = Write(Some(1));
const W2: Task = Write(Some(2));
const DELETE: Task = Write(None);

/// Returns a scenario with three replicas, one layout, these clients and few rounds.
fn plain(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
    Scenario {
        rounds: 5,
        ..Scenario::plain(name, Register { free_epochs: 1 }, clients)
    }
}

/// Returns a scenario that is explored in full within seconds.
pub fn tiny() -> Scenario {
    plain("a write and a read", &[(0, &[W1]), (0, &[Read])])
}

/// Returns scenarios that are explored in full within minutes.
pub fn small() -> Vec<Scenario> {
    vec![
        plain("write, then two reads", &[(0, &[W1]), (0, &[Read, Read])]),
        plain("two writers, one ahead", &[(0, &[W1]), (5, &[W2])]),
        Scenario {
            rounds: 3,
            ..plain("write and swap", &[(0, &[W1]), (0, &[Swap(None, Some(2))])])
        },
        Scenario {
            restarts: 1,
            ..plain("two writers and a restart", &[(0, &[W1]), (5, &[W2])])
        },
        Scenario {
            repeats: 2,
            ..plain(
                "two writers and repeated messages",
                &[(0, &[W1]), (5, &[W2])],
            )
        },
        layout_change(
            "a layout change under a write and a read",
            &[(0, &[W1]), (0, &[Read])],
        ),
        Scenario {
            spreads: 0,
            ..floors(
                "a delete, a floor, a slow read",
                &[(0, &[W1, DELETE, Read])],
            )
        },
        floors("a delete, then a floor", &[(0, &[W1, DELETE, Read])]),
    ]
}

/// Returns scenarios that take long.
pub fn large() -> Vec<Scenario> {
    vec![
        plain(
            "two reads by two clients",
            &[(0, &[W1]), (0, &[Read]), (0, &[Read])],
        ),
        plain(
            "write and swap, more rounds",
            &[(0, &[W1]), (0, &[Swap(None, Some(2))])],
        ),
        plain(
            "write, delete and create",
            &[(0, &[W1, DELETE]), (3, &[Swap(None, Some(2))])],
        ),
        plain(
            "two swaps",
            &[(0, &[Swap(None, Some(1))]), (0, &[Swap(None, Some(2))])],
        ),
        plain(
            "two writers and a reader",
            &[(0, &[W1]), (5, &[W2]), (0, &[Read, Read])],
        ),
        plain(
            "write, swap and read",
            &[(0, &[W1]), (0, &[Swap(Some(1), Some(2))]), (0, &[Read])],
        ),
        skip(
            "a layout change that skips a replica, a write and a read",
            &[(0, &[W1]), (0, &[Read])],
        ),
        two_writers_and_a_floor(),
    ]
}

/// Returns scenarios for random walks: more clients, tasks and faults.
pub fn walks() -> Vec<Scenario> {
    let mut all = walks_of_all_rules();
    all.push(stuck_change());
    all
}

/// Returns a layout change that moves data to three replicas, of which two are lost. A third
/// version follows before it has ended, and then the two are skipped: the oldest version alone
/// holds everything. They are not lost and go on answering until they learn of it, which is the
/// harder case.
pub fn stuck_change() -> Scenario {
    let busy: &[(u64, &[Task])] = &[
        (0, &[W1, Swap(Some(1), Some(3)), Read, DELETE, Read]),
        (7, &[Swap(None, Some(4)), Read, Write(Some(5)), Read]),
        (2, &[Read, Write(Some(6)), Read, Swap(None, Some(9))]),
        (0, &[Retire]),
    ];
    let first = Config::first(vec![0, 1, 2]);
    let stuck = first.with_next(vec![3, 4, 5]);
    let third = stuck.with_next(vec![0, 6, 7]);
    let mut epochs = vec![first, stuck, third];
    for lost in [3, 4] {
        let skipped = epochs.last().and_then(|epoch| epoch.skipping(&lost));
        epochs.extend(skipped);
    }
    let retired = epochs.last().and_then(|epoch| epoch.without_oldest());
    epochs.extend(retired);
    faulty_change(Scenario {
        nodes: 8,
        epochs,
        protocol: Register { free_epochs: 5 },
        ..plain("a stuck layout change, all faults, floors", busy)
    })
}

fn walks_of_all_rules() -> Vec<Scenario> {
    let mixed: &[(u64, &[Task])] = &[
        (0, &[W1, Swap(Some(1), Some(3)), Read, DELETE]),
        (7, &[Swap(None, Some(4)), W2, Read, Swap(Some(4), Some(5))]),
        (
            2,
            &[Fickle(8), Write(Some(6)), Swap(Some(6), Some(7)), Read],
        ),
    ];
    let busy: &[(u64, &[Task])] = &[
        (0, &[W1, Swap(Some(1), Some(3)), Read, DELETE, Read]),
        (7, &[Swap(None, Some(4)), Read, DELETE, Read]),
        (
            2,
            &[Read, Write(Some(6)), DELETE, Read, Swap(None, Some(9))],
        ),
    ];
    let faulty = Scenario {
        timeouts: 30,
        restarts: 3,
        repeats: 6,
        rounds: 40,
        ..plain("three clients, all faults", mixed)
    };
    vec![
        Scenario {
            spreads: 4,
            ..faulty.clone()
        },
        Scenario {
            name: "three clients, all faults, floors",
            spreads: 6,
            floors: 5,
            ..faulty.clone()
        },
        faulty_change(layout_change("a layout change, all faults, floors", busy)),
        faulty_change(skip(
            "a layout change that skips a replica, all faults, floors",
            busy,
        )),
    ]
}

/// Returns all scenarios.
pub fn everything() -> Vec<Scenario> {
    let mut all = walks();
    all.extend(targets());
    all.extend(small());
    all.extend(large());
    all
}

/// Returns scenarios that soon show that a certain rule is broken.
fn targets() -> Vec<Scenario> {
    vec![
        Scenario {
            spreads: 2,
            floors: 2,
            timeouts: 4,
            rounds: 20,
            ..plain("a late row after a floor", &[(0, &[W1, DELETE, Read])])
        },
        Scenario {
            restarts: 2,
            timeouts: 6,
            rounds: 30,
            ..plain(
                "writers who refuse one another, and restarts",
                &[
                    (0, &[W1, Read]),
                    (6, &[Write(Some(3)), Swap(Some(1), Some(4)), Read]),
                    (3, &[Read, Write(Some(5)), Read]),
                ],
            )
        },
    ]
}

/// Returns the scenarios that may show a mutant, the likeliest first.
pub fn for_mutant(mutant: Mutant) -> Vec<Scenario> {
    let (mut walks, mut targets) = (walks_of_all_rules(), targets());
    let skips = walks.pop();
    let layouts = walks.pop();
    let floors = walks.pop();
    let refusals = targets.pop();
    match mutant {
        Mutant::OneLayoutQuorum
        | Mutant::NoFence
        | Mutant::RetireEarly
        | Mutant::CountAcrossLayouts => layouts.into_iter().collect(),
        Mutant::SkippedAgree => skips.into_iter().collect(),
        Mutant::BelievePast => small()
            .into_iter()
            .filter(|s| s.floors > 0 && s.spreads == 0)
            .collect(),
        Mutant::DropTombstoneEarly | Mutant::FloorWithoutAbsent | Mutant::LeaveAttemptBehind => {
            floors.into_iter().collect()
        }
        Mutant::CountById | Mutant::ForgetMeansNever => refusals.into_iter().chain(walks).collect(),
        _ => walks,
    }
}

/// Returns a scenario in which a row that one replica hands to another may arrive between the steps
/// of a floor round.
fn two_writers_and_a_floor() -> Scenario {
    Scenario {
        spreads: 2,
        ..floors(
            "two writers, a floor, two reads",
            &[(0, &[W1]), (5, &[W2]), (0, &[Read, Read])],
        )
    }
}

fn layout_change(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
    let first = Config::first(vec![0, 1, 2]);
    let both = first.with_next(vec![0, 1, 3]);
    let second = both.without_oldest().unwrap_or_else(|| both.clone());
    let mut all = clients.to_vec();
    all.push((0, &[Retire]));
    Scenario {
        nodes: 4,
        epochs: vec![first, both, second],
        protocol: Register { free_epochs: 2 },
        ..plain(name, &all)
    }
}

/// Returns the same layout change with all faults and floors.
fn faulty_change(change: Scenario) -> Scenario {
    Scenario {
        timeouts: 30,
        restarts: 2,
        repeats: 4,
        rounds: 40,
        spreads: 6,
        floors: 4,
        ..change
    }
}

/// Returns a layout change during which a replica is skipped as lost. It is not lost and goes on
/// answering until it learns of it, which is the harder case.
fn skip(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
    let change = layout_change(name, clients);
    let skipped = change.epochs[1].skipping(&2);
    let skipped = skipped.unwrap_or_else(|| change.epochs[1].clone());
    let last = skipped.without_oldest();
    let last = last.unwrap_or_else(|| skipped.clone());
    Scenario {
        epochs: vec![
            change.epochs[0].clone(),
            change.epochs[1].clone(),
            skipped,
            last,
        ],
        protocol: Register { free_epochs: 3 },
        ..change
    }
}

fn floors(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
    Scenario {
        floors: 1,
        spreads: 1,
        ..plain(name, clients)
    }
}
