//! The worlds by name.

use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::rules::Mutant;

use super::{Task, Uploads};

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

/// Returns worlds that are explored in full, or as far as there is time.
pub fn small() -> Vec<Uploads> {
    vec![
        Uploads {
            rounds: 4,
            ..Uploads::plain(
                "a conditional completion and a put",
                &[(0, &[Task::CompleteIfNone]), (4, &[Task::Put])],
            )
        },
        Uploads {
            rounds: 4,
            ..Uploads::plain(
                "a completion and an abort",
                &[(0, &[Task::Complete]), (4, &[Task::Abort])],
            )
        },
        Uploads {
            rounds: 4,
            ..Uploads::plain(
                "two completions",
                &[(0, &[Task::Complete]), (4, &[Task::Complete])],
            )
        },
    ]
}

/// Returns worlds for random walks.
pub fn walks() -> Vec<Uploads> {
    let faulty = |name, clients| Uploads {
        upload_ahead: 4,
        timeouts: 30,
        crashes: 1,
        restarts: 2,
        repeats: 4,
        spreads: 4,
        ..Uploads::plain(name, clients)
    };
    let first = Config::first(vec![0, 1, 2]);
    let both = first.with_next(vec![0, 1, 3]);
    vec![
        faulty("uploads: completions race with puts", RACE),
        faulty("uploads: several completers", COMPLETERS),
        faulty("uploads: completions race with aborts", ABORTS),
        faulty("uploads: everything at once", ALL),
        Uploads {
            floors: 4,
            ..faulty("uploads: everything at once, floors", ALL)
        },
        Uploads {
            floors: 2,
            epochs: vec![first.clone(), both.clone()],
            nodes: 4,
            ..faulty("uploads: everything at once, a layout change", ALL)
        },
        Uploads {
            is_missed: true,
            ..faulty("uploads: a replica missed the upload", ABORTS)
        },
        Uploads {
            is_missed: true,
            ..faulty(
                "uploads: several completers, a replica missed the upload",
                COMPLETERS,
            )
        },
        Uploads {
            is_missed: true,
            floors: 4,
            ..faulty("uploads: a replica missed the upload, floors", ALL)
        },
        Uploads {
            is_missed: true,
            floors: 2,
            epochs: vec![first.clone(), both.clone()],
            nodes: 4,
            ..faulty("uploads: a replica missed the upload, a layout change", ALL)
        },
    ]
}

/// Returns the worlds that may show a mutant, the likeliest first.
pub fn for_mutant(mutant: Mutant) -> Vec<Uploads> {
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
