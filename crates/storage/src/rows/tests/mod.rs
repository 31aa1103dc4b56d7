//! Rows against reference models.

mod codec;
mod list;
mod overlay;
mod payloads;
mod reference;
mod references;
mod txn;
mod versions;

use std::borrow::Cow;
use std::cell::Cell;

use crate::engine::{Direction, KeyRange, ReadTxn, Result, Tree, Visitor};

/// Counts the entries that scans visit.
struct Counting<'t> {
    txn: &'t dyn ReadTxn,
    shown: Cell<usize>,
}

impl<'t> Counting<'t> {
    fn new(txn: &'t dyn ReadTxn) -> Counting<'t> {
        Counting {
            txn,
            shown: Cell::new(0),
        }
    }

    fn shown(&self) -> usize {
        self.shown.get()
    }
}

impl ReadTxn for Counting<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.txn.get(tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.txn.scan(tree, range, direction, &mut |key, value| {
            self.shown.set(self.shown.get() + 1);
            visit(key, value)
        })
    }
}
