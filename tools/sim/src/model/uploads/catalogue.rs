//! The scenarios by name.

use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::rules::Mutant;

use super::{Task, Uploads};
use crate::model::scenario;

type Scenario = scenario::Scenario<Uploads>;

const ALL: &[(u64, &[Task])] = &[
    (0, &[Task::CompleteIfNone, Task::Look, Task::Complete]),
    (6, &[Task::Put, Task::Complete, Task::Read]),
    (3, &[Task::Look, Task::Abort, Task::Collect, Task::Read]),
];
const RACE: &[(u64, &[Task])] = &[
    (0, &[Task::CompleteIfNone, Task::Look]),
    (6, &[Task::Create, Task::Look, Task::Complete]),
    (3, &[Task::Look, Task::Read, Task::Read]),
];
const COMPLETERS: &[(u64, &[Task])] = &[
    (0, &[Task::Complete, Task::Put, Task::Complete]),
    (6, &[Task::CompleteIfNone, Task::Look, Task::Put]),
    (3, &[Task::Complete, Task::Read, Task::Look]),
];
const ABORTS: &[(u64, &[Task])] = &[
    (0, &[Task::Complete, Task::Complete, Task::Read]),
    (6, &[Task::Abort, Task::Read, Task::Look]),
    (3, &[Task::Put, Task::Read, Task::Abort]),
];

fn plain(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
    Scenario::plain(name, Uploads::default(), clients)
}

/// Returns scenarios that are explored in full, or as far as there is time.
pub fn small() -> Vec<Scenario> {
    vec![
        Scenario {
            rounds: 4,
            ..plain(
                "a conditional completion and a put",
                &[(0, &[Task::CompleteIfNone]), (4, &[Task::Put])],
            )
        },
        Scenario {
            rounds: 4,
            ..plain(
                "a completion and an abort",
                &[(0, &[Task::Complete]), (4, &[Task::Abort])],
            )
        },
        Scenario {
            rounds: 4,
            ..plain(
                "two completions",
                &[(0, &[Task::Complete]), (4, &[Task::Complete])],
            )
        },
    ]
}

/// Returns scenarios for random walks.
pub fn walks() -> Vec<Scenario> {
    let faulty = |name, clients| Scenario {
        protocol: Uploads {
            upload_ahead: 4,
            is_missed: false,
        },
        timeouts: 30,
        crashes: 1,
        restarts: 2,
        repeats: 4,
        spreads: 4,
        ..plain(name, clients)
    };
    let missed = Uploads {
        upload_ahead: 4,
        is_missed: true,
    };
    let first = Config::first(vec![0, 1, 2]);
    let both = first.with_next(vec![0, 1, 3]);
    vec![
        faulty("uploads: completions race with puts", RACE),
        faulty("uploads: several completers", COMPLETERS),
        faulty("uploads: completions race with aborts", ABORTS),
        faulty("uploads: everything at once", ALL),
        Scenario {
            floors: 4,
            ..faulty("uploads: everything at once, floors", ALL)
        },
        Scenario {
            floors: 2,
            epochs: vec![first.clone(), both.clone()],
            nodes: 4,
            ..faulty("uploads: everything at once, a layout change", ALL)
        },
        Scenario {
            protocol: missed.clone(),
            ..faulty("uploads: a replica missed the upload", ABORTS)
        },
        Scenario {
            protocol: missed.clone(),
            ..faulty(
                "uploads: several completers, a replica missed the upload",
                COMPLETERS,
            )
        },
        Scenario {
            protocol: missed.clone(),
            floors: 4,
            ..faulty("uploads: a replica missed the upload, floors", ALL)
        },
        Scenario {
            protocol: missed.clone(),
            floors: 2,
            epochs: vec![first.clone(), both.clone()],
            nodes: 4,
            ..faulty("uploads: a replica missed the upload, a layout change", ALL)
        },
    ]
}

/// Returns the scenarios that may show a mutant, the likeliest first.
pub fn for_mutant(mutant: Mutant) -> Vec<Scenario> {
    let mut all = walks();
    let first = match mutant {
        Mutant::TrustUnmarked | Mutant::PromiseOneRow => 2,
        Mutant::MarkApart => 3,
        Mutant::MarkAbsent => 6,
        _ => 1,
    };
    all.swap(0, first);
    all
}
