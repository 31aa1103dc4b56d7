//! Where reads run: in place, on one thread of the pool, or on many.
//!
//! On a thread of the pool a short read costs two wake-ups, several times what it costs itself if its pages are in memory, as they mostly
//! are. So it runs where it is asked for, as long as reads find their pages. A read that has to wait for the disk makes the store **cold**
//! for the next ones: short ones go to the pool, and what long ones will need is read ahead by many threads at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// For how many reads a store is cold after one that waited for the disk.
const COLD: u32 = 256;

/// Decides where reads run.
#[derive(Default)]
pub(super) struct Place {
    /// Somebody reads in place: one at a time, so that a disk that hangs holds up no more than one async thread.
    busy: AtomicBool,
    /// For how many reads it is cold.
    cold: AtomicU32,
}

/// Watches a read on this thread, until it is dropped.
pub(super) struct Watch<'a> {
    place: &'a Place,
    faults_before: u64,
}

/// The right to read in place, until it is dropped.
pub(super) struct InPlace<'a> {
    watch: Watch<'a>,
}

impl Place {
    /// The right to read here and now; `None` if the pool is to do it.
    pub fn here(&self) -> Option<InPlace<'_>> {
        if self.is_cold() {
            return None;
        }
        let turn = self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        turn.ok().map(|_| InPlace {
            watch: self.watch(),
        })
    }

    /// Watches whether a read on this thread waits for the disk.
    pub fn watch(&self) -> Watch<'_> {
        Watch {
            place: self,
            faults_before: major_faults(),
        }
    }

    /// Whether the next read had better not count on memory.
    pub fn is_cold(&self) -> bool {
        let left = self.cold.load(Ordering::Relaxed);
        if left > 0 {
            // Two at once may count as one: it is cold for one read more.
            self.cold.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if major_faults() != self.faults_before {
            self.place.cold.store(COLD, Ordering::Relaxed);
        }
    }
}

impl Drop for InPlace<'_> {
    fn drop(&mut self) {
        self.watch.place.busy.store(false, Ordering::Release);
    }
}

/// How often this thread has waited for a page from disk.
fn major_faults() -> u64 {
    // Elsewhere only the process can be asked, which makes it seem cold more often than it is.
    #[cfg(target_os = "linux")]
    let who = libc::RUSAGE_THREAD;
    #[cfg(not(target_os = "linux"))]
    let who = libc::RUSAGE_SELF;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the type that the call fills, of which all zeros are a valid value.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_majflt).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_reads_in_place() {
        let place = Place::default();
        let turn = place.here();
        assert!(turn.is_some() && place.here().is_none());
        drop(turn);
        assert!(place.here().is_some());
    }

    #[test]
    fn a_wait_for_the_disk_sends_the_next_ones_elsewhere() {
        let place = Place::default();
        drop(Watch {
            place: &place,
            // As if there had been one meanwhile.
            faults_before: major_faults() + 1,
        });
        for _ in 0..COLD {
            assert!(place.here().is_none());
        }
        assert!(place.here().is_some());
    }
}
