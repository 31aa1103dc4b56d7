//! The scenarios by name.

use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::rules::Mutant;

use super::{Task, Versions};
use crate::model::scenario;

type Scenario = scenario::Scenario<Versions>;

const PUTS: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Look(0), Task::List]),
    (6, &[Task::Put, Task::Get, Task::Look(1)]),
    (3, &[Task::Look(0), Task::List, Task::Look(1)]),
];
const KILLS: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Put, Task::Kill(0), Task::Get]),
    (6, &[Task::Put, Task::Kill(1), Task::Look(1)]),
    (3, &[Task::Look(0), Task::Get, Task::Look(1)]),
];
const CREATES: &[(u64, &[Task])] = &[
    (0, &[Task::Create, Task::List, Task::Look(0)]),
    (6, &[Task::Create, Task::Kill(0), Task::Create]),
    (3, &[Task::Look(1), Task::Look(0), Task::List]),
];
const CHANGES: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Change(0), Task::Look(0)]),
    (6, &[Task::Put, Task::Change(1), Task::Look(1)]),
    (3, &[Task::Look(1), Task::Kill(1), Task::Look(1)]),
];
const NULLS: &[(u64, &[Task])] = &[
    (0, &[Task::PutNull, Task::Put, Task::LookNull]),
    (6, &[Task::Put, Task::KillNull, Task::Get]),
    (3, &[Task::LookNull, Task::PutNull, Task::LookNull]),
];
const NULL_CHANGES: &[(u64, &[Task])] = &[
    (0, &[Task::PutNull, Task::Put, Task::LookNull]),
    (6, &[Task::PutNull, Task::ChangeNull, Task::LookNull]),
    (3, &[Task::Put, Task::LookNull, Task::LookNull]),
];
/// The first client may write by the old settings while they change.
const SETTINGS: &[(u64, &[Task])] = &[
    (12, &[Task::PutNull, Task::PutNull]),
    (
        0,
        &[Task::PutNull, Task::Enable, Task::HoldNull, Task::LookNull],
    ),
    (3, &[Task::Get, Task::Get, Task::Put, Task::LookNull]),
];
/// The first client's node may not have heard of the change, so that fences refuse what it sends.
const REFUSED: &[(u64, &[Task])] = &[
    (12, &[Task::PutNull]),
    (0, &[Task::PutNull, Task::Enable, Task::Put, Task::LookNull]),
    (3, &[Task::Get, Task::Kill(0), Task::Get, Task::LookNull]),
];
/// The last client retires rows that hold no version.
const RETIRED: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Kill(0), Task::Put, Task::Get]),
    (6, &[Task::Kill(0), Task::Create, Task::Look(0)]),
    (3, &[Task::Retire, Task::Look(0), Task::Retire, Task::List]),
];
/// A put is deleted before it is answered, and perhaps before a quorum knows of it.
const UNANSWERED: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Get]),
    (6, &[Task::Kill(0), Task::List, Task::Look(0)]),
    (3, &[Task::Get, Task::List, Task::Look(0)]),
];
/// The last client moves all versions to the newest layout version, and then reads.
const MOVES: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Put, Task::Look(1)]),
    (6, &[Task::Put, Task::Kill(1), Task::Look(2)]),
    (
        3,
        &[
            Task::Move,
            Task::Move,
            Task::Look(1),
            Task::List,
            Task::Look(0),
        ],
    ),
];
/// The last client puts a version before it adds a layout version, and deletes one before it moves
/// all of them.
const DRIVES: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Put, Task::Look(1)]),
    (6, &[Task::Put, Task::Kill(1), Task::Look(2)]),
    (
        3,
        &[
            Task::Put,
            Task::AddLayout,
            Task::Kill(0),
            Task::Move,
            Task::Move,
            Task::List,
            Task::List,
            Task::Look(1),
        ],
    ),
];
/// Deletions have a condition. Other versions overtake them.
const REMOVES: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Put, Task::Remove(1), Task::Look(1)]),
    (6, &[Task::Put, Task::Remove(1), Task::Put, Task::Look(2)]),
    (3, &[Task::Put, Task::Look(1), Task::Look(2)]),
];
/// A null version is deleted while others look at it and put another one.
const NULL_KILLS: &[(u64, &[Task])] = &[
    (0, &[Task::PutNull, Task::Put, Task::KillNull]),
    (6, &[Task::Put, Task::LookNull, Task::Put, Task::LookNull]),
    (
        3,
        &[Task::Put, Task::LookNull, Task::PutNull, Task::LookNull],
    ),
];
const ALL: &[(u64, &[Task])] = &[
    (0, &[Task::Put, Task::Kill(0), Task::List, Task::Put]),
    (6, &[Task::Put, Task::Change(1), Task::Look(0)]),
    (3, &[Task::Create, Task::Look(1), Task::Look(2)]),
];

