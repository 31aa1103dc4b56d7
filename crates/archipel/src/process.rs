//! The process: its limits, its memory, its stop signals.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use archipel_allocator as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Makes all files that the process creates private to its user, because the metadata holds
/// secrets. Must be called before threads start.
pub fn keep_files_private() {
    // SAFETY: `umask` only sets a number.
    unsafe {
        libc::umask(0o077);
    }
}

/// Tells the service manager, if one waits for it (`Type=notify` of systemd), that the server
/// answers.
pub fn tell_ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "the service manager cannot be told that the server answers");
    }
}

/// Raises the limit of open files from the soft limit to the hard limit. Returns the new limit.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `getrlimit` fills the given structure, and its result reports failure.
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

/// The memory of the process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// All resident memory, including pages of mapped files, which the system can reclaim.
    pub resident: u64,
    /// The private memory of the process: heaps and stacks.
    pub anonymous: u64,
}

/// Returns the memory of the process, if the system reports it.
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

/// Returns the number of open files, if the system reports it.
pub fn open_files() -> Option<u64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64)
}

/// Returns the bytes that this process may still write to the file system of `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut about = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte. `statvfs` fills the structure, and its result reports
    // failure.
    let about = unsafe {
        if libc::statvfs(path.as_ptr(), about.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        about.assume_init()
    };
    Ok(about.f_bavail as u64 * about.f_frsize as u64)
}

/// Returns true if the process ignores SIGINT, as it does in the background of a script.
pub fn ignores_interrupt() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, `sigaction` only fills the given structure, and its result
    // reports failure.
    unsafe {
        libc::sigaction(libc::SIGINT, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// SIGINT and SIGTERM.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Takes the signals over, so that they no longer end the process by themselves.
    pub fn new() -> io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
