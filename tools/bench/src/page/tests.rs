//! Tests of pages with made-up results.

use super::*;
use crate::results::tests::results;

#[test]
fn servers_have_columns_side_by_side_and_turns_are_averaged() {
    let all = [
        results("one", Some(100.0), &[100]),
        results("one", Some(100.0), &[300]),
        results("two", Some(100.0), &[100]),
    ];
    let groups = grouped(&all);
    assert_eq!(groups.len(), 1);
    let (head, lines) = groups[0].table();
    assert_eq!(head[1], "one, fsync: mean ms");
    assert_eq!(lines.len(), 2);
    let two = head
        .iter()
        .position(|head| head == "two, fsync: × RTT")
        .unwrap();
    assert_eq!(
        (lines[0][two].as_str(), lines[1][two].as_str()),
        ("1.000", "-")
    );
    let average = groups[0].figure("one, fsync", "row <100>", |row| Some(row.mean_ms));
    assert!((average.unwrap() - 100.0).abs() < 0.1);
}

#[test]
fn columns_without_figures_are_omitted() {
    let all = [results("one", None, &[100])];
    let (head, _) = grouped(&all)[0].table();
    assert!(
        head.iter()
            .all(|head| !head.contains("RTT") && !head.contains("second"))
    );
}

#[test]
fn page_has_table_plots_and_conditions_and_escapes_names() {
    let all = [results("one", Some(100.0), &[100])];
    let mut page = String::new();
    let group = &grouped(&all)[0];
    group.html(&mut page, &group.plots()).unwrap();
    assert!(page.contains("row &lt;100&gt;") && !page.contains("row <100>"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.contains("<polyline") && page.contains("MiB, Linux"));
}
