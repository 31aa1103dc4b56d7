//! Tables for people, JSON for programs, on standard output.

use std::io::{self, Write};

use archipel_base::clock::{SystemClock, WallClock};
use serde::Serialize;

use crate::client::Failure;

/// Prints rows below headings, in columns as wide as their widest cell.
pub fn print<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    line(&headings.map(String::from), &widths)?;
    rows.iter().try_for_each(|row| line(row, &widths))
}

/// Prints names and values, one pair a line.
pub fn print_pairs(pairs: &[(&str, String)]) -> Result<(), Failure> {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs
        .iter()
        .try_for_each(|(name, value)| text(&format!("{name:width$}  {value}")))
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|e| Failure(e.to_string()))?;
    text(&json)
}

/// Prints a line. A reader that has closed the pipe (`| head`) is not a failure.
pub fn text(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Formats the time since `since_ms` for people.
pub fn age(since_ms: u64) -> String {
    span(SystemClock.now_millis().saturating_sub(since_ms) / 1000)
}

/// Formats the time until `time_ms` for people.
pub fn until(time_ms: u64) -> String {
    span(time_ms.saturating_sub(SystemClock.now_millis()) / 1000)
}

/// Formats a duration for people.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> Result<(), Failure> {
    let cells = cells.iter().zip(widths);
    let padded: Vec<String> = cells
        .map(|(cell, width)| format!("{cell:width$}"))
        .collect();
    text(padded.join("  ").trim_end())
}
