//! Errors on standard error: a text for people, a problem document with `--json`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::client::Failure;

/// The exit status of a wrong command line.
const USAGE: u8 = 2;

/// Returns true if the command line asks for JSON. It may be one that cannot be understood.
fn is_json_asked<A: AsRef<OsStr>>(arguments: impl Iterator<Item = A>) -> bool {
    let mut options = arguments.take_while(|argument| argument.as_ref() != "--");
    options.any(|argument| argument.as_ref() == "--json")
}

/// Prints an error. Errors of that are ignored, because the exit status also reports the failure.
pub fn print(failure: &Failure) {
    let mut out = io::stderr().lock();
    let _ = match is_json_asked(std::env::args_os()) {
        true => writeln!(out, "{:#}", failure.json()),
        false => writeln!(out, "error: {failure}"),
    };
}

/// Prints what the parser of the command line answers: the help that is asked for, or an error.
/// Returns the exit status.
pub fn command_line(told: &clap::Error) -> ExitCode {
    if !told.use_stderr() || !is_json_asked(std::env::args_os()) {
        // A closed pipe is no failure.
        let _ = told.print();
        return match told.use_stderr() {
            true => ExitCode::from(USAGE),
            false => ExitCode::SUCCESS,
        };
    }
    let text = told.render().to_string();
    let text = text.trim_start_matches("error: ").trim_end();
    print(&Failure::usage(text.to_owned()));
    ExitCode::from(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_an_option_and_not_by_a_value() {
        let asked = |line: &str| is_json_asked(line.split(' '));
        assert!(asked("archipel dance --json"));
        assert!(!asked("archipel k2v insert b p s -- --json"));
        assert!(!asked("archipel bucket list"));
    }

    #[test]
    fn an_error_of_the_command_itself_has_a_code_and_a_detail() {
        let json = Failure::new("no disk".into()).json();
        assert_eq!(json["code"], "CommandFailed");
        assert_eq!(json["detail"], "no disk");
    }
}
