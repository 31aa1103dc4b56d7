//! Letting go of mapped pages, so that what was read does not count as this process's memory.
//!
//! Only Linux tells how much of a map is resident (`/proc/self`); elsewhere nothing is done.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::Result;
use crate::error::Error;

/// Reads between two looks: each may map 64 KiB (the kernel maps pages around the one that is asked for).
const READS_BETWEEN_LOOKS: u64 = 64;

/// Keeps the resident part of a map bounded while it is worked with.
pub(super) struct Limit {
    map: Option<Mapping>,
    /// `/proc/self/statm`, kept open: it is read after each commit.
    statm: Option<File>,
    limit_bytes: u64,
    page_bytes: u64,
    /// When to let go: this many bytes of files are resident in the process. Files that are not ours
    /// (the program itself) count too, so it is set anew by what remained.
    next_bytes: AtomicU64,
    reads: AtomicU64,
}

impl Limit {
    /// A limit for the map of `file`, which is mapped already and stays so until the engine is dropped.
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

    /// To be called after a read; looks now and then.
    pub(super) fn after_read(&self) {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        if reads.is_multiple_of(READS_BETWEEN_LOOKS) {
            self.look();
        }
    }

    /// Lets go of the map if too much is resident. Costs a few microseconds if not.
    pub(super) fn look(&self) {
        let Some(map) = &self.map else { return };
        let resident = || self.resident_file_bytes();
        if resident().is_none_or(|bytes| bytes <= self.next_bytes.load(Ordering::Relaxed)) {
            return;
        }
        if let Err(error) = let_go(map) {
            tracing::warn!("{error}");
        }
        let others = resident().unwrap_or(0);
        let next = self.limit_bytes.max(others + self.limit_bytes / 2);
        self.next_bytes.store(next, Ordering::Relaxed);
    }

    /// Bytes of files that are mapped and resident in this process: the third number of `statm`, in pages.
    fn resident_file_bytes(&self) -> Option<u64> {
        let mut text = [0; 256];
        let len = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        let statm = std::str::from_utf8(&text[..len]).ok()?;
        let pages: u64 = statm.split(' ').nth(2)?.parse().ok()?;
        Some(pages * self.page_bytes)
    }
}

fn page_bytes() -> u64 {
    // SAFETY: it takes a number and answers with a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// Unmaps the pages of `file` if more than `limit_bytes` of it are resident. Returns how many were.
pub(super) fn trim(file: &Path, limit_bytes: u64) -> Result<u64> {
    let path = fs::canonicalize(file)
        .map_err(|e| Error::from_io(&format!("looking for {}", file.display()), &e))?;
    // Not on Linux, or not allowed to look: nothing can be done, and nothing must be.
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else {
        return Ok(0);
    };
    let maps: Vec<Mapping> = mappings(&smaps, &path).collect();
    let resident = maps.iter().map(|m| m.resident_bytes).sum();
    if resident > limit_bytes {
        maps.iter().try_for_each(let_go)?;
    }
    Ok(resident)
}

#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    len: usize,
    resident_bytes: u64,
}

/// The shared read-only mappings of `path` among those that `smaps` lists.
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

/// Start and end, if the line begins a shared read-only mapping of `path`:
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

fn let_go(mapping: &Mapping) -> Result<()> {
    // SAFETY: the range is one whole mapping of LMDB's data file, listed a moment ago by the
    // kernel; LMDB maps it once at opening and unmaps it only when the environment is closed, which
    // cannot happen while a method of the engine runs. It is shared, file-backed and read-only: the
    // call drops page-table entries and no data (the file and the page cache keep it), and an access
    // by another thread meanwhile just maps the page again.
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
    fn only_the_shared_mapping_of_the_file() {
        let found: Vec<_> = mappings(SMAPS, Path::new("/data/a b/data.mdb")).collect();
        let expected = Mapping {
            start: 0x7f00_0000_0000,
            len: 0x40_0000,
            resident_bytes: 12 * 1024,
        };
        assert_eq!(found, [expected]);
    }
}
