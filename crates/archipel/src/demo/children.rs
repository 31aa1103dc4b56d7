//! Node processes that end with the demo.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::client::Failure;

/// The time that a node may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Starts `archipel server` on a configuration; what it logs goes to `log`.
pub fn start(config: &Path, log: &Path) -> Result<Child, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::new(format!(
            "a node cannot be started ({}): {error}",
            config.display()
        ))
    };
    let program = std::env::current_exe().map_err(cannot)?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(cannot)?;
    let mut command = std::process::Command::new(program);
    command
        .arg("server")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // SAFETY: `prctl` with these arguments only sets a flag of the new process, and may be called
    // between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // So that no node stays behind if the demo is killed.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    Command::from(command).spawn().map_err(cannot)
}

/// Asks all to stop, and kills those who do not.
pub async fn stop(children: &mut [Child]) {
    for child in children.iter() {
        if let Some(pid) = child.id() {
            // SAFETY: a signal to a child of ours that has not been waited for.
            unsafe {
                libc::kill(pid as libc::pid_t, libc::SIGTERM);
            }
        }
    }
    for child in children {
        if tokio::time::timeout(STOP_TIMEOUT, child.wait())
            .await
            .is_err()
        {
            let _ = child.kill().await;
        }
    }
}
