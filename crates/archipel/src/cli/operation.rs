//! `archipel operation`

use std::time::Duration;

use archipel_api::admin::types::{OperationInfo, OperationKind, OperationState};
use clap::Subcommand;

use super::progress::{
    HeldUp, LOOK, PATIENCE, PATIENCE_WITH_DATA, Progress, attended, bar, suffix,
};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure, path, query};
use crate::config::size;

/// The subcommands of `archipel operation`.
#[derive(Subcommand)]
pub enum Command {
    /// List the operations of the cluster
    List {
        /// List only operations of this kind
        #[arg(long, value_name = "KIND", value_parser = KINDS)]
        kind: Option<String>,
        /// List only operations in this state
        #[arg(
            long,
            value_name = "STATE",
            value_parser = ["idle", "running", "done", "stuck", "unknown"]
        )]
        state: Option<String>,
    },
    /// Show an operation
    Info {
        /// The operation's id, as in the list
        id: String,
    },
    /// Wait until an operation runs no more. Exit status 1 if it found problems, left something undone
    /// or cannot go on, or if its state stays unknown
    Wait {
        /// The operation's id, as in the list
        id: String,
    },
    /// Cancel a scrub, a verification that the server began, or its walk of lifecycle rules
    ///
    /// The operation ends after its present step. "archipel operation wait" waits for that.
    Cancel {
        /// The operation's id, as in the list
        id: String,
    },
}

/// The kinds of operations, as the API names them.
const KINDS: [&str; 9] = [
    "anti-entropy",
    "block-repair",
    "garbage-collection",
    "keyring-rotation",
    "layout-change",
    "lifecycle",
    "scrub",
    "snapshot",
    "verification",
];

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    match command {
        Command::List { kind, state } => {
            let filters = [("kind", kind.as_deref()), ("state", state.as_deref())];
            let route = query("/v1/operations", &filters);
            let all: Vec<OperationInfo> = client.list(&route).await?;
            let headings = ["OPERATION", "STATE", "PROGRESS", "PROBLEMS", "TROUBLE"];
            table::list(target, headings, &all, row)
        }
        Command::Info { id } => {
            let one: OperationInfo = client.get(&path(&["v1", "operations", &id])).await?;
            show(target, &one)
        }
        Command::Cancel { id } => {
            let route = path(&["v1", "operations", &id, "cancel"]);
            show(target, &client.post(&route, &()).await?)
        }
        Command::Wait { id } => {
            let route = path(&["v1", "operations", &id]);
            let goes_on =
                format!("{id} goes on in the background: archipel operation info {id} shows it");
            let one = attended(&goes_on, follow(&client, &route)).await?;
            show(target, &one)?;
            failure(&one).map_or(Ok(()), |why| Err(Failure::new(why)))
        }
    }
}

/// Waits until the operation at `route` runs no more.
async fn follow(client: &Client, route: &str) -> Result<OperationInfo, Failure> {
    let (mut progress, mut held_up) = (Progress::new(), HeldUp::default());
    let mut seen: Option<OperationInfo> = None;
    let one = loop {
        let told: Result<OperationInfo, Failure> = client.get(route).await;
        let (is_stuck, is_missed) = (may_go_on(&told), is_missed(&told, seen.is_some()));
        let is_held_up = is_missed || (is_stuck && !gets_on(&told, seen.as_ref()));
        let kind = told.as_ref().ok().or(seen.as_ref()).map(|one| one.kind);
        let is_over = held_up.note(is_held_up, patience_with(kind));
        match told {
            Ok(one) if one.state == OperationState::Running => seen = Some(one),
            Ok(one) if is_stuck && !is_over => seen = Some(one),
            _ if is_missed && !is_over => {}
            Ok(one) if seen.is_some() && is_lost(&one) => {
                let why = format!(
                    "nothing is known of {} any more: its server was started again",
                    one.id
                );
                break Err(Failure::new(why));
            }
            told => break told,
        }
        if let Some(one) = &seen {
            progress.show(&line(one));
        }
        tokio::time::sleep(LOOK).await;
    };
    progress.end();
    one
}

/// Returns true if the state of an operation is not known at the moment: its node did not answer in
/// time. The operations of some kinds are not listed then.
fn is_missed(told: &Result<OperationInfo, Failure>, was_seen: bool) -> bool {
    match told {
        Ok(one) => one.state == OperationState::Unknown,
        Err(Failure::Refused(problem)) => was_seen && problem.code == "NoSuchOperation",
        Err(Failure::Own { .. }) => false,
    }
}

