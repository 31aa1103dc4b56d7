//! Reading and writing through the journal.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::MutexGuard;

use super::Core;
use super::log::Tail;
use super::memtable::{Changes, Layer, Memtable, scan};
use super::record::push_change;
use super::values::{Pin, SEPARATED, Values};
use crate::engine::{
    Direction, Durability, Edit, Flow, KeyRange, ReadTxn, Result, Tree, Visitor, WriteTxn, key,
};
use crate::error::Error;

/// A consistent view: the changes in memory, and the engine below.
pub(super) struct View<'e> {
    active: Arc<Memtable>,
    frozen: Option<Arc<Memtable>>,
    below: Below<'e>,
}

/// A view of the engine below, with the values that its locations stand for.
struct Below<'e> {
    values: &'e Values,
    txn: Box<dyn ReadTxn + 'e>,
    /// Dropped last.
    _pin: Pin,
}

impl Core {
    /// Begins to read the last commit.
    pub(super) fn view(&self) -> Result<View<'_>> {
        // Under the lock, because the engine below must not be newer than the changes in memory.
        let state = self.state.read();
        let pin = self.values.pin();
        Ok(View {
            below: Below {
                values: &self.values,
                txn: self.below.read()?,
                _pin: pin,
            },
            active: state.active.clone(),
            frozen: state.frozen.clone(),
        })
    }
}

impl ReadTxn for Below<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        match self.txn.get(tree, key)? {
            Some(stored) if tree == SEPARATED => self.values.resolve(key, stored).map(Some),
            other => Ok(other),
        }
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        if tree != SEPARATED {
            return self.txn.scan(tree, range, direction, visit);
        }
        self.txn.scan(tree, range, direction, &mut |key, stored| {
            visit(key, &self.values.resolve(key, Cow::Borrowed(stored))?)
        })
    }
}

impl View<'_> {
    fn get_below<'v>(
        &'v self,
        own: Option<&'v Changes>,
        tree: Tree,
        key: &[u8],
    ) -> Result<Option<Cow<'v, [u8]>>> {
        if !key::is_possible(key) || is_hidden(tree, key) {
            return Ok(None);
        }
        match self.changed(own, tree, key) {
            Some(value) => Ok(value.map(Cow::Borrowed)),
            None => self.below.get(tree, key),
        }
    }

    /// Returns true if `key` has a value, without reading it.
    fn has(&self, own: &Changes, tree: Tree, key: &[u8]) -> Result<bool> {
        if !key::is_possible(key) || is_hidden(tree, key) {
            return Ok(false);
        }
        match self.changed(Some(own), tree, key) {
            Some(value) => Ok(value.is_some()),
            None => Ok(self.below.txn.get(tree, key)?.is_some()),
        }
    }

    /// Returns the last change of `key` that is not in the engine below.
    fn changed<'v>(
        &'v self,
        own: Option<&'v Changes>,
        tree: Tree,
        key: &[u8],
    ) -> Option<Option<&'v [u8]>> {
        own.and_then(|own| own.change(tree, key))
            .or_else(|| self.active.change(tree, key))
            .or_else(|| self.frozen.as_ref()?.change(tree, key))
    }

    fn scan_below(
        &self,
        own: Option<&Changes>,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let Some(range) = key::possible_range(range) else {
            return Ok(());
        };
        let own = own.map(|own| own as &dyn Layer);
        let frozen = self.frozen.as_deref().map(|frozen| frozen as &dyn Layer);
        let layers: Vec<&dyn Layer> = own
            .into_iter()
            .chain([&*self.active as &dyn Layer])
            .chain(frozen)
            .collect();
        let below = &self.below;
        if tree != Tree::Meta {
            return scan(&layers, below, tree, range, direction, visit);
        }
        scan(&layers, below, tree, range, direction, &mut |key, value| {
            if is_hidden(tree, key) {
                return Ok(Flow::Continue);
            }
            visit(key, value)
        })
    }
}

/// Returns true for keys of the journal's own in the engine below.
fn is_hidden(tree: Tree, key: &[u8]) -> bool {
    tree == Tree::Meta && key.first() == Some(&0)
}

impl ReadTxn for View<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.get_below(None, tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.scan_below(None, tree, range, direction, visit)
    }
}

/// A write transaction.
pub(super) struct Transaction<'e> {
    core: &'e Core,
    view: View<'e>,
    own: Changes,
    tail: MutexGuard<'e, Tail>,
}

impl<'e> Transaction<'e> {
    pub(super) fn new(core: &'e Core, tail: MutexGuard<'e, Tail>) -> Result<Transaction<'e>> {
        Ok(Transaction {
            view: core.view()?,
            core,
            own: Changes::default(),
            tail,
        })
    }
}

impl ReadTxn for Transaction<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.view.get_below(Some(&self.own), tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.view
            .scan_below(Some(&self.own), tree, range, direction, visit)
    }
}

impl Edit for Transaction<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        key::check(key)?;
        if is_hidden(tree, key) {
            return Err(Error::Refused("a key that is the journal's own".into()));
        }
        let value = Bytes::copy_from_slice(value);
        self.own.0[tree as usize].insert(Bytes::copy_from_slice(key), Some(value));
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        let found = self.view.has(&self.own, tree, key)?;
        if found {
            self.own.0[tree as usize].insert(Bytes::copy_from_slice(key), None);
        }
        Ok(found)
    }
}

impl WriteTxn for Transaction<'_> {
    fn commit(self: Box<Self>, durability: Durability) -> Result<()> {
        let Transaction {
            core,
            own,
            mut tail,
            ..
        } = *self;
        core.breaker.check()?;
        let mut body = Vec::new();
        for (tree, changes) in Tree::ALL.into_iter().zip(&own.0) {
            for (key, value) in changes {
                push_change(&mut body, tree, key, value.as_deref());
            }
        }
        if !body.is_empty() {
            core.append(&mut tail, &body)?;
        }
        if durability == Durability::Fsync {
            core.log
                .sync(tail.generation, tail.records, &core.breaker)?;
        }
        if body.is_empty() {
            return Ok(());
        }
        // Taken after the record was appended, which may have begun another generation.
        let mut changed = core.state.read().active.clone();
        let active = Arc::make_mut(&mut changed);
        for (tree, changes) in Tree::ALL.into_iter().zip(own.0) {
            for (key, value) in changes {
                active.insert(tree, key, value);
            }
        }
        let end = (tail.generation, tail.records);
        let before = {
            let mut state = core.state.write();
            state.end = end;
            std::mem::replace(&mut state.active, changed)
        };
        // Dropped after the lock, which readers need.
        drop(before);
        if core.is_over(1, &tail) {
            // The commit holds, whatever comes of it. A failure meets the next writer.
            let _ = core.freeze(&mut tail);
        }
        Ok(())
    }
}
