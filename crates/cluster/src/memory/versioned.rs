//! Rows with versions, for tests: the object `o/k` keeps its versions in rows `v/k` + NUL + name.

use archipel_storage::{RowKey, VersionName};
use bytes::Bytes;

use crate::node::options::Hooks;

/// The most dead versions that a replica tells, so that tests need few to exceed them.
pub(crate) const FEW_DEAD: usize = 64;

pub(crate) const VERSIONED: Hooks = Hooks {
    kept_prefix,
    kept_in,
    most_dead: FEW_DEAD,
    ..Hooks::NONE
};

fn kept_prefix(row: &RowKey) -> Option<Bytes> {
    let object = row.key.strip_prefix(b"o/")?;
    Some([b"v/", object, &[0]].concat().into())
}

fn kept_in(row: &RowKey) -> Option<(RowKey, VersionName)> {
    let (prefix, name) = crate::split_kept(&row.key)?;
    let object = prefix.strip_prefix(b"v/")?.strip_suffix(&[0])?;
    let key = [b"o/", object].concat().into();
    Some((RowKey { key, ..row.clone() }, name))
}