/// Returns true for an operation that cannot go on at the moment, and that may do so soon by itself: a
/// node that it needs may just be starting.
fn may_go_on(told: &Result<OperationInfo, Failure>) -> bool {
    let is_of_kind = |one: &OperationInfo| {
        matches!(
            one.kind,
            OperationKind::Lifecycle | OperationKind::LayoutChange | OperationKind::AntiEntropy
        )
    };
    told.as_ref()
        .is_ok_and(|one| is_of_kind(one) && one.state == OperationState::Stuck)
}

/// Returns for how long a wait for an operation goes on while it is held up.
fn patience_with(kind: Option<OperationKind>) -> Duration {
    match kind {
        Some(OperationKind::LayoutChange) => PATIENCE_WITH_DATA,
        _ => PATIENCE,
    }
}

/// Returns true if an operation is further than when it was seen last. A part of its work may go on
/// while another cannot.
fn gets_on(told: &Result<OperationInfo, Failure>, seen: Option<&OperationInfo>) -> bool {
    let far = |one: &OperationInfo| (one.done, one.left, one.rows);
    let both = told.as_ref().ok().zip(seen);
    both.is_some_and(|(now, before)| far(now) != far(before))
}

/// Returns true if nothing is known any more of an operation that ran. One that ended would be done,
/// not idle.
fn is_lost(now: &OperationInfo) -> bool {
    let has_result = matches!(
        now.kind,
        OperationKind::Verification | OperationKind::Snapshot
    );
    has_result && now.state == OperationState::Idle
}

/// Describes an operation that is waited for in a line.
fn line(one: &OperationInfo) -> String {
    let bar = one.all.map(|all| format!("{} ", bar(one.done, all)));
    let (bar, trouble) = (bar.unwrap_or_default(), suffix(one.trouble.as_deref()));
    format!("{} {bar}{}{trouble}", one.id, progress(one))
}

/// Returns why an operation that runs no more did not end well. Work that was left undone counts as
/// much as problems that were found.
fn failure(one: &OperationInfo) -> Option<String> {
    let (id, trouble) = (&one.id, one.trouble.as_deref());
    match (one.state, one.problems, trouble) {
        (OperationState::Idle | OperationState::Done, 0, None) => None,
        // If it is stuck, the trouble says why. Otherwise no problems were counted.
        (OperationState::Stuck, ..) | (_, 0, _) => {
            let why = trouble.unwrap_or("for no known reason");
            Some(format!("{id} is {}: {why}", one.state.name()))
        }
        (_, problems, _) => {
            let (trouble, problems) = (suffix(trouble), table::count(problems, "problem"));
            let told_by = match one.kind {
                OperationKind::Lifecycle | OperationKind::KeyringRotation => "the server's log",
                _ => "archipel repair",
            };
            Some(format!("{id} has {problems}{trouble}; {told_by} says more"))
        }
    }
}

fn show(target: &Target, one: &OperationInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(one);
    }
    let ago = |time: u64| format!("{} ago", table::age(time));
    let or_never = |time: Option<String>| time.unwrap_or("never".into());
    let [operation, state, progress, problems, trouble] = row(one);
    table::print_pairs(&[
        ("operation", operation),
        ("state", state),
        ("progress", progress),
        ("began", or_never(one.began_ms.map(ago))),
        ("ended", or_never(one.ended_ms.map(ago))),
        (
            "next",
            or_never(one.next_ms.map(|time| format!("in {}", table::until(time)))),
        ),
        ("problems", problems),
        ("trouble", trouble),
    ])
}

fn row(one: &OperationInfo) -> [String; 5] {
    [
        one.id.clone(),
        one.state.name().to_owned(),
        progress(one),
        one.problems.to_string(),
        one.trouble.clone().unwrap_or("-".into()),
    ]
}

