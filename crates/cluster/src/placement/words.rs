//! Names and numbers as parts of sentences.

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
