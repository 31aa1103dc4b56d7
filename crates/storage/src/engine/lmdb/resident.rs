//! Unmaps pages of the engine's file, so that they do not count as memory of this process.
//!
//! Only Linux reports how much of a map is resident (`/proc/self`). On other systems nothing is
//! done.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::Result;
use crate::error::Error;

/// The number of reads between two checks. Each read may map 64 KiB, because the kernel also maps
/// the pages around it.
const READS_BETWEEN_CHECKS: u64 = 64;

/// A limit for the resident part of a map.
pub(super) struct Limit {
    map: Option<Mapping>,
    /// `/proc/self/statm`, kept open because it is read after each commit.
    statm: Option<File>,
    limit_bytes: u64,
    page_bytes: u64,
    /// The size of resident file pages, in bytes, at which to unmap. Other files (the program
    /// itself) count too, so each check computes it again from the remaining size.
    next_bytes: AtomicU64,
    reads: AtomicU64,
}

impl Limit {
    /// Makes a limit for the map of `file`. The file is mapped already and stays mapped until the
    /// engine is dropped.
    pub(super) fn new(file: &Path, limit_bytes: u64) -> Limit {
        let path = fs::canonicalize(file).ok();
        let smaps = fs::read_to_string("/proc/self/smaps").ok();
        let map = path
            .zip(smaps)
            .and_then(|(path, smaps)| mappings(&smaps, &path).next());
        Limit {
            map,
            statm: File::open("/proc/self/statm").ok(),
            limit_bytes,
            page_bytes: page_bytes(),
            next_bytes: AtomicU64::new(limit_bytes),
            reads: AtomicU64::new(0),
        }
    }

    /// Counts a read. Checks the limit at intervals.
    pub(super) fn after_read(&self) {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        if reads.is_multiple_of(READS_BETWEEN_CHECKS) {
            self.check();
        }
    }

    /// Unmaps the file if too much is resident. Otherwise the check costs a few microseconds.
    pub(super) fn check(&self) {
        let Some(map) = &self.map else { return };
        let resident = || self.resident_file_bytes();
        if resident().is_none_or(|bytes| bytes <= self.next_bytes.load(Ordering::Relaxed)) {
            return;
        }
        if let Err(error) = unmap(map) {
            tracing::warn!("{error}");
        }
        let others = resident().unwrap_or(0);
        let next = self.limit_bytes.max(others + self.limit_bytes / 2);
        self.next_bytes.store(next, Ordering::Relaxed);
    }

    /// Returns the bytes of mapped files that are resident in this process: the third number of
    /// `statm`, in pages.
    fn resident_file_bytes(&self) -> Option<u64> {
        let mut text = [0; 256];
        let len = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        let statm = std::str::from_utf8(&text[..len]).ok()?;
        let pages: u64 = statm.split(' ').nth(2)?.parse().ok()?;
        Some(pages * self.page_bytes)
    }
}

pub(super) fn page_bytes() -> u64 {
    // SAFETY: the call takes and returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// Unmaps the pages of `file` if more than `limit_bytes` of them are resident. Returns how many
/// bytes were resident.
pub(super) fn trim(file: &Path, limit_bytes: u64) -> Result<u64> {
    let path = fs::canonicalize(file)
        .map_err(|e| Error::from_io(&format!("looking for {}", file.display()), &e))?;
    // The system is not Linux, or forbids the check. Then nothing is done.
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else {
        return Ok(0);
    };
    let maps: Vec<Mapping> = mappings(&smaps, &path).collect();
    let resident = maps.iter().map(|m| m.resident_bytes).sum();
    if resident > limit_bytes {
        maps.iter().try_for_each(unmap)?;
    }
    Ok(resident)
}

#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    len: usize,
    resident_bytes: u64,
}

/// Returns the shared read-only mappings of `path` in `smaps`.
fn mappings<'s>(smaps: &'s str, path: &'s Path) -> impl Iterator<Item = Mapping> + 's {
    let mut lines = smaps.lines();
    std::iter::from_fn(move || {
        loop {
            let Some((start, end)) = header(lines.next()?, path) else {
                continue;
            };
            let resident = lines.by_ref().find_map(|line| line.strip_prefix("Rss:"))?;
            let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
            return Some(Mapping {
                start,
                len: end.checked_sub(start)?,
                resident_bytes: kib * 1024,
            });
        }
    })
}

/// Returns the start and end if the line begins a shared read-only mapping of `path`:
/// `7f00-7f10 r--s 00000000 08:01 1234    /path`.
fn header(line: &str, path: &Path) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let name = rest.find('/').map(|at| &rest[at..])?;
    if !rest.starts_with("r--s") || Path::new(name) != path {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some((
        usize::from_str_radix(start, 16).ok()?,
        usize::from_str_radix(end, 16).ok()?,
    ))
}

fn unmap(mapping: &Mapping) -> Result<()> {
    // SAFETY: the range is one whole mapping of LMDB's data file, as the kernel has just listed it.
    // LMDB maps the file once at opening and unmaps it only when the environment is closed, which
    // cannot happen while a method of the engine runs. The mapping is shared, file-backed and
    // read-only. The call drops page-table entries but no data: the file and the page cache keep
    // the data, and an access by another thread just maps the page again.
    let result = unsafe {
        libc::madvise(
            mapping.start as *mut libc::c_void,
            mapping.len,
            libc::MADV_DONTNEED,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(Error::from_io(
        "letting go of mapped pages",
        &std::io::Error::last_os_error(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 r--s 00000000 08:01 12  /data/a b/data.mdb
Size:               4096 kB
Rss:                  12 kB
Pss:                  12 kB
7f0000400000-7f0000500000 rw-p 00000000 08:01 12  /data/a b/data.mdb
Size:               1024 kB
Rss:                   8 kB
7f0000600000-7f0000700000 r--s 00000000 08:01 13  /data/other.mdb
Rss:                   4 kB
7f0000800000-7f0000900000 rw-p 00000000 00:00 0
Rss:                   4 kB
";

    #[test]
    fn mappings_finds_only_shared_mappings_of_the_file() {
        let found: Vec<_> = mappings(SMAPS, Path::new("/data/a b/data.mdb")).collect();
        let expected = Mapping {
            start: 0x7f00_0000_0000,
            len: 0x40_0000,
            resident_bytes: 12 * 1024,
        };
        assert_eq!(found, [expected]);
    }
}
