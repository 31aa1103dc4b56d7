//! Single files.

use super::source::is_test;

/// The longest a source file should be, in lines.
const MAX_LINES: usize = 400;

/// Files that are longer, and their length: a ratchet. Shorten a file and lower its number; never
/// raise one without splitting being worse.
const LONGER: &[(&str, usize)] = &[];

/// The texts that must not stand in the product's code outside certain places.
struct Absent {
    what: &'static [&'static str],
    but_in: &'static [&'static str],
    instead: &'static str,
}

const ABSENT: &[Absent] = &[
    Absent {
        what: &[
            "TcpListener",
            "TcpStream",
            "UdpSocket",
            "UnixListener",
            "UnixStream",
        ],
        but_in: &["crates/net/", "crates/api/", "crates/archipel/"],
        instead: "sockets belong in net, api and archipel",
    },
    Absent {
        what: &["std::fs", "tokio::fs", "File::open", "OpenOptions"],
        but_in: &[
            "crates/storage/src/disk/",
            "crates/storage/src/engine/",
            "crates/archipel/",
        ],
        instead: "files belong in storage's disk and engine modules, so that tests can crash them",
    },
    Absent {
        what: &["std::env::var", "env::vars"],
        but_in: &["crates/archipel/"],
        instead: "settings are read in archipel and passed as arguments",
    },
    Absent {
        what: &[
            "unbounded_channel",
            "flume::unbounded",
            "std::sync::mpsc::channel",
        ],
        but_in: &[],
        instead: "every queue has a bound",
    },
    Absent {
        what: &["unimplemented!(", "todo!("],
        but_in: &[],
        instead: "what is not there answers with an error",
    },
];

/// Returns complaints about one file.
pub fn check(path: &str, text: &str) -> Vec<String> {
    check_with(path, text, LONGER)
}

/// Returns the same, with other files that may be longer.
pub fn check_with(path: &str, text: &str, longer: &[(&str, usize)]) -> Vec<String> {
    let mut complaints = Vec::new();
    if is_text(path) {
        whitespace(path, text, &mut complaints);
    }
    if path.ends_with(".rs") {
        length(path, text, longer, &mut complaints);
        documented(path, text, &mut complaints);
        rows(path, text, &mut complaints);
    }
    if path.starts_with("crates/") && path.ends_with(".rs") && !is_test(path) {
        absent(path, text, &mut complaints);
    }
    complaints
}

fn is_text(path: &str) -> bool {
    let ends = [
        ".rs", ".toml", ".md", ".py", ".sh", ".yml", ".yaml", ".txt", ".ini",
    ];
    ends.iter().any(|end| path.ends_with(end))
}

fn whitespace(path: &str, text: &str, complaints: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            complaints.push(format!(
                "{path}:{}: remove the space at the line's end",
                number + 1
            ));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        complaints.push(format!("{path}: end the last line"));
    }
}

fn length(path: &str, text: &str, longer: &[(&str, usize)], complaints: &mut Vec<String>) {
    let lines = text.lines().count();
    let allowance = longer.iter().find(|(longer, _)| *longer == path);
    let most = allowance.map_or(MAX_LINES, |(_, most)| *most);
    if lines > most {
        complaints.push(format!("{path}: {lines} lines; split it: at most {most}"));
    }
    if allowance.is_some() && lines < most {
        complaints.push(format!(
            "{path}: {lines} lines; lower or remove its number in LONGER"
        ));
    }
}

/// Checks that a row of a table in a comment is one line: rustdoc takes what is broken for two
/// rows.
fn rows(path: &str, text: &str, complaints: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start();
        let is_row = ["//! |", "/// |"]
            .iter()
            .any(|mark| comment.starts_with(mark));
        if is_row && (!comment.ends_with('|') || comment.matches('|').count() < 2) {
            complaints.push(format!("{path}:{}: write the row in one line", number + 1));
        }
    }
}

fn documented(path: &str, text: &str, complaints: &mut Vec<String>) {
    if !text.starts_with("//!") && !is_test(path) {
        complaints.push(format!(
            "{path}: begin with a `//!` comment that says what the file is for"
        ));
    }
}

fn absent(path: &str, text: &str, complaints: &mut Vec<String>) {
    for rule in ABSENT {
        if rule.but_in.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(what) = rule.what.iter().find(|what| code.contains(**what)) {
                let instead = rule.instead;
                complaints.push(format!("{path}:{}: {what}: {instead}", number + 1));
            }
        }
    }
}
