//! Figures of a process from the kernel.

use std::fs;

/// Returns the processor time of all threads of a process in seconds, or `None` if it cannot be
/// read.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain spaces. The fields 14 and 15 are
    // utime and stime.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    // SAFETY: `sysconf` only reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (per_second > 0).then(|| ticks / per_second as f64)
}

/// Returns the largest resident size so far, in MiB.
pub fn peak_mib(pid: u32) -> Option<f64> {
    status_mib(pid, "VmHWM:")
}

/// Returns the memory that is not backed by files, in MiB.
pub fn anonymous_mib(pid: u32) -> Option<f64> {
    status_mib(pid, "RssAnon:")
}

fn status_mib(pid: u32, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}
