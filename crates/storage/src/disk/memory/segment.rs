//! One segment in memory: its current content, and the content after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

use archipel_base::random::Random;

use crate::disk::PUNCH_BYTES;

const PAGE: usize = PUNCH_BYTES as usize;
const SECTOR: usize = 512;

type Page = Box<[u8; PAGE]>;
type Pages = BTreeMap<u64, Page>;

/// A segment in memory. A page that is in neither map is a hole.
#[derive(Clone, Default)]
pub(super) struct Segment {
    pub pages: Pages,
    pub length: u64,
    /// The pages that survive a crash.
    durable: Pages,
    pub durable_length: u64,
    pub dirty: BTreeSet<u64>,
}

impl Segment {
    pub fn allocated(&self) -> u64 {
        self.pages.len() as u64 * PUNCH_BYTES
    }

    pub fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (page, at) = (offset / PUNCH_BYTES, (offset % PUNCH_BYTES) as usize);
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE - at));
            let content = self.pages.entry(page).or_insert_with(empty_page);
            content[at..at + now.len()].copy_from_slice(now);
            self.dirty.insert(page);
            offset += now.len() as u64;
            bytes = rest;
        }
        self.length = self.length.max(offset);
    }

    pub fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        if offset + buffer.len() as u64 > self.length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        while !buffer.is_empty() {
            let at = (offset % PUNCH_BYTES) as usize;
            let take = buffer.len().min(PAGE - at);
            let (now, rest) = buffer.split_at_mut(take);
            match self.pages.get(&(offset / PUNCH_BYTES)) {
                Some(page) => now.copy_from_slice(&page[at..at + take]),
                None => now.fill(0),
            }
            offset += take as u64;
            buffer = rest;
        }
        Ok(())
    }

    pub fn sync(&mut self) {
        for page in std::mem::take(&mut self.dirty) {
            if let Some(content) = self.pages.get(&page) {
                self.durable.insert(page, content.clone());
            }
        }
        self.durable_length = self.length;
    }

    /// Clears a range, now and after a crash: the worst that a hole can do to its neighbours.
    pub fn clear(&mut self, from: u64, to: u64) {
        for page in from / PUNCH_BYTES..to.div_ceil(PUNCH_BYTES) {
            let start = from.saturating_sub(page * PUNCH_BYTES) as usize;
            let end = (to - page * PUNCH_BYTES).min(PUNCH_BYTES) as usize;
            for pages in [&mut self.pages, &mut self.durable] {
                if (start, end) == (0, PAGE) {
                    pages.remove(&page);
                } else if let Some(content) = pages.get_mut(&page) {
                    content[start..end].fill(0);
                }
            }
        }
    }

    /// Flips bits, now and after a crash.
    pub fn flip(&mut self, offset: u64, bits: u8) {
        for pages in [&mut self.pages, &mut self.durable] {
            if let Some(page) = pages.get_mut(&(offset / PUNCH_BYTES)) {
                page[(offset % PUNCH_BYTES) as usize] ^= bits;
            }
        }
    }

    pub fn crash(&mut self, torn: Option<&dyn Random>) {
        let dirty = std::mem::take(&mut self.dirty);
        let before = std::mem::replace(&mut self.pages, self.durable.clone());
        if let Some(random) = torn {
            for page in dirty {
                let Some(written) = before.get(&page) else {
                    continue;
                };
                let content = self.pages.entry(page).or_insert_with(empty_page);
                tear(content, written, random.next_u64());
            }
            self.durable = self.pages.clone();
            self.durable_length = self.length;
        }
        self.length = self.durable_length;
    }
}

fn empty_page() -> Page {
    Box::new([0; PAGE])
}

/// Copies each sector of `written` that has its bit set in `chance`.
fn tear(content: &mut [u8; PAGE], written: &[u8; PAGE], chance: u64) {
    let sectors = content.chunks_mut(SECTOR).zip(written.chunks(SECTOR));
    for (number, (old, new)) in sectors.enumerate() {
        if chance >> number & 1 == 1 {
            old.copy_from_slice(new);
        }
    }
}
