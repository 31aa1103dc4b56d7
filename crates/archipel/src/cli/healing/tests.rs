//! Healing in a line.

use archipel_api::admin::types::HealingInfo;

use super::line;

#[test]
fn nothing_to_fetch_is_said_so() {
    let quiet = HealingInfo::default();
    assert_eq!(line(&quiet, &quiet), "nothing is known to be missing here");
}

#[test]
fn what_is_left_has_a_time_once_something_moves() {
    let before = HealingInfo {
        partitions: 7,
        rows: 1000,
        waiting_bytes: 50_000_000,
        ..HealingInfo::default()
    };
    let told = line(&before, &before);
    assert!(
        told.starts_with("at most 1000 rows of 7 partitions and "),
        "{told}"
    );
    assert!(!told.contains("rate"), "{told}");

    // Rows would take 18 s, blocks 80 s: a tenth of the rows went in 2 s, and 1 MB of blocks came.
    let now = HealingInfo {
        rows: 900,
        waiting_bytes: 40_000_000,
        came_rows: 90,
        came_bytes: 1_000_000,
        away: 1,
        trouble: Some("it does not answer".into()),
        ..before.clone()
    };
    let told = line(&now, &before);
    assert!(told.contains("about 1 min at the present rate"), "{told}");
    assert!(told.contains("90 rows and"), "{told}");
    assert!(told.contains("1 node to compare with is away"), "{told}");
    assert!(
        told.ends_with("the last attempt ended: it does not answer"),
        "{told}"
    );
}
