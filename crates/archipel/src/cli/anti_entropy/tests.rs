//! Tests of the line about anti-entropy.

use archipel_api::admin::types::AntiEntropyInfo;

use super::line;

#[test]
fn nothing_to_fetch_is_reported_as_up_to_date() {
    let quiet = AntiEntropyInfo::default();
    assert_eq!(line(&quiet, &quiet), "up to date as far as known");
}

#[test]
fn remaining_time_is_shown_once_there_is_a_rate() {
    let before = AntiEntropyInfo {
        partitions: 7,
        rows: 1000,
        waiting_bytes: 50_000_000,
        ..AntiEntropyInfo::default()
    };
    let text = line(&before, &before);
    assert!(
        text.starts_with("still to fetch: at most 1000 rows of 7 partitions, and "),
        "{text}"
    );
    assert!(!text.contains("rate"), "{text}");

    // In 2 s a tenth of the rows and 1 MB of blocks arrived. So the rows need 18 s and the blocks
    // 80 s.
    let now = AntiEntropyInfo {
        rows: 900,
        waiting_bytes: 40_000_000,
        came_rows: 90,
        came_bytes: 1_000_000,
        away: 1,
        trouble: Some("it does not answer".into()),
        ..before.clone()
    };
    let text = line(&now, &before);
    assert!(text.contains("about 1 min at the current rate"), "{text}");
    assert!(text.contains("90 rows and"), "{text}");
    assert!(
        text.contains("1 node to compare with is unreachable"),
        "{text}"
    );
    assert!(
        text.ends_with("the last attempt failed: it does not answer"),
        "{text}"
    );
}
