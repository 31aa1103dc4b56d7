//! Tests of the texts about layouts.

use archipel_api::admin::types::{
    LayoutInfo, LayoutNode, ProgressInfo, Redundancy, StagedInfo, StagedNode, StagedRole,
};
use clap::Parser;

use super::{Command, assignments, one_copy, progress_lines, staged_lines, storage_size};
use crate::cli::{Cli, Command as Any};

const GIB: u64 = 1 << 30;

fn layout() -> LayoutInfo {
    let node = |id: &str, zone: &str| LayoutNode {
        id: id.repeat(8),
        short: id.into(),
        zone: zone.into(),
        capacity_bytes: GIB,
        partitions: 1024,
        share: 0.5,
        control: true,
    };
    LayoutInfo {
        version: 4,
        epoch: 7,
        redundancy: Redundancy {
            replicas: 2,
            zones: None,
        },
        partitions: 1024,
        nodes: vec![node("aaaaaaaa", "paris"), node("bbbbbbbb", "oslo")],
        staged: None,
        staged_unknown: None,
        progress: None,
    }
}

fn staged_node(id: &str, role: Option<(&str, u64)>) -> StagedNode {
    StagedNode {
        id: id.repeat(8),
        short: id.into(),
        role: role.map(|(zone, capacity_bytes)| StagedRole {
            zone: zone.into(),
            capacity_bytes,
        }),
    }
}

fn staged(refused: Option<&str>) -> StagedInfo {
    StagedInfo {
        version: 5,
        nodes: vec![
            staged_node("aaaaaaaa", Some(("paris", 2 * GIB))),
            staged_node("bbbbbbbb", None),
            staged_node("cccccccc", Some(("rome", 0))),
        ],
        redundancy: Some(Redundancy {
            replicas: 3,
            zones: Some(2),
        }),
        revision: 3,
        plan: vec!["512 partitions move".into()],
        refused: refused.map(String::from),
        result: Vec::new(),
    }
}

#[test]
fn staged_change_is_shown_with_its_effect_and_the_command_to_apply_it() {
    let lines = staged_lines(&staged(None), &layout());
    assert_eq!(
        lines,
        [
            "Staged for version 5:",
            "  ~ node aaaaaaaa: zone paris, 2.0 GiB (now zone paris, 1.0 GiB)",
            "  - node bbbbbbbb (zone oslo, 1.0 GiB)",
            "  + node cccccccc: zone rome, gateway",
            "  redundancy: 3 copies, in at least 2 zones (now 2 copies, in as many zones as possible)",
            "Effect:",
            "  512 partitions move",
            "To apply it:   archipel layout apply --version 5 --revision 3",
            "To discard it: archipel layout revert",
        ]
    );
}

#[test]
fn refused_change_is_shown_without_the_command_to_apply_it() {
    let lines = staged_lines(&staged(Some("3 copies need 3 nodes")), &layout());
    assert!(lines.contains(&"It cannot be applied: 3 copies need 3 nodes".to_owned()));
    assert!(
        !lines.iter().any(|line| line.contains("layout apply")),
        "{lines:?}"
    );
}

#[test]
fn change_in_progress_is_shown_with_the_reason_that_blocks_it() {
    let mut progress = ProgressInfo {
        from_version: 4,
        to_version: 5,
        partitions: 512,
        done: 12,
        rows: 3400,
        trouble: None,
        driver: "aaaaaaaa".repeat(8),
    };
    let moving = "Data moves from version 4 to 5: 12 of 512 partitions are done, 3400 rows (driver: node aaaaaaaa).";
    assert_eq!(progress_lines(&progress), [moving]);
    progress.trouble = Some("node b is away".into());
    assert_eq!(
        progress_lines(&progress)[1],
        "The change is blocked: node b is away"
    );
}

fn parsed(line: &str) -> Result<Command, String> {
    let words = ["archipel", "layout"].into_iter().chain(line.split(' '));
    match Cli::try_parse_from(words)
        .map_err(|error| error.to_string())?
        .command
    {
        Any::Layout { command, .. } => Ok(command),
        _ => Err("another command".into()),
    }
}

#[test]
fn assignment_changes_only_the_named_values() {
    let assign = |line: &str| match parsed(line) {
        Ok(Command::Assign(args)) => assignments(args),
        Ok(_) => panic!("{line}: another command"),
        Err(error) => panic!("{line}: {error}"),
    };
    let both = assign("assign self 0badcafe --zone paris --capacity 500GB");
    assert_eq!(both.len(), 2);
    assert_eq!(both[1].node, "0badcafe");
    assert_eq!(
        (both[1].zone.as_deref(), both[1].capacity_bytes),
        (Some("paris"), Some(500_000_000_000))
    );
    let gateway = assign("assign self --gateway");
    assert_eq!(
        (&gateway[0].zone, gateway[0].capacity_bytes),
        (&None, Some(0))
    );
    assert_eq!(assign("assign self --zone oslo")[0].capacity_bytes, None);
}

#[test]
fn gateway_has_no_capacity_and_storage_node_has_some() {
    let both = parsed("assign self --gateway --capacity 1GB")
        .err()
        .unwrap();
    assert!(
        both.contains("--gateway") && both.contains("--capacity"),
        "{both}"
    );
    assert!(storage_size("0").unwrap_err().contains("--gateway"));
    assert!(storage_size("much").unwrap_err().contains("500GiB"));
    assert_eq!(storage_size("2TiB"), Ok(2 << 40));
    assert!(parsed("apply").is_err(), "the version is required");
    assert!(
        parsed("apply --version 2").is_err(),
        "the revision is required"
    );
}

#[test]
fn one_copy_of_control_data_is_told() {
    let mut nodes = layout().nodes;
    assert_eq!(one_copy(&nodes), None);
    nodes[0].control = false;
    let told = one_copy(&nodes).unwrap();
    assert!(told.contains("one copy, on node bbbbbbbb"), "{told}");
    assert_eq!(one_copy(&nodes[1..]), None);
}
