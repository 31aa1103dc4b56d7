//! Transactions of the engine below, with values in segments.

use std::borrow::Cow;

use super::open::Link;
use super::record::PAGE_BYTES;
use super::values::{Appends, SEPARATED};
use super::{Core, LINK_KEY};
use crate::engine::{Durability, Result, Tree, WriteTxn};
use crate::error::Error;

/// The least that an entry which is appended counts, in bytes: entries in order share pages.
const APPENDED_BYTES: usize = PAGE_BYTES / 4;

/// Changes of the engine below, as one transaction after the other.
pub(super) struct Batch<'c> {
    core: &'c Core,
    /// The segment that gets no values.
    but: Option<u32>,
    current: Option<(Box<dyn WriteTxn + 'c>, Appends<'c>)>,
    bytes: usize,
}

impl<'c> Batch<'c> {
    /// Makes an empty batch. `but` is a segment that gets no values, if any.
    pub fn new(core: &'c Core, but: Option<u32>) -> Batch<'c> {
        Batch {
            core,
            but,
            current: None,
            bytes: 0,
        }
    }

    fn open(&mut self) -> Result<&mut (Box<dyn WriteTxn + 'c>, Appends<'c>)> {
        let open = match self.current.take() {
            Some(open) => open,
            None => (
                self.core.below.write()?,
                Appends::begin(&self.core.values, self.but),
            ),
        };
        Ok(self.current.insert(open))
    }

    /// Makes a change: a value, or a removal. Returns true if it was committed with all before it.
    pub fn change(&mut self, tree: Tree, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        let values = &self.core.values;
        let (txn, appends) = self.open()?;
        if tree == SEPARATED
            && let Some(old) = txn.get(tree, key)?
        {
            appends.release(key, &old);
        }
        match value {
            Some(value) if tree == SEPARATED && values.must_hold(key, value) => {
                txn.put(tree, key, &appends.append(key, value))?;
            }
            Some(value) => txn.put(tree, key, value)?,
            None => drop(txn.delete(tree, key)?),
        }
        self.count(PAGE_BYTES + key.len() + value.map_or(0, <[u8]>::len))
    }

    /// Adds an entry above all others of its tree. Returns true if it was committed with all before it.
    pub fn append(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        let values = &self.core.values;
        let (txn, appends) = self.open()?;
        if tree == SEPARATED && values.must_hold(key, value) {
            txn.append(tree, key, &appends.append(key, value))?;
        } else {
            txn.append(tree, key, value)?;
        }
        self.count(APPENDED_BYTES + key.len() + value.len())
    }

    /// Counts `bytes` of changes. Commits them if they are enough for a transaction, and returns true then.
    fn count(&mut self, bytes: usize) -> Result<bool> {
        self.bytes += bytes;
        let is_full = self.bytes >= self.core.limits.batch_bytes;
        if is_full {
            self.commit(Durability::Buffered)?;
        }
        Ok(is_full)
    }

    /// Returns what the engine below has for `key` in the tree of separated values.
    pub fn stored(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (txn, _) = self.open()?;
        Ok(txn.get(SEPARATED, key)?.map(Cow::into_owned))
    }

    /// Makes all changes durable, and with them `link`, if it is a new one. Without the others the
    /// link would be wrong, so it is never in a transaction that is only buffered.
    pub fn finish(mut self, link: Option<Link>) -> Result<()> {
        let (txn, _) = self.open()?;
        let link = match link {
            Some(link) => link.encode(),
            // An engine need not flush for a transaction without changes.
            None => {
                let link = txn.get(Tree::Meta, LINK_KEY)?.map(Cow::into_owned);
                link.ok_or_else(|| Error::Failed("the link of the journal is missing".into()))?
            }
        };
        txn.put(Tree::Meta, LINK_KEY, &link)?;
        self.commit(Durability::Fsync)
    }

    /// Commits what was changed since the last commit. The values are on stable storage before.
    fn commit(&mut self, durability: Durability) -> Result<()> {
        self.bytes = 0;
        let Some((mut txn, appends)) = self.current.take() else {
            return Ok(());
        };
        let core = self.core;
        appends
            .write()
            .map_err(|e| Error::from_io("writing values", &e))?;
        if let Some(segment) = appends.to_sync() {
            let synced = core.log.disk.sync(segment);
            synced.map_err(|e| core.breaker.trip("syncing values", e))?;
        }
        for (key, counts) in appends.counts() {
            match counts {
                Some(counts) => txn.put(Tree::Meta, &key, &counts)?,
                None => drop(txn.delete(Tree::Meta, &key)?),
            }
        }
        txn.commit(durability)?;
        appends.committed(durability);
        Ok(())
    }
}
