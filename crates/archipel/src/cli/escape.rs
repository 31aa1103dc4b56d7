//! Text from elsewhere, made safe for a terminal.
//!
//! Anybody can choose a path that the audit log keeps, and clients choose keys. A terminal obeys
//! the control characters in them: it moves the cursor, hides text, and breaks lines.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns true for a character that a terminal obeys instead of showing it: control characters,
/// line separators, and those that change the direction of the text around them.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_obeyed(c) && !stays(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) {
            // Such a text in JSON stays the same JSON. Writing to a string cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns `text` as one line: a terminal shows each character of it, and obeys none.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Returns `text` as lines: tabs and ends of lines stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    match text.contains("\r\n") {
        true => Cow::Owned(lines(&text.replace("\r\n", "\n")).into_owned()),
        false => escaped(text, |c| c == '\n' || c == '\t'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_commands_nothing() {
        let path = "/demo/x\x1b]0;PWNED\x07\x1b[31mred\r\nFAKE LINE\u{9b}2J\u{7f}";
        let shown =
            "/demo/x\\u001b]0;PWNED\\u0007\\u001b[31mred\\u000d\\u000aFAKE LINE\\u009b2J\\u007f";
        assert_eq!(line(path), shown);
        assert_eq!(
            line("a\u{202e}b\u{2066}c\u{2028}"),
            "a\\u202eb\\u2066c\\u2028"
        );
    }

    #[test]
    fn texts_of_all_languages_are_shown_as_they_are() {
        for text in ["photos/été 2026.jpg", "照片", "صور", "a\\u001b"] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn a_document_keeps_its_lines_and_its_meaning_as_json() {
        assert_eq!(lines("{\r\n\t1\n}\r\x1b"), "{\n\t1\n}\\u000d\\u001b");
        let json = serde_json::to_string("\u{9b}\u{202e}\x1b").unwrap();
        let read: String = serde_json::from_str(&lines(&json)).unwrap();
        assert_eq!(read, "\u{9b}\u{202e}\x1b");
    }
}
