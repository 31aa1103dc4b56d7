//! Python source text: comments and docstrings apart from code.

use super::source;

const QUOTES: [&str; 2] = ["\"\"\"", "'''"];

/// Returns the comments and docstrings, without the code and other strings. The lines stay where
/// they are.
pub fn prose(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    let mut line_is_blank = true;
    while let Some(first) = rest.chars().next() {
        let (length, is_prose) = match first {
            '#' => (rest.find('\n').unwrap_or(rest.len()), true),
            '"' | '\'' => (string(rest), line_is_blank && is_long(rest)),
            other => (other.len_utf8(), false),
        };
        let (token, after) = rest.split_at(length);
        match is_prose {
            true => kept.push_str(token),
            false => kept.push_str(&source::blank(token)),
        }
        line_is_blank = first == '\n' || (line_is_blank && first.is_whitespace());
        rest = after;
    }
    kept
}

/// Returns whether a string with three quotes begins here. At the begin of a line it is a
/// docstring.
fn is_long(rest: &str) -> bool {
    QUOTES.iter().any(|quotes| rest.starts_with(quotes))
}

/// Returns the length of the string that begins here.
fn string(rest: &str) -> usize {
    let width = if is_long(rest) { 3 } else { 1 };
    let quotes = &rest[..width];
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(width) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' if width == 1 => return at,
            _ if rest[at..].starts_with(quotes) => return at + width,
            _ => {}
        }
    }
    rest.len()
}
