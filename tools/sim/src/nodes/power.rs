//! Engines and disks that stop with a power cut. Tasks of a crashed machine that still run change
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

use super::disks::Condition;

/// The error of a commit on a full disk.
pub const FULL: &str = "the disk is full";

/// The power of one run of a machine.
#[derive(Clone, Debug)]
pub struct Power(Arc<AtomicBool>);

impl Default for Power {
    fn default() -> Power {
        Power(Arc::new(AtomicBool::new(true)))
    }
}

impl Power {
    /// Cuts the power for good.
    pub fn cut(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn engine(&self) -> Result<()> {
        if self.is_on() {
            Ok(())
        } else {
            Err(Error::Failed("the power is cut".into()))
        }
    }

    fn disk(&self) -> io::Result<()> {
        if self.is_on() {
            Ok(())
        } else {
            Err(io::Error::other("the power is cut"))
        }
    }
}

/// An engine in one run of a machine.
pub struct PoweredEngine {
    /// The engine of the machine.
    pub engine: Arc<MemoryEngine>,
    /// The run's power.
    pub power: Power,
    /// The state of the machine's disks.
    pub condition: Arc<Condition>,
    /// True if it reports commits as done although the disk is full: a planted defect that a
    /// checker must notice.
    pub swallows: bool,
    /// True if it reports commits as stable before they are: a planted defect that a checker must
    /// notice.
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
        let end = match (self.condition.is_short(), self.condition.is_full()) {
            (true, _) if self.swallows => End::Swallowed,
            (_, true) => End::Fails,
            _ if self.lies => End::Unsynced,
            _ => return Ok(txn),
        };
        Ok(Box::new(Ending { txn, end }))
    }

    fn sync(&self) -> Result<()> {
        self.power.engine()?;
        self.engine.sync()
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        self.engine.copy_to(source, folder)
    }

    fn size_bytes(&self) -> Result<u64> {
        self.engine.size_bytes()
    }
}

/// The wrong end of a transaction.
enum End {
    /// It is never synced, whatever durability is asked for.
    Unsynced,
    /// It fails, because the disk is full.
    Fails,
    /// It is dropped, and reported as committed.
    Swallowed,
}

/// A transaction with another end than it is asked for.
struct Ending<'e> {
    txn: Box<dyn WriteTxn + 'e>,
    end: End,
}

impl ReadTxn for Ending<'_> {
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
        self.txn.scan(tree, range, direction, visit)
    }
}

impl Edit for Ending<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.put(tree, key, value)
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        self.txn.delete(tree, key)
    }
}

impl WriteTxn for Ending<'_> {
    fn commit(self: Box<Self>, _: Durability) -> Result<()> {
        match self.end {
            End::Unsynced => self.txn.commit(Durability::Buffered),
            End::Fails => Err(Error::Full(FULL.into())),
            End::Swallowed => Ok(()),
        }
    }
}

/// A disk in one run of a machine.
pub struct PoweredDisk {
    /// The disk of the machine.
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

    fn syncs_overwrites_faster(&self) -> bool {
        self.disk.syncs_overwrites_faster()
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
