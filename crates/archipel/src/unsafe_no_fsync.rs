//! Storage that skips syncs, which the power-cut tests must detect.
//!
//! With `ARCHIPEL_UNSAFE_NO_FSYNC=1` acknowledged writes are not on stable storage. It has no other
//! use.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;

use archipel_storage::disk::{Disk, Space};
use archipel_storage::engine::{
    Direction, Durability, Edit, Engine, JournalStatus, KeyRange, ReadTxn, Result, Tree, Visitor,
    WriteTxn,
};

/// Returns true if the mode is requested. Logs a warning then.
pub fn wanted() -> bool {
    let wanted = std::env::var_os("ARCHIPEL_UNSAFE_NO_FSYNC").is_some_and(|value| value == "1");
    if wanted {
        tracing::error!(
            "ARCHIPEL_UNSAFE_NO_FSYNC is set: acknowledged writes are NOT on stable storage and WILL be lost in a power cut. This is for tests of the tests only"
        );
    }
    wanted
}

/// A disk that never syncs.
pub struct NoSyncDisk<D>(pub Arc<D>);

impl<D: Disk> Disk for NoSyncDisk<D> {
    fn segments(&self) -> io::Result<Vec<u32>> {
        self.0.segments()
    }

    fn create(&self, segment: u32) -> io::Result<()> {
        self.0.create(segment)
    }

    fn unlink(&self, segment: u32) -> io::Result<()> {
        self.0.unlink(segment)
    }

    fn length(&self, segment: u32) -> io::Result<u64> {
        self.0.length(segment)
    }

    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(segment, offset, buffer)
    }

    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.write_at(segment, offset, parts)
    }

    fn sync(&self, _segment: u32) -> io::Result<()> {
        Ok(())
    }

    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()> {
        self.0.preallocate(segment, offset, len)
    }

    fn syncs_overwrites_faster(&self) -> bool {
        false
    }

    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool> {
        self.0.punch(segment, offset, len)
    }

    fn set_length(&self, segment: u32, len: u64) -> io::Result<()> {
        self.0.set_length(segment, len)
    }

    fn allocated(&self, segment: u32) -> io::Result<u64> {
        self.0.allocated(segment)
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.read_state(name)
    }

    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.0.write_state(name, content)
    }

    fn fsyncs(&self) -> u64 {
        self.0.fsyncs()
    }
}

/// An engine whose commits are all buffered.
pub struct NoSyncEngine(pub Arc<dyn Engine>);

impl Engine for NoSyncEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        self.0.read()
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        Ok(Box::new(NoSyncTxn(self.0.write()?)))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        self.0.copy_to(source, folder)
    }

    fn size_bytes(&self) -> Result<u64> {
        self.0.size_bytes()
    }

    fn journal(&self) -> Option<JournalStatus> {
        self.0.journal()
    }

    fn is_nearly_full(&self, more_bytes: u64) -> bool {
        self.0.is_nearly_full(more_bytes)
    }

    fn trim_resident(&self, limit_bytes: u64) -> Result<u64> {
        self.0.trim_resident(limit_bytes)
    }
}

struct NoSyncTxn<'e>(Box<dyn WriteTxn + 'e>);

impl ReadTxn for NoSyncTxn<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.0.get(tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.0.scan(tree, range, direction, visit)
    }
}

impl Edit for NoSyncTxn<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(tree, key, value)
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        self.0.delete(tree, key)
    }
}

impl WriteTxn for NoSyncTxn<'_> {
    fn commit(self: Box<Self>, _durability: Durability) -> Result<()> {
        self.0.commit(Durability::Buffered)
    }
}
