//! Names, numbers and sizes as parts of sentences.

use super::Candidate;

/// The number of nodes that a sentence names.
const NAMES: usize = 4;

/// Returns a node's name for a sentence.
pub(super) fn name(node: &Candidate) -> String {
    format!("{} (zone {})", node.id.short(), node.zone)
}

/// Joins names into a part of a sentence.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] if names.len() <= NAMES => format!("{} and {last}", most.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..NAMES - 1].join(", "),
            names.len() - NAMES + 1
        ),
    }
}

/// Returns a number with its noun.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns a part of a whole in percent.
pub(super) fn percent(part: f64, whole: f64) -> String {
    format!(
        "{:.1} %",
        if whole > 0.0 {
            part / whole * 100.0
        } else {
            0.0
        }
    )
}

/// Returns bytes in decimal units.
pub(super) fn size(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 999.5 && unit + 1 < units.len() {
        amount /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{bytes} bytes");
    }
    let digits = if amount < 9.995 {
        2
    } else if amount < 99.95 {
        1
    } else {
        0
    };
    format!("{amount:.digits$} {}", units[unit])
}