fn progress(one: &OperationInfo) -> String {
    let unit = one.unit.as_deref().unwrap_or_default();
    let show = |count: u64| match unit {
        "bytes" => size::show(count),
        // A count of one thing. The name of another unit is not a plain plural.
        unit if count == 1 && !unit.contains(' ') => {
            format!("1 {}", unit.strip_suffix('s').unwrap_or(unit))
        }
        unit => format!("{count} {unit}"),
    };
    match (one.left, one.all) {
        (Some(left), _) => format!("{} left", show(left)),
        (None, Some(all)) if unit == "bytes" => format!("{} of {}", show(one.done), show(all)),
        (None, Some(all)) => format!("{} of {all} {unit}", one.done),
        (None, None) => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn progress_says_what_is_known() {
        let of = |done, all, left, unit: Option<&str>| OperationInfo {
            done,
            all,
            left,
            unit: unit.map(String::from),
            ..OperationInfo::default()
        };
        let shown = |one: OperationInfo| progress(&one);
        assert_eq!(shown(of(0, None, None, None)), "-");
        assert_eq!(shown(of(0, None, Some(7), Some("rows"))), "7 rows left");
        assert_eq!(shown(of(0, None, Some(1), Some("rows"))), "1 row left");
        assert_eq!(shown(of(0, Some(1), None, Some("nodes"))), "0 of 1 nodes");
        assert_eq!(shown(of(3, Some(8), None, Some("nodes"))), "3 of 8 nodes");
    }

    #[test]
    fn an_operation_ends_well_without_problems_only() {
        let of = |state, problems, trouble: Option<&str>| OperationInfo {
            id: "scrub:0badcafe".into(),
            state,
            problems,
            trouble: trouble.map(String::from),
            ..OperationInfo::default()
        };
        assert_eq!(failure(&of(OperationState::Done, 0, None)), None);
        assert_eq!(failure(&of(OperationState::Idle, 0, None)), None);
        let stuck = failure(&of(OperationState::Stuck, 0, Some("no space")));
        assert_eq!(stuck.as_deref(), Some("scrub:0badcafe is stuck: no space"));
        assert!(failure(&of(OperationState::Done, 2, None)).is_some());
        // The cause that holds a change of the layout up counts as a problem.
        let held_up = failure(&of(OperationState::Stuck, 1, Some("a node is away")));
        let told = "scrub:0badcafe is stuck: a node is away";
        assert_eq!(held_up.as_deref(), Some(told));
        let both = failure(&of(OperationState::Done, 2, Some("a node is away")));
        assert!(both.is_some_and(|why| why.contains("2 problems; a node is away")));
        // A verification that found nothing where it looked, and could not look everywhere.
        let partly = failure(&of(OperationState::Done, 0, Some("node 0badcafe is away")));
        assert!(partly.is_some_and(|why| why.ends_with("node 0badcafe is away")));
    }

    #[test]
    fn an_operation_whose_node_misses_an_answer_is_asked_for_again() {
        let of = |state| OperationInfo {
            state,
            ..OperationInfo::default()
        };
        assert!(is_missed(&Ok(of(OperationState::Unknown)), false));
        assert!(!is_missed(&Ok(of(OperationState::Stuck)), true));
        let gone = || {
            let code = "NoSuchOperation".to_owned();
            Err(Failure::refused(StatusCode::NOT_FOUND, code, String::new()))
        };
        assert!(is_missed(&gone(), true));
        assert!(!is_missed(&gone(), false), "it never was");
        assert!(!is_missed(&Err(Failure::new("no server".into())), true));
    }

    #[test]
    fn a_restart_loses_results_and_some_operations_may_go_on() {
        let of = |kind, state| OperationInfo {
            kind,
            state,
            ..OperationInfo::default()
        };
        for kind in [OperationKind::Verification, OperationKind::Snapshot] {
            assert!(is_lost(&of(kind, OperationState::Idle)));
            assert!(!is_lost(&of(kind, OperationState::Done)));
            assert!(!may_go_on(&Ok(of(kind, OperationState::Stuck))));
        }
        for kind in [
            OperationKind::Lifecycle,
            OperationKind::LayoutChange,
            OperationKind::AntiEntropy,
        ] {
            assert!(!is_lost(&of(kind, OperationState::Idle)));
            assert!(may_go_on(&Ok(of(kind, OperationState::Stuck))));
            assert!(!may_go_on(&Ok(of(kind, OperationState::Running))));
        }
    }

    #[test]
    fn an_operation_gets_on_while_a_part_of_it_cannot() {
        let change = |done| OperationInfo {
            kind: OperationKind::LayoutChange,
            state: OperationState::Stuck,
            done,
            all: Some(9),
            rows: Some(80),
            trouble: Some("node 0badcafe does not answer".into()),
            ..OperationInfo::default()
        };
        assert!(!gets_on(&Ok(change(4)), None));
        assert!(!gets_on(&Ok(change(4)), Some(&change(4))));
        assert!(gets_on(&Ok(change(5)), Some(&change(4))));
        let rows = OperationInfo {
            rows: Some(112),
            ..change(4)
        };
        assert!(gets_on(&Ok(rows), Some(&change(4))), "one partition moves");
        let patience = |kind| patience_with(Some(kind));
        assert!(patience(OperationKind::LayoutChange) > patience(OperationKind::AntiEntropy));
        assert!(line(&change(4)).contains("; node 0badcafe does not answer"));
    }
}
