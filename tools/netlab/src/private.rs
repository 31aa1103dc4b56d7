//! A lab that ends with its process in any case.
//!
//! The program runs again in new namespaces for processes, mounts and network. Everything that it
//! starts lives there. The kernel ends all of it with the first process in there, and kills that
//! process when the process outside dies.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::Outcome;

const INSIDE: &str = "NETLAB_PRIVATE";
const UNSHARE: [&str; 6] = [
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Runs this program with the same arguments in new namespaces. Returns inside of them; outside it
/// returns only errors.
pub fn enter() -> Outcome<()> {
    if std::env::var_os(INSIDE).is_some() {
        return settle();
    }
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let status = command
        .status()
        .map_err(|error| format!("unshare: {error} (it is in the package util-linux)"))?;
    std::process::exit(status.code().unwrap_or(1));
}

/// Returns the reason why this machine permits no private namespaces, or `None`.
pub fn why_not() -> Option<String> {
    let probe = "ip link add br0 type bridge && ip tuntap add dev t0 mode tun";
    let done = Command::new("unshare")
        .args(UNSHARE)
        .args(["sh", "-c", probe])
        .output();
    match done {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// Mounts a private `/run`, so that names in it stay invisible outside.
fn settle() -> Outcome<()> {
    let done = Command::new("mount")
        .args(["-t", "tmpfs", "none", "/run"])
        .status()?;
    if !done.success() {
        return Err(io::Error::other("/run cannot be mounted").into());
    }
    Ok(std::fs::create_dir_all("/run/netns")?)
}