fn plain(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
    Scenario::plain(name, Versions, clients)
}

/// Returns scenarios that are explored as far as there is time.
pub fn small() -> Vec<Scenario> {
    vec![
        Scenario {
            rounds: 4,
            ..plain(
                "versions: a put and a put that is looked at",
                &[(0, &[Task::Put]), (4, &[Task::Put, Task::Look(1)])],
            )
        },
        Scenario {
            rounds: 4,
            ..plain(
                "versions: a put is deleted while another runs",
                &[(0, &[Task::Put, Task::Kill(0)]), (4, &[Task::Put])],
            )
        },
    ]
}

/// Returns scenarios for random walks.
pub fn walks() -> Vec<Scenario> {
    let faulty = |name, clients| Scenario {
        timeouts: 30,
        crashes: 1,
        restarts: 2,
        repeats: 4,
        spreads: 6,
        ..plain(name, clients)
    };
    let first = Config::first(vec![0, 1, 2]);
    let both = first.with_next(vec![0, 1, 3]);
    let moves = first.with_next(vec![2, 3, 4]);
    let dropped = moves.without_oldest();
    vec![
        faulty("versions: puts race", PUTS),
        faulty("versions: deletions", KILLS),
        faulty("versions: conditional puts", CREATES),
        faulty("versions: changes", CHANGES),
        faulty("versions: unanswered puts are deleted", UNANSWERED),
        faulty("versions: null versions", NULLS),
        faulty("versions: everything", ALL),
        faulty("versions: changes of null versions", NULL_CHANGES),
        faulty("versions: deletions with a condition", REMOVES),
        faulty("versions: deletions of null versions", NULL_KILLS),
        Scenario {
            spreads: 1,
            epochs: [&first, &moves]
                .into_iter()
                .chain(&dropped)
                .cloned()
                .collect(),
            nodes: 5,
            ..faulty("versions: a layout version is added and retired", DRIVES)
        },
        Scenario {
            floors: 4,
            ..faulty("versions: everything, floors", ALL)
        },
        Scenario {
            floors: 4,
            ..faulty("versions: deletions, floors", KILLS)
        },
        Scenario {
            floors: 2,
            epochs: vec![first.clone(), both],
            nodes: 4,
            ..faulty("versions: everything, a layout change", ALL)
        },
        faulty("versions: the settings change", SETTINGS),
        faulty("versions: fences refuse a put", REFUSED),
        Scenario {
            floors: 4,
            ..faulty("versions: rows are retired", RETIRED)
        },
        Scenario {
            spreads: 1,
            epochs: [first, moves].into_iter().chain(dropped).collect(),
            nodes: 5,
            ..faulty("versions: a layout version is retired", MOVES)
        },
    ]
}

/// Returns the scenarios that may show a mutant, the likeliest first.
pub fn for_mutant(mutant: Mutant) -> Vec<Scenario> {
    let mut all = walks();
    let first = match mutant {
        Mutant::NoPromotion | Mutant::IgnoreChanges | Mutant::HoldByQuorum => 1,
        Mutant::LeaveGhost | Mutant::ForgetChanges => 2,
        Mutant::KillKnown => 4,
        Mutant::MixNullVersions => 7,
        Mutant::RefuseOvertaken => 8,
        Mutant::KillNullTwice => 9,
        Mutant::AnswerEarly => all.len() - 4,
        Mutant::RetireWritten => all.len() - 2,
        Mutant::AcceptLacking | Mutant::RepeatDecision => 3,
        _ => 0,
    };
    all.swap(0, first);
    all
}
