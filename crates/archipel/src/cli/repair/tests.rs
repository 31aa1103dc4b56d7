//! Tests of the texts about problems.

use std::collections::BTreeMap;
use std::time::Duration;

use archipel_api::admin::types::{
    BehindInfo, BlockTrouble, RepairCounts, RepairInfo, RepairNode, ScrubInfo,
};
use tokio::time::Instant;

use super::{PATIENCE, describe, is_busy, not_read, note_missed};

fn node() -> RepairNode {
    RepairNode {
        short: "0badcafe".into(),
        ..RepairNode::default()
    }
}

#[test]
fn absence_of_problems_is_reported() {
    let info = RepairInfo {
        nodes: vec![node()],
        ..RepairInfo::default()
    };
    let lines = describe(&info);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("no problems are known"), "{lines:?}");
}

#[test]
fn every_problem_has_a_line() {
    let trouble = BlockTrouble {
        block: "abcd".into(),
        why: "no replica has it".into(),
        used_by: vec!["object photos/cat.jpg".into()],
    };
    let behind = BehindInfo {
        node: "5eedf00d".into(),
        partitions: 3,
        rows: 40,
        ..BehindInfo::default()
    };
    let broken = RepairNode {
        repair: RepairCounts {
            waiting: 3,
            stuck: 1,
            troubles: vec![trouble],
            ..RepairCounts::default()
        },
        failed_disks: vec!["disk 2: fdatasync failed".into()],
        behind: vec![behind],
        ..node()
    };
    let away = RepairNode {
        away: Some("it does not answer".into()),
        ..node()
    };
    let info = RepairInfo {
        advice: vec!["zone oslo does not answer".into()],
        nodes: vec![broken.clone(), away.clone()],
        verified_ms: 1,
        verified_problems: 7,
        ..RepairInfo::default()
    };
    let lines = describe(&info);
    let expected = [
        "zone oslo does not answer",
        "0badcafe, disk 2: fdatasync failed",
        "differs from node 5eedf00d in 3 partitions, by at most 40 rows",
        "2 damaged blocks are being replaced",
        "block abcd of object photos/cat.jpg cannot be repaired: no replica has it",
        "did not answer, so its damaged blocks are unknown: it does not answer",
        "a verification found 7 problems",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, part) in lines.iter().zip(expected) {
        assert!(line.contains(part), "{line:?} lacks {part:?}");
    }
    assert!(is_busy(&broken, &info, &BTreeMap::new(), Instant::now()));
}

/// One that is away for a moment goes on reading, and one that is away for good is not waited for.
#[test]
fn a_node_that_does_not_answer_is_asked_for_a_while() {
    let info = RepairInfo {
        nodes: vec![RepairNode {
            away: Some("it does not answer".into()),
            ..node()
        }],
        ..RepairInfo::default()
    };
    let (mut missed, began) = (BTreeMap::new(), Instant::now());
    for second in 0..=PATIENCE.as_secs() {
        let now = began + Duration::from_secs(second);
        note_missed(&info, &mut missed, now);
        let is_waited_for = second < PATIENCE.as_secs();
        assert_eq!(
            is_busy(&info.nodes[0], &info, &missed, now),
            is_waited_for,
            "{second}"
        );
    }
    let now = began + PATIENCE;
    note_missed(
        &RepairInfo {
            nodes: vec![node()],
            ..info.clone()
        },
        &mut missed,
        now,
    );
    assert!(
        is_busy(&info.nodes[0], &info, &missed, now),
        "it answered in between"
    );
}

#[test]
fn scheduled_scrub_of_a_node_that_was_away_at_the_start_is_not_waited_for() {
    let started = |away: Option<&str>| RepairInfo {
        nodes: vec![RepairNode {
            away: away.map(String::from),
            ..node()
        }],
        ..RepairInfo::default()
    };
    let reads = RepairNode {
        scrub: ScrubInfo {
            running: true,
            ..ScrubInfo::default()
        },
        ..node()
    };
    let busy = |node: &RepairNode, started: &RepairInfo| {
        is_busy(node, started, &BTreeMap::new(), Instant::now())
    };
    assert!(busy(&reads, &started(None)));
    assert!(!busy(&reads, &started(Some("it does not answer"))));
    assert!(!busy(&reads, &RepairInfo::default()), "it came later");
    // Its repairs are waited for.
    let repairs = RepairNode {
        repair: RepairCounts {
            waiting: 1,
            ..RepairCounts::default()
        },
        ..reads
    };
    assert!(busy(&repairs, &started(Some("it does not answer"))));
}

#[test]
fn nodes_that_have_not_read_everything_are_named() {
    let with = |away: bool, running, ended_ms| RepairInfo {
        nodes: vec![RepairNode {
            away: away.then(|| "it does not answer".into()),
            scrub: ScrubInfo {
                running,
                began_ms: 20,
                ended_ms,
                ..ScrubInfo::default()
            },
            ..node()
        }],
        ..RepairInfo::default()
    };
    let started = with(false, true, 10);
    assert_eq!(
        not_read(&started, &with(false, false, 30)),
        Vec::<String>::new()
    );
    let named = ["0badcafe"];
    assert_eq!(
        not_read(&started, &with(false, false, 10)),
        named,
        "stopped"
    );
    assert_eq!(
        not_read(&started, &with(true, false, 0)),
        named,
        "away at the end"
    );
    let away = with(true, false, 0);
    assert_eq!(
        not_read(&away, &with(false, false, 30)),
        named,
        "away at the beginning"
    );
    assert_eq!(not_read(&started, &RepairInfo::default()), named, "gone");
}
