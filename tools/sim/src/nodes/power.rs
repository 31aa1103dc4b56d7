//! Engines and disks that stop with a power cut: what still runs of a machine that crashed changes
//! nothing any more.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archipel_storage::Error;
use archipel_storage::disk::{Disk, MemoryDisk, Space};
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{
    Direction, Durability, Edit, Engine, KeyRange, ReadTxn, Result, Tree, Visitor, WriteTxn,
};

/// The power of one run of a machine.
#[derive(Clone, Debug)]
pub struct Power(Arc<AtomicBool>);

impl Default for Power {
    fn default() -> Power {
        Power(Arc::new(AtomicBool::new(true)))
    }
}

impl Power {
    /// Cuts it, for good.
    pub fn cut(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn engine(&self) -> Result<()> {
        match self.is_on() {
            true => Ok(()),
            false => Err(Error::Failed("the power is cut".into())),
        }
    }

    fn disk(&self) -> io::Result<()> {
        match self.is_on() {
            true => Ok(()),
            false => Err(io::Error::other("the power is cut")),
        }
    }
}

/// An engine in one run of a machine.
pub struct PoweredEngine {
    /// What is underneath.
    pub engine: Arc<MemoryEngine>,
    /// The run's power.
    pub power: Power,
    /// Says of commits that they are on stable storage before they are: a defect, to see that it is noticed.
    pub lies: bool,
}

impl Engine for PoweredEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        self.power.engine()?;
        self.engine.read()
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        self.power.engine()?;
        let txn = self.engine.write()?;
        Ok(match self.lies {
            true => Box::new(Lying(txn)),
            false => txn,
        })
    }

    fn sync(&self) -> Result<()> {
        self.power.engine()?;
        self.engine.sync()
    }

    fn snapshot_to(&self, folder: &Path) -> Result<()> {
        self.engine.snapshot_to(folder)
    }

    fn size_bytes(&self) -> Result<u64> {
        self.engine.size_bytes()
    }
}

/// A transaction that is not synced, whatever is asked for.
struct Lying<'e>(Box<dyn WriteTxn + 'e>);

impl ReadTxn for Lying<'_> {
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

impl Edit for Lying<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(tree, key, value)
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        self.0.delete(tree, key)
    }
}

impl WriteTxn for Lying<'_> {
    fn commit(self: Box<Self>, _: Durability) -> Result<()> {
        self.0.commit(Durability::Buffered)
    }
}

/// A disk in one run of a machine.
pub struct PoweredDisk {
    /// What is underneath.
    pub disk: Arc<MemoryDisk>,
    /// The run's power.
    pub power: Power,
}

impl PoweredDisk {
    fn on(&self) -> io::Result<&MemoryDisk> {
        self.power.disk()?;
        Ok(&self.disk)
    }
}

impl Disk for PoweredDisk {
    fn segments(&self) -> io::Result<Vec<u32>> {
        self.on()?.segments()
    }

    fn create(&self, segment: u32) -> io::Result<()> {
        self.on()?.create(segment)
    }

    fn unlink(&self, segment: u32) -> io::Result<()> {
        self.on()?.unlink(segment)
    }

    fn length(&self, segment: u32) -> io::Result<u64> {
        self.on()?.length(segment)
    }

    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.on()?.read_at(segment, offset, buffer)
    }

    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.on()?.write_at(segment, offset, parts)
    }

    fn sync(&self, segment: u32) -> io::Result<()> {
        self.on()?.sync(segment)
    }

    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()> {
        self.on()?.preallocate(segment, offset, len)
    }

    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool> {
        self.on()?.punch(segment, offset, len)
    }

    fn set_length(&self, segment: u32, len: u64) -> io::Result<()> {
        self.on()?.set_length(segment, len)
    }

    fn allocated(&self, segment: u32) -> io::Result<u64> {
        self.on()?.allocated(segment)
    }

    fn space(&self) -> io::Result<Space> {
        self.on()?.space()
    }

    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.on()?.read_state(name)
    }

    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.on()?.write_state(name, content)
    }

    fn fsyncs(&self) -> u64 {
        self.disk.fsyncs()
    }
}
