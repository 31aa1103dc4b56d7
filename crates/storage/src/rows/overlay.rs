//! Changes on top of a transaction. Only the closure that makes them sees them until they are
//! applied.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use crate::engine::{
    Direction, Edit, Flow, KeyRange, MAX_KEY_BYTES, ReadTxn, Result, Tree, Visitor,
};
use crate::error::Error;

/// The changes of one tree. `None` deletes the key.
type TreeChanges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The changes of all trees, to be applied later.
#[derive(Default)]
pub(crate) struct Changes {
    trees: [TreeChanges; Tree::ALL.len()],
    bytes: usize,
}

impl Changes {
    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.trees.iter().all(BTreeMap::is_empty)
    }

    /// Returns the approximate size of the changes in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the changes in `edit`.
    pub fn apply(self, edit: &mut dyn Edit) -> Result<()> {
        for (tree, changes) in Tree::ALL.into_iter().zip(self.trees) {
            for (key, value) in changes {
                match value {
                    Some(value) => edit.put(tree, &key, &value)?,
                    None => {
                        edit.delete(tree, &key)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A transaction with changes on top of it.
pub(crate) struct Overlay<'t> {
    below: &'t dyn ReadTxn,
    changes: Changes,
}

impl<'t> Overlay<'t> {
    /// Makes an overlay without changes.
    pub fn new(below: &'t dyn ReadTxn) -> Overlay<'t> {
        Overlay {
            below,
            changes: Changes::default(),
        }
    }

    /// Returns the changes without the transaction.
    pub fn into_changes(self) -> Changes {
        self.changes
    }

    fn change(&mut self, tree: Tree, key: &[u8], value: Option<Vec<u8>>) {
        self.changes.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.changes.trees[tree as usize].insert(key.to_vec(), value);
    }
}

impl ReadTxn for Overlay<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        match self.changes.trees[tree as usize].get(key) {
            Some(changed) => Ok(changed.as_deref().map(Cow::Borrowed)),
            None => self.below.get(tree, key),
        }
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let changes = &self.changes.trees[tree as usize];
        if is_empty(&range) {
            return Ok(());
        }
        if changes.is_empty() {
            return self.below.scan(tree, range, direction, visit);
        }
        let changes = changes.range::<[u8], _>(range);
        match direction {
            Direction::Ascending => merge(self.below, tree, range, direction, changes, visit),
            Direction::Descending => {
                merge(self.below, tree, range, direction, changes.rev(), visit)
            }
        }
    }
}

/// Returns true if a range is empty. `BTreeMap::range` would panic on some empty ranges.
fn is_empty((from, to): &KeyRange<'_>) -> bool {
    match (from, to) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        _ => false,
    }
}

/// Visits the entries of the transaction and the changes together, in order. A change hides the
/// entry below it.
fn merge<'c>(
    below: &dyn ReadTxn,
    tree: Tree,
    range: KeyRange<'_>,
    direction: Direction,
    changes: impl Iterator<Item = (&'c Vec<u8>, &'c Option<Vec<u8>>)>,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let mut changes = changes.peekable();
    let mut flow = Flow::Continue;
    below.scan(tree, range, direction, &mut |key, value| {
        let precedes = |changed: &[u8]| match direction {
            Direction::Ascending => changed < key,
            Direction::Descending => changed > key,
        };
        flow = visit_while(&mut changes, precedes, visit)?;
        if flow == Flow::Continue {
            flow = match changes.next_if(|(changed, _)| changed.as_slice() == key) {
                Some((_, Some(changed))) => visit(key, changed)?,
                Some((_, None)) => Flow::Continue,
                None => visit(key, value)?,
            };
        }
        Ok(flow)
    })?;
    if flow == Flow::Continue {
        visit_while(&mut changes, |_| true, visit)?;
    }
    Ok(())
}

fn visit_while<'c>(
    changes: &mut Peekable<impl Iterator<Item = (&'c Vec<u8>, &'c Option<Vec<u8>>)>>,
    precedes: impl Fn(&[u8]) -> bool,
    visit: &mut Visitor<'_>,
) -> Result<Flow> {
    while let Some((key, value)) = changes.next_if(|(key, _)| precedes(key)) {
        if let Some(value) = value
            && visit(key, value)? == Flow::Stop
        {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

impl Edit for Overlay<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(Error::Refused(format!("a key of {} bytes", key.len())));
        }
        self.change(tree, key, Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        let there = self.get(tree, key)?.is_some();
        if there {
            self.change(tree, key, None);
        }
        Ok(there)
    }
}
