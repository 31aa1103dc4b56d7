//! Module tables in documentation comments: each names exactly the modules of its file.

use std::collections::BTreeSet;

use super::source;

/// The head of a table of modules.
const HEAD: &str = "//! | module |";

/// Returns complaints about one source file.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let is_source = path.ends_with(".rs") && path.contains("/src/") && !source::is_test(path);
    if !is_source || !text.contains(HEAD) {
        return Vec::new();
    }
    let named = named(text);
    let declared: BTreeSet<String> = source::modules(text).into_iter().collect();
    let missing = declared.difference(&named).map(|name| {
        format!("{path}: the table of modules lacks `{name}`; add a row or a name to one")
    });
    let surplus = named.difference(&declared).map(|name| {
        format!("{path}: the table of modules names `{name}`, which is no module of this file")
    });
    missing.chain(surplus).collect()
}

/// Returns the names in the first cells of the table.
fn named(text: &str) -> BTreeSet<String> {
    let behind = text.split(HEAD).skip(1);
    let rows = behind.flat_map(|table| {
        let rows = table.lines().skip(1);
        rows.take_while(|line| line.starts_with("//! |"))
    });
    rows.flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(String::from)
    })
    .collect()
}
