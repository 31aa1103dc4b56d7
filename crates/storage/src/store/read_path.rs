//! The choice of the thread for a read: the calling thread, one thread of the pool, or many.
//!
//! On a thread of the pool a short read costs two wake-ups. This is several times the cost of the
//! read itself if its pages are in memory, as they mostly are. So a short read runs in the calling
//! thread while reads find their pages in memory. A read that waits for the disk makes the store
//! **cold** for the next reads. While the store is cold, short reads run on the pool, and many
//! threads read ahead for long reads.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of reads for which a store is cold after one read waited for the disk.
const COLD: u32 = 256;

/// The state that decides where reads run.
#[derive(Default)]
pub(super) struct ReadPath {
    /// True while a read runs in its calling thread. Only one does so at a time, so that a disk
    /// that hangs blocks at most one async thread.
    busy: AtomicBool,
    /// The number of further reads for which the store is cold.
    cold: AtomicU32,
}

/// A watch for waits of a read on this thread for the disk. It ends when it is dropped.
pub(super) struct Watch<'a> {
    read_path: &'a ReadPath,
    waits_before: u64,
}

/// The right to read in the calling thread. It ends when it is dropped.
pub(super) struct InPlaceRead<'a> {
    watch: Watch<'a>,
}

impl ReadPath {
    /// Returns the right to read in the calling thread; `None` if the pool must do the read.
    pub fn try_in_place(&self) -> Option<InPlaceRead<'_>> {
        if self.is_cold() {
            return None;
        }
        let right = self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        right.ok().map(|_| InPlaceRead {
            watch: self.watch(),
        })
    }

    /// Starts to watch if a read on this thread waits for the disk.
    pub fn watch(&self) -> Watch<'_> {
        Watch {
            read_path: self,
            waits_before: waits_for_disk(),
        }
    }

    /// Returns true if the next read should not count on memory. Counts that read.
    pub fn is_cold(&self) -> bool {
        let left = self.cold.load(Ordering::Relaxed);
        if left > 0 {
            // Two concurrent reads may count as one. The store is then cold for one read more.
            self.cold.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if waits_for_disk() != self.waits_before {
            self.read_path.cold.store(COLD, Ordering::Relaxed);
        }
    }
}

impl Drop for InPlaceRead<'_> {
    fn drop(&mut self) {
        self.watch.read_path.busy.store(false, Ordering::Release);
    }
}

/// Returns how often this thread has waited for the disk: for a page of a mapped file, or for what a
/// call reads.
fn waits_for_disk() -> u64 {
    // Other systems report this only for the process, so the store seems cold more often than it
    // is.
    #[cfg(target_os = "linux")]
    let who = libc::RUSAGE_THREAD;
    #[cfg(not(target_os = "linux"))]
    let who = libc::RUSAGE_SELF;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the type that the call fills. All zeros are a valid value
    // of that type.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let count = |waits: libc::c_long| u64::try_from(waits).unwrap_or(0);
    count(usage.ru_majflt) + count(usage.ru_inblock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_at_a_time_runs_in_place() {
        let read_path = ReadPath::default();
        let right = read_path.try_in_place();
        assert!(right.is_some() && read_path.try_in_place().is_none());
        drop(right);
        assert!(read_path.try_in_place().is_some());
    }

    #[test]
    fn a_read_that_waits_for_the_disk_makes_the_store_cold() {
        let read_path = ReadPath::default();
        drop(Watch {
            read_path: &read_path,
            // This simulates a wait during the watch.
            waits_before: waits_for_disk() + 1,
        });
        for _ in 0..COLD {
            assert!(read_path.try_in_place().is_none());
        }
        assert!(read_path.try_in_place().is_some());
    }
}
