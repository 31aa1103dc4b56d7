//! The fields of keys and values, decoded from the front.

use archipel_base::{BlockHash, Id, Stamp};

use super::MAX_BODY_BLOCKS;
use crate::checksum::crc32c_of;
use crate::engine::{Result, Tree};
use crate::error::Error;
use crate::row::{BlockRef, UsageDelta};

/// The version byte of values.
pub const VERSION: u8 = 1;

/// Returns the error for a key or value of the wrong length.
pub fn short(what: &str) -> Error {
    Error::Damaged(format!("{what} of the wrong length"))
}

/// The place of a value: its tree and its key there. The value's checksum covers both, so that a
/// value under a wrong key, or in a wrong tree, is damaged.
#[derive(Clone, Copy)]
pub struct Slot<'a>(pub Tree, pub &'a [u8]);

impl Slot<'_> {
    fn checksum(&self, value: &[u8]) -> u32 {
        let Slot(tree, key) = *self;
        // The length keeps keys and values apart. No key has more than 1200 bytes.
        let length = (key.len() as u16).to_be_bytes();
        crc32c_of(&[&[tree as u8], &length, key, value])
    }

    /// Appends the checksum to a value, which begins with the version byte.
    pub fn seal(&self, mut value: Vec<u8>) -> Vec<u8> {
        let sum = self.checksum(&value);
        value.extend_from_slice(&sum.to_be_bytes());
        value
    }
}

/// The length of the checksum in bytes.
pub const SUM_BYTES: usize = 4;

/// A decoder that takes fields off the front. A missing field is damage.
pub struct Reader<'a> {
    bytes: &'a [u8],
    what: &'a str,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], what: &'a str) -> Reader<'a> {
        Reader { bytes, what }
    }

    /// Makes a reader after checking the checksum at the end and the version byte, in this order.
    /// The checksum has the same place in all versions, so a flipped bit in the version byte is
    /// damage, and any other unknown version is a later one.
    pub fn sealed(slot: Slot<'_>, bytes: &'a [u8], what: &'a str) -> Result<Reader<'a>> {
        let (value, sum) = bytes
            .split_last_chunk::<SUM_BYTES>()
            .ok_or_else(|| short(what))?;
        if slot.checksum(value) != u32::from_be_bytes(*sum) {
            return Err(Error::Damaged(format!("{what} with a wrong checksum")));
        }
        let mut reader = Reader::new(value, what);
        match reader.u8()? {
            VERSION => Ok(reader),
            0 => Err(Error::Damaged(format!("{what} of version 0"))),
            later => Err(Error::Newer(format!(
                "{what} of version {later}; this release reads version {VERSION}"
            ))),
        }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or_else(|| short(self.what))?;
        self.bytes = rest;
        Ok(*first)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub fn id(&mut self) -> Result<Id> {
        Ok(Id(self.array()?))
    }

    pub fn stamp(&mut self) -> Result<Stamp> {
        Ok(Stamp::from_bytes(self.array()?))
    }

    pub fn usage(&mut self) -> Result<UsageDelta> {
        Ok(UsageDelta {
            group: self.id()?,
            objects: self.u32()?,
            bytes: self.u64()?,
        })
    }

    pub fn blocks(&mut self) -> Result<Vec<BlockRef>> {
        let count = usize::from(self.u8()?);
        if count > MAX_BODY_BLOCKS {
            return Err(Error::Damaged(format!("a payload of {count} blocks")));
        }
        (0..count).map(|_| self.block()).collect()
    }

    pub fn block(&mut self) -> Result<BlockRef> {
        Ok(BlockRef {
            hash: BlockHash(self.array()?),
            len: self.u32()?,
        })
    }

    /// Takes bytes that follow their own length.
    pub fn short(&mut self) -> Result<&'a [u8]> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        let (first, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| short(self.what))?;
        self.bytes = rest;
        Ok(first)
    }

    /// Does the same with a longer length.
    pub fn long(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()? as usize;
        let (first, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| short(self.what))?;
        self.bytes = rest;
        Ok(first)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub fn end(&self) -> Result<()> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(short(self.what))
        }
    }
}
