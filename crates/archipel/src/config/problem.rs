//! Problems of the settings, and the texts that report them.

use std::fmt;
use std::path::PathBuf;

/// A problem with a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The setting or the environment variable.
    pub key: String,
    /// The value of the setting.
    pub value: Option<String>,
    /// The line of the file, if that is known.
    pub line: Option<usize>,
    /// The problem.
    pub why: String,
    /// The action that fixes it.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value:?}")?;
        }
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        write!(f, ": {}; fix: {}", self.why, self.fix)
    }
}

/// Returns a message of serde without the text that it quotes: a value that stands at a wrong place
/// may be a secret.
pub fn without_text(message: &str) -> String {
    let parts = message
        .split_once(": string \"")
        .zip(message.rsplit_once("\", expected "));
    match parts {
        Some(((kind, _), (_, expected))) => format!("{kind}: string, expected {expected}"),
        None => message.to_owned(),
    }
}

/// The reason why there are no settings.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// The file is not valid TOML. The text names the line.
    Toml(PathBuf, String),
    /// Some keys of the file are unknown, or some values of the file or of variables are invalid.
    Problems(PathBuf, Vec<Problem>),
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(path, error) => write!(
                f,
                "cannot read the configuration {}: {error}; fix: check the path and its permissions",
                path.display()
            ),
            Error::Toml(path, text) => write!(
                f,
                "the configuration {} is not valid: {}\nfix: `archipel config example` shows every key",
                path.display(),
                text.trim_end()
            ),
            Error::Problems(path, problems) => {
                write!(f, "the configuration {} is not valid:", path.display())?;
                problems.iter().try_for_each(|p| write!(f, "\n  {p}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_left_out_of_messages() {
        for (message, expected) in [
            (
                r#"invalid type: string "a\", expected b", expected u32"#,
                "invalid type: string, expected u32",
            ),
            (
                r#"invalid value: string "x", expected a path"#,
                "invalid value: string, expected a path",
            ),
            (
                "invalid type: integer `7`, expected a string",
                "invalid type: integer `7`, expected a string",
            ),
            ("missing field `path`", "missing field `path`"),
        ] {
            assert_eq!(without_text(message), expected);
        }
    }
}
