//! Progress on standard error: one changing line on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::{escape, terminal};
use crate::client::Failure;
use crate::process;

/// The width of a bar, in characters.
const WIDTH: u64 = 24;
/// The number of polls between two lines without a terminal.
const QUIET_LOOKS: u32 = 100;
/// The time between two polls.
pub const LOOK: Duration = Duration::from_millis(200);
/// The time for which a wait goes on while nothing tells how far its work is, or while something
/// holds the work up that may soon be over. For example, a node that has just started does not know
/// the time.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The same for layout changes. The trouble of a partition is shown until its next try, while others
/// move, and their rows are counted in batches, which may be large.
pub const PATIENCE_WITH_DATA: Duration = Duration::from_secs(600);

/// A progress display.
pub struct Progress {
    is_quiet: bool,
    is_terminal: bool,
    looks: u32,
    shown: usize,
}

impl Progress {
    /// Creates an empty display.
    pub fn new() -> Progress {
        Progress {
            is_quiet: terminal::is_quiet(),
            is_terminal: io::stderr().is_terminal(),
            looks: 0,
            shown: 0,
        }
    }

    /// Shows a line. Errors are ignored, because a closed standard error is no failure.
    pub fn show(&mut self, line: &str) {
        if self.is_quiet {
            return;
        }
        let line = escape::line(line);
        if self.is_terminal {
            // A longer line would wrap, and `\r` would return to the beginning of its last part
            // only.
            let fits = terminal::width_of_errors().map_or(usize::MAX, |width| width - 1);
            let line: String = line.chars().take(fits).collect();
            let width = self.shown.max(line.chars().count()).min(fits);
            self.shown = line.chars().count();
            let _ = write!(io::stderr(), "\r{line:width$}");
            let _ = io::stderr().flush();
        } else if self.looks.is_multiple_of(QUIET_LOOKS) {
            let _ = writeln!(io::stderr(), "{line}");
        }
        self.looks += 1;
    }

    /// Ends the line.
    pub fn end(&mut self) {
        if self.is_terminal && self.shown > 0 {
            let width = self.shown;
            let _ = write!(io::stderr(), "\r{:width$}\r", "");
        }
        self.shown = 0;
    }
}

impl Drop for Progress {
    /// Ends the line, so that an error is not written behind it.
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the end of a line that tells what holds work up, if something does.
pub fn suffix(trouble: Option<&str>) -> String {
    trouble.map(|why| format!("; {why}")).unwrap_or_default()
}

/// Counts for how long the work that a command waits for is held up.
#[derive(Default)]
pub struct HeldUp {
    since: Option<Instant>,
}

impl HeldUp {
    /// Notes if the work is held up now. Returns true once it has been for as long as a wait goes on.
    pub fn note(&mut self, is_held_up: bool, patience: Duration) -> bool {
        self.since = match is_held_up {
            true => self.since.or_else(|| Some(Instant::now())),
            false => None,
        };
        self.since.is_some_and(|since| since.elapsed() >= patience)
    }
}

/// Waits for `work` that a server does in the background. Ctrl-C ends the wait alone: the error is
/// `goes_on`, which says how to look at the work. A process that ignores Ctrl-C keeps ignoring it:
/// shells start the background jobs of scripts so.
pub async fn attended<T>(
    goes_on: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let is_heeded = !process::ignores_interrupt();
    tokio::select! {
        // From the first look on, the signal no longer ends the process by itself.
        biased;
        Ok(()) = tokio::signal::ctrl_c(), if is_heeded => Err(Failure::interrupted(goes_on)),
        done = work => done,
    }
}

/// Waits for work of which no progress is known, and shows for how long it has been.
pub async fn waiting<T>(what: &str, work: impl Future<Output = T>) -> T {
    let (mut progress, began) = (Progress::new(), Instant::now());
    let mut work = pin!(work);
    let done = loop {
        match tokio::time::timeout(LOOK, work.as_mut()).await {
            Ok(done) => break done,
            Err(_) => progress.show(&format!("{what}: {} s", began.elapsed().as_secs())),
        }
    };
    progress.end();
    done
}

/// Returns a bar with its percentage.
pub fn bar(done: u64, all: u64) -> String {
    let share = |of: u64| match all {
        0 => 0,
        all => (u128::from(done.min(all)) * u128::from(of) / u128::from(all)) as u64,
    };
    let filled = share(WIDTH) as usize;
    let (full, empty) = ("#".repeat(filled), ".".repeat(WIDTH as usize - filled));
    format!("[{full}{empty}] {:3} %", share(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_once_work_was_held_up_for_long_without_a_break() {
        for patience in [PATIENCE, PATIENCE_WITH_DATA] {
            let mut held_up = HeldUp::default();
            assert!(!held_up.note(true, patience));
            tokio::time::advance(patience - LOOK).await;
            assert!(!held_up.note(true, patience));
            assert!(!held_up.note(false, patience));
            tokio::time::advance(patience).await;
            assert!(!held_up.note(true, patience), "it went on in between");
            tokio::time::advance(patience).await;
            assert!(held_up.note(true, patience));
        }
    }
}
