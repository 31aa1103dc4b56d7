//! Reads through a connection. They are the same in a snapshot and in a write transaction.

use std::borrow::Cow;
use std::ops::Bound;

use rusqlite::{Connection, OptionalExtension};

use super::super::{Direction, Flow, KeyRange, Result, Tree, Visitor, key};
use super::{SqliteResult, from_sqlite};

/// Returns the value of `key`.
pub(super) fn get<'t>(
    connection: &Connection,
    tree: Tree,
    key: &[u8],
) -> Result<Option<Cow<'t, [u8]>>> {
    let sql = format!("SELECT v FROM {} WHERE k = ?1", tree.name());
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            statement
                .query_row([key], |row| Ok(row.get_ref(0)?.as_blob()?.to_vec()))
                .optional()
        })
        .map(|value| value.map(Cow::Owned))
        .map_err(|e| from_sqlite("reading", e))
}

/// Visits the entries of `range` in order.
pub(super) fn scan(
    connection: &Connection,
    tree: Tree,
    range: KeyRange<'_>,
    direction: Direction,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let Some(range) = key::possible_range(range) else {
        return Ok(());
    };
    let (sql, bounds) = scan_query(tree, range, direction);
    let fail = |e| from_sqlite("scanning", e);
    let mut statement = connection.prepare_cached(&sql).map_err(fail)?;
    let parameters = rusqlite::params_from_iter(bounds.into_iter().flatten());
    let mut rows = statement.query(parameters).map_err(fail)?;
    while let Some(row) = rows.next().map_err(fail)? {
        let blob = |i| -> SqliteResult<&[u8]> { Ok(row.get_ref(i)?.as_blob()?) };
        if visit(blob(0).map_err(fail)?, blob(1).map_err(fail)?)? == Flow::Stop {
            break;
        }
    }
    Ok(())
}

/// Returns the statement for a scan, and its bounds.
fn scan_query<'r>(
    tree: Tree,
    range: KeyRange<'r>,
    direction: Direction,
) -> (String, [Option<&'r [u8]>; 2]) {
    let (lower, from) = match range.0 {
        Bound::Included(key) => ("k >= ?1", Some(key)),
        Bound::Excluded(key) => ("k > ?1", Some(key)),
        Bound::Unbounded => ("1", None),
    };
    // An unused parameter must not be counted.
    let number = if from.is_some() { 2 } else { 1 };
    let (upper, to) = match range.1 {
        Bound::Included(key) => (format!("k <= ?{number}"), Some(key)),
        Bound::Excluded(key) => (format!("k < ?{number}"), Some(key)),
        Bound::Unbounded => ("1".into(), None),
    };
    let order = match direction {
        Direction::Ascending => "ASC",
        Direction::Descending => "DESC",
    };
    let tree = tree.name();
    let sql = format!("SELECT k, v FROM {tree} WHERE {lower} AND {upper} ORDER BY k {order}");
    (sql, [from, to])
}
