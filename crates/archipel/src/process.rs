//! The process: its limits, its memory, the signals that end it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What takes and gives memory; libraries in C (LMDB, zstd) have the system's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How it does that: read by the allocator before anything else runs. Few heaps, as each holds freed memory; what is free
/// goes back to the system within a second, by a thread that sleeps while there is nothing to give.
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_SETTINGS: &[u8] =
    b"narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true\0";

/// Makes all files that the process creates from now on its user's alone: the metadata holds
/// secrets. To be called before threads are started.
pub fn keep_files_private() {
    // SAFETY: `umask` only sets a number.
    unsafe {
        libc::umask(0o077);
    }
}

/// Raises the number of files that may be open from the soft limit to the hard one.
/// Returns the limit that holds now.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `getrlimit` fills the structure it is given, and says if it did not.
    let mut limit = unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.assume_init()
    };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `setrlimit` only reads the structure.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory that the process holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// All of it (resident set), with pages of mapped files, which the system may take back.
    pub resident: u64,
    /// What is the process's alone: heaps and stacks.
    pub anonymous: u64,
}

/// Memory that the process holds, if the system tells.
pub fn memory() -> Option<Memory> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    };
    Some(Memory {
        resident: bytes("VmRSS:")?,
        anonymous: bytes("RssAnon:")?,
    })
}

/// Files that the process has open, if the system tells.
pub fn open_files() -> Option<u64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64)
}

/// Bytes that this process may still write to the file system of `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut about = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero; `statvfs` fills the structure, and says if it did not.
    let about = unsafe {
        if libc::statvfs(path.as_ptr(), about.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        about.assume_init()
    };
    Ok(about.f_bavail as u64 * about.f_frsize as u64)
}

/// SIGINT and SIGTERM.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Takes the signals over: from now on they no longer end the process by themselves.
    pub fn new() -> io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one; returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
