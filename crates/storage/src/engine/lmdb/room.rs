//! The available room: free disk space and address space.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{LmdbEngine, LmdbResult, resident};

/// Returns the bytes that may still be written to the file system of `folder`; `u64::MAX` if
/// unknown.
pub(super) fn free_bytes(folder: &Path) -> u64 {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else {
        return u64::MAX;
    };
    let mut about = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with a zero byte, and `about` has room for the answer.
    if unsafe { libc::statvfs(path.as_ptr(), about.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let about = unsafe { about.assume_init() };
    // Their types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    (about.f_bavail as u64).saturating_mul(about.f_frsize as u64)
}

/// Returns the limit of this process's address space in bytes, if there is one.
pub(super) fn address_space_limit() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `limit` has room for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_AS, limit.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let limit = unsafe { limit.assume_init() };
    // Its type differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as u64)
}

/// The part of the map that is kept for deletions, in bytes. They write pages before they free some.
const RESERVE_BYTES: u64 = 256 << 20;

impl LmdbEngine {
    /// Returns true if `more_bytes` more would leave less of the map than deletions may need.
    pub(super) fn has_little_room(&self, more_bytes: u64) -> bool {
        let info = self.env.info();
        let map = info.map_size as u64;
        let reserve = RESERVE_BYTES.min(map / 8);
        let has_room = |used: u64| used + more_bytes + reserve <= map;
        // Free pages within the file count as room, too, but to count them takes longer.
        !has_room((info.last_page_number as u64 + 1) * resident::page_bytes())
            && !self.used_bytes().is_ok_and(has_room)
    }

    /// Returns the size of all pages that the trees use.
    fn used_bytes(&self) -> LmdbResult<u64> {
        let txn = self.begin_read()?;
        let mut used = 0;
        for tree in self.trees {
            let stat = tree.stat(&txn)?;
            used += stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        }
        Ok(used as u64 * resident::page_bytes())
    }
}
