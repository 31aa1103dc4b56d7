//! Retired words: terms of our own for which the field has a standard one.
//!
//! The table is the whole rule. After a rename, widen the row of the old word to [`EVERYWHERE`]. A
//! word alone in double quotes or in back quotes is a name, such as a metric's, and is left alone.

use std::collections::BTreeMap;

use super::{docs, python, source};

/// A word or a phrase that must not come back.
pub struct Retired {
    /// Its forms, in lower case. They match whole words, whatever their case.
    pub forms: &'static [&'static str],
    /// The term to use.
    pub instead: &'static str,
    /// The beginnings of the paths where it is retired already.
    pub within: &'static [&'static str],
}

/// The pages for developers, and the crate of the model. Here a term must be exact, so words that
/// have a plain meaning elsewhere are retired only here.
const INTERNALS: &[&str] = &["docs/internals/", "crates/model/"];
/// All documents, the comments and strings of all sources, and the comments of all tests.
const EVERYWHERE: &[&str] = &[""];
/// Everywhere but in the network laboratory, whose command `heal` ends a cut.
const OUTSIDE_NETLAB: &[&str] = &[
    "docs/",
    "crates/",
    "tests/",
    "tools/sim/",
    "tools/xtask/",
    "tools/bench/",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

const RETIRED: &[Retired] = &[
    retired(
        &["heal", "heals", "healed", "healing"],
        "repair, anti-entropy, or that a cut ends",
        OUTSIDE_NETLAB,
    ),
    retired(
        &["mend", "mends", "mended", "mending"],
        "repair",
        EVERYWHERE,
    ),
    retired(
        &["lineage"],
        "run history or rollback detection",
        EVERYWHERE,
    ),
    retired(
        &["put back", "puts back"],
        "rolled back or restored",
        EVERYWHERE,
    ),
    retired(&["put aside", "puts aside"], "quarantined", EVERYWHERE),
    retired(&["litter"], "tombstone statistics", EVERYWHERE),
    retired(&["strays"], "stale partitions", EVERYWHERE),
    retired(
        &["sweep", "sweeps", "swept", "sweeper", "sweeping"],
        "garbage collection, GC or freeing",
        EVERYWHERE,
    ),
    retired(&["fingerprint", "fingerprints"], "digest", EVERYWHERE),
    retired(&["gate", "gates"], "write fence", EVERYWHERE),
    retired(&["spared"], "deferred", EVERYWHERE),
    retired(
        &["told unasked", "tells unasked"],
        "piggybacked",
        EVERYWHERE,
    ),
    retired(&["left behind"], "lagging, stale or left", EVERYWHERE),
    retired(&["mover", "movers"], "rebalancer", EVERYWHERE),
    retired(&["tally", "tallies"], "usage delta", EVERYWHERE),
    retired(&["door", "doors"], "endpoint or service", EVERYWHERE),
    retired(&["late freeing"], "startup garbage collection", EVERYWHERE),
    retired(&["dawdle", "dawdles"], "artificial delay", EVERYWHERE),
    retired(
        &["weakness", "weaknesses"],
        "vulnerability, or the limit by its name",
        EVERYWHERE,
    ),
    retired(&["anew"], "again or from scratch", EVERYWHERE),
    retired(
        &["somebody", "whoever"],
        "the thing by its name",
        EVERYWHERE,
    ),
    // Plain words outside of the internals: `archipel init` asks questions, an URL has a question
    // mark, a page may give lasting advice, and an audit log is evidence and states facts.
    retired(&["question", "questions"], "GC task or request", INTERNALS),
    retired(&["lasting"], "detach-on-drop", INTERNALS),
    retired(&["evidence"], "failure detector", INTERNALS),
    retired(&["facts"], "node info", INTERNALS),
];

const CHANGELOG: &str = "CHANGELOG.md";

const fn retired(
    forms: &'static [&'static str],
    instead: &'static str,
    within: &'static [&'static str],
) -> Retired {
    Retired {
        forms,
        instead,
        within,
    }
}

/// Returns complaints about all documents, and the comments and strings of all sources.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let all = files.iter();
    all.flat_map(|(path, text)| check_file(path, text, RETIRED))
        .collect()
}

/// Returns the same of one file, with another table.
pub fn check_file(path: &str, text: &str, retired: &[Retired]) -> Vec<String> {
    let applies = |rule: &&Retired| rule.within.iter().any(|begin| path.starts_with(begin));
    let rules: Vec<&Retired> = retired.iter().filter(applies).collect();
    if rules.is_empty() || is_table(path) {
        return Vec::new();
    }
    let Some(prose) = prose(path, text) else {
        return Vec::new();
    };
    let words = words(&prose);
    let complaints = rules.iter().flat_map(|rule| {
        let instead = rule.instead;
        let found = rule.forms.iter().flat_map(|form| find(&words, form));
        found.map(move |(line, form)| format!("{path}:{line}: \"{form}\": say {instead}"))
    });
    complaints.collect()
}

/// Returns whether a file must name retired words: this one, and its tests.
fn is_table(path: &str) -> bool {
    path.starts_with("tools/xtask/src/tidy/") && path.ends_with("words.rs")
}

/// Returns the text in which words are looked for; `None` if the file has none.
fn prose(path: &str, text: &str) -> Option<String> {
    if docs::is_document(path) || path == CHANGELOG {
        return Some(without_code(&docs::without_fences(text)));
    }
    let is_source = path.starts_with("crates/") || path.starts_with("tools/");
    if is_source && path.ends_with(".rs") {
        return Some(without_code(&source::prose(text)));
    }
    let is_python = path.starts_with("tests/") && path.ends_with(".py");
    is_python.then(|| without_code(&python::prose(text)))
}

/// Returns the text without names in back quotes and without the targets of links.
fn without_code(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            0 => kept.push_str(&without_targets(part)),
            _ => kept.push_str(&source::blank(part)),
        }
        kept.push('`');
    }
    kept
}

fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find([')', '\n']).unwrap_or(part.len());
        kept.push_str("](");
        kept.push_str(&source::blank(&part[..end]));
        kept.push_str(&part[end..]);
    }
    kept
}

struct Word {
    line: usize,
    lower: String,
    /// Nothing but space and the signs of a comment stands between it and the word before.
    follows: bool,
}

fn words(prose: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut follows = false;
    for (number, line) in prose.lines().enumerate() {
        let mut rest = line;
        while let Some(begin) = rest.find(source::is_of_name) {
            follows &= rest[..begin].chars().all(|gap| " \t/!".contains(gap));
            let end = rest[begin..].find(|letter| !source::is_of_name(letter));
            let end = end.map_or(rest.len(), |end| begin + end);
            let is_name = rest[..begin].ends_with('"') && rest[end..].starts_with('"');
            if !is_name {
                words.push(Word {
                    line: number + 1,
                    lower: rest[begin..end].to_lowercase(),
                    follows,
                });
            }
            (rest, follows) = (&rest[end..], true);
        }
        follows &= rest.chars().all(|gap| " \t/!".contains(gap));
    }
    words
}

/// Returns the lines where a form begins, each with the form.
fn find<'a>(words: &[Word], form: &'a str) -> Vec<(usize, &'a str)> {
    let wanted: Vec<&str> = form.split(' ').collect();
    let matches = |at: &[Word]| {
        let same = at
            .iter()
            .zip(&wanted)
            .all(|(word, want)| word.lower == *want);
        same && at.iter().skip(1).all(|word| word.follows)
    };
    let places = words.windows(wanted.len()).filter(|at| matches(at));
    places.map(|at| (at[0].line, form)).collect()
}
