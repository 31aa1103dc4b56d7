//! A few system calls that neither the standard library nor the program `ip` offers.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

use crate::link::Nanos;

/// The name of the only interface of every node.
pub const INTERFACE: &str = "eth0";

/// Returns the time since the machine started.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Blocks this thread.
pub fn pause(time: Duration) {
    let until = rustix::time::Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    // An interruption only shortens the wait.
    let _ = rustix::thread::nanosleep(&until);
}

/// Runs a closure in its own thread in the network namespace at `path`. Sockets and devices opened
/// there stay there.
pub fn within<T: Send>(path: &Path, run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let namespace = File::open(path)?;
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        run()
    };
    let panicked = |_| Err(io::Error::other("the thread panicked"));
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap_or_else(panicked))
}

/// Makes a command run in the network namespace at `path`, under its own process id.
pub fn enter(command: &mut Command, path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    // SAFETY: between fork and exec only a system call is made, with a file that the closure owns.
    unsafe {
        command.pre_exec(
            move || match libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            },
        );
    }
    Ok(())
}

/// Creates the interface of this thread's network namespace. It exists as long as the file is open.
pub fn open_tun() -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(INTERFACE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request lives through the call, which accesses nothing beyond it.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives this thread priority over ordinary threads, so that a busy machine does not lengthen
/// delays. Returns false if that is not permitted.
pub fn hurry() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure lives through the call; 0 is this thread.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &priority) == 0
    }
}

/// Returns the processor time of this thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
