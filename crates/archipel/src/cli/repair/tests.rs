//! What is wrong, in words.

use archipel_api::admin::types::{BehindInfo, BlockTrouble, MendingInfo, RepairInfo, RepairNode};

use super::{is_busy, words};

fn node() -> RepairNode {
    RepairNode {
        short: "0badcafe".into(),
        ..RepairNode::default()
    }
}

#[test]
fn nothing_wrong_is_said_so() {
    let info = RepairInfo {
        nodes: vec![node()],
        ..RepairInfo::default()
    };
    let lines = words(&info);
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("nothing is known to be wrong"),
        "{lines:?}"
    );
}

#[test]
fn everything_wrong_has_a_line() {
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
        mending: MendingInfo {
            waiting: 3,
            stuck: 1,
            troubles: vec![trouble],
            ..MendingInfo::default()
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
    let lines = words(&info);
    let expected = [
        "zone oslo does not answer",
        "0badcafe, disk 2: fdatasync failed",
        "differs from node 5eedf00d in 3 partitions, by at most 40 rows",
        "2 damaged blocks are being replaced",
        "block abcd of object photos/cat.jpg cannot be mended: no replica has it",
        "could not be asked what is damaged there: it does not answer",
        "a verification found 7 things wrong",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, part) in lines.iter().zip(expected) {
        assert!(line.contains(part), "{line:?} lacks {part:?}");
    }
    assert!(is_busy(&broken) && !is_busy(&away));
}
