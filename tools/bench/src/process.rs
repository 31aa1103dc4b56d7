//! What the kernel tells of a process.

use std::fs;

/// Processor time used so far by all threads of a process, in seconds; None if it cannot be read.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold spaces; utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    // SAFETY: sysconf only reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (per_second > 0).then(|| ticks / per_second as f64)
}

/// The largest resident size so far, in MiB.
pub fn peak_mib(pid: u32) -> Option<f64> {
    status_mib(pid, "VmHWM:")
}

/// What it holds now that is no file's, in MiB.
pub fn anonymous_mib(pid: u32) -> Option<f64> {
    status_mib(pid, "RssAnon:")
}

fn status_mib(pid: u32, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}
