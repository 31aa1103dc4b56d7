//! The terminal: its width, and its colours.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

/// True if only results and errors are to be printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// A narrower terminal is treated as this wide: less is of no use.
const MIN_WIDTH: usize = 40;

/// Prints only results and errors from now on, if the command line asks for that, or for JSON that
/// a program reads: standard error holds the problem document then, and nothing else.
pub fn be_quiet_if_asked(quiet: bool, json: bool) {
    if quiet || (json && !io::stderr().is_terminal()) {
        QUIET.store(true, Ordering::Relaxed);
    }
}

/// Returns true if only results and errors are to be printed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Returns the width of the terminal behind standard output, in characters; `None` if it is no
/// terminal.
pub fn width() -> Option<usize> {
    size().map(|(width, _)| width.max(MIN_WIDTH))
}

/// Returns the width of the terminal behind standard error.
pub fn width_of_errors() -> Option<usize> {
    let size = size_of(io::stderr().is_terminal(), libc::STDERR_FILENO);
    size.map(|(width, _)| width.max(MIN_WIDTH))
}

/// Returns the height of the terminal behind standard output, in lines.
pub fn height() -> Option<usize> {
    size().map(|(_, height)| height)
}

fn size() -> Option<(usize, usize)> {
    size_of(io::stdout().is_terminal(), libc::STDOUT_FILENO)
}

fn size_of(is_terminal: bool, descriptor: libc::c_int) -> Option<(usize, usize)> {
    if !is_terminal {
        return None;
    }
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the call writes one `winsize` to the pointer, which is valid for the time of the call.
    let done = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) };
    (done == 0 && size.ws_col > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Returns true if standard output is a terminal that takes colours: `NO_COLOR` is not set.
pub fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !refused && !dumb
}

/// The meaning of a text, shown by its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tone {
    Good,
    Warning,
    Bad,
}

/// Returns the meaning of a cell of a table that is one of the known states.
fn tone(cell: &str) -> Option<Tone> {
    let word = cell.split([':', ',', ' ']).next().unwrap_or_default();
    match word {
        "healthy" | "drained" | "alive" | "self" => Some(Tone::Good),
        "degraded" | "suspected" | "draining" | "full" => Some(Tone::Warning),
        "unavailable" | "gone" | "failed" => Some(Tone::Bad),
        _ => None,
    }
}

/// Returns a cell, padded already, in the colour of its state if it is one.
pub fn paint(cell: &str) -> String {
    let code = match tone(cell.trim_end()) {
        None => return cell.to_owned(),
        Some(Tone::Good) => 32,
        Some(Tone::Warning) => 33,
        Some(Tone::Bad) => 31,
    };
    format!("\x1b[{code}m{cell}\x1b[0m")
}

/// Returns a heading in bold.
pub fn bold(text: &str) -> String {
    format!("\x1b[1m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_states_are_coloured() {
        assert_eq!(paint("alive   "), "\x1b[32malive   \x1b[0m");
        assert_eq!(tone("failed: Input/output error"), Some(Tone::Bad));
        assert_eq!(tone("alive, no layout"), Some(Tone::Good));
        assert_eq!(paint("photos"), "photos");
    }
}
