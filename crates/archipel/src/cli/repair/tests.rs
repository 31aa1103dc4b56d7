//! Tests of the texts about problems.

use archipel_api::admin::types::{BehindInfo, BlockTrouble, RepairCounts, RepairInfo, RepairNode};

use super::{describe, is_busy};

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
    assert!(is_busy(&broken) && !is_busy(&away));
}
