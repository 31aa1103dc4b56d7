//! Errors on standard error: a text for people, a problem document with `--json`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::ExitCode;

use super::escape;
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
        true => writeln!(out, "{}", escape::lines(&format!("{:#}", failure.json()))),
        false => writeln!(out, "error: {}", shown(failure)),
    };
}

/// Returns an error for people. That of a server is one line; a command's own may have several.
fn shown(failure: &Failure) -> String {
    let text = failure.to_string();
    match failure {
        Failure::Own { .. } => escape::lines(&text).into_owned(),
        Failure::Refused(_) => escape::line(&text).into_owned(),
    }
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
    use http::StatusCode;

    use super::*;

    #[test]
    fn json_is_asked_for_by_an_option_and_not_by_a_value() {
        let asked = |line: &str| is_json_asked(line.split(' '));
        assert!(asked("archipel dance --json"));
        assert!(!asked("archipel k2v insert b p s -- --json"));
        assert!(!asked("archipel bucket list"));
    }

    #[test]
    fn an_error_of_a_server_is_one_line_that_commands_no_terminal() {
        let detail = "no key a\x1b[2J\nerror: b".to_owned();
        let told = Failure::refused(StatusCode::NOT_FOUND, "NoSuchKey".into(), detail.clone());
        assert_eq!(
            shown(&told),
            "no key a\\u001b[2J\\u000aerror: b (NoSuchKey)"
        );
        assert_eq!(shown(&Failure::new(detail)), "no key a\\u001b[2J\nerror: b");
    }

    #[test]
    fn an_error_of_the_command_itself_has_a_code_and_a_detail() {
        let json = Failure::new("no disk".into()).json();
        assert_eq!(json["code"], "CommandFailed");
        assert_eq!(json["detail"], "no disk");
    }
}
