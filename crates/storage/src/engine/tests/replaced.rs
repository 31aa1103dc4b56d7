//! Open files of a library, replaced by others so that its calls fail. `/dev/null` takes all writes and refuses to be
//! synced or cut. `/dev/full` takes no write for lack of space.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

/// A file that is replaced until this is dropped.
pub struct Replaced {
    number: RawFd,
    original: OwnedFd,
}

/// Returns the descriptors with which this process has `path` open.
pub fn descriptors(path: &Path) -> Vec<RawFd> {
    let path = fs::canonicalize(path).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|entry| {
        let entry = entry.unwrap();
        // Another thread may have closed it meanwhile.
        let target = fs::read_link(entry.path()).ok()?;
        (target == path).then(|| entry.file_name().to_str().unwrap().parse().unwrap())
    })
    .collect()
}

/// Returns the one descriptor with which this process has `path` open.
pub fn descriptor(path: &Path) -> RawFd {
    let found = descriptors(path);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

impl Replaced {
    /// Puts the file `other` in place of an open one.
    pub fn new(number: RawFd, other: &str) -> Replaced {
        let other = File::options().read(true).write(true).open(other);
        Replaced::by(number, &other.unwrap())
    }

    /// Puts an empty file in place of an open one that takes no writes, though there is room.
    pub fn unwritable(number: RawFd) -> Replaced {
        Replaced::by(number, &File::open("/dev/null").unwrap())
    }

    fn by(number: RawFd, other: &File) -> Replaced {
        // SAFETY: the test's library keeps the descriptor open.
        let original = unsafe { BorrowedFd::borrow_raw(number) };
        let replaced = Replaced {
            number,
            original: original.try_clone_to_owned().unwrap(),
        };
        duplicate(other, number);
        replaced
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        duplicate(&self.original, self.number);
    }
}

fn duplicate(file: &impl AsRawFd, number: RawFd) {
    // SAFETY: the test's library keeps the descriptor open, and must bear that its calls fail.
    let duplicated = unsafe { libc::dup2(file.as_raw_fd(), number) };
    assert_eq!(duplicated, number);
}
