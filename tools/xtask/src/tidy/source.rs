//! Rust source text: code apart from comments and strings, and product code apart from tests.
//!
//! Every function keeps the lines where they are: what it leaves out becomes spaces.

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    /// A string.
    Text,
}

/// Returns the code, without comments and strings.
pub fn code(source: &str) -> String {
    keep(source, &[Kind::Code])
}

/// Returns the comments and strings, without the code.
pub fn prose(source: &str) -> String {
    keep(source, &[Kind::Comment, Kind::Text])
}

/// Returns the comments, without the code and the strings.
pub fn comments(source: &str) -> String {
    keep(source, &[Kind::Comment])
}

/// Returns the code, without comments, strings and the items under `#[cfg(test)]`.
pub fn product_code(source: &str) -> String {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut rest = code(source);
    let mut kept = String::with_capacity(rest.len());
    while let Some(begin) = rest.find(ATTRIBUTE) {
        let end = begin + ATTRIBUTE.len() + item_length(&rest[begin + ATTRIBUTE.len()..]);
        kept.push_str(&rest[..begin]);
        kept.push_str(&blank(&rest[begin..end]));
        rest = rest.split_off(end);
    }
    kept + &rest
}

/// Returns the modules that product code declares: lines without indentation such as
/// `pub mod name;`.
pub fn modules(source: &str) -> Vec<String> {
    let code = product_code(source);
    let declared = code.lines().filter_map(|line| {
        let words = line.split(|letter: char| letter.is_whitespace() || ";{".contains(letter));
        let mut words = words.skip_while(|word| word.starts_with("pub"));
        (words.next() == Some("mod")).then(|| words.next().unwrap_or_default().to_owned())
    });
    declared.collect()
}

/// Returns whether a file holds tests: folders and files of that name do.
pub fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// Returns whether a letter may be part of a name.
pub fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns spaces of the same shape.
pub fn blank(text: &str) -> String {
    let blanked = text.chars();
    blanked
        .map(|letter| if letter == '\n' { '\n' } else { ' ' })
        .collect()
}

fn keep(source: &str, wanted: &[Kind]) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (kind, length) = next(rest);
        let (token, after) = rest.split_at(length);
        match wanted.contains(&kind) {
            true => kept.push_str(token),
            false => kept.push_str(&blank(token)),
        }
        rest = after;
    }
    kept
}

/// Returns the kind and the length of the next token.
fn next(rest: &str) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(length) = raw_string(rest) {
        return (Kind::Text, length);
    }
    match rest.chars().next() {
        Some('"') => (Kind::Text, quoted(rest)),
        Some('\'') => (Kind::Code, letter_or_lifetime(rest)),
        Some(first) if is_of_name(first) => {
            let end = rest.find(|letter| !is_of_name(letter));
            (Kind::Code, end.unwrap_or(rest.len()))
        }
        Some(other) => (Kind::Code, other.len_utf8()),
        None => (Kind::Code, 0),
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of a raw string such as `r#"..."#`; `None` if there is none.
fn raw_string(rest: &str) -> Option<usize> {
    let begin = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| {
            let after = rest.strip_prefix(prefix);
            after.is_some_and(|after| after.trim_start_matches('#').starts_with('"'))
        })?
        .len();
    let hashes = rest[begin..].find('"')?;
    let content = begin + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = rest[content..]
        .find(&end)
        .map(|found| content + found + end.len());
    Some(length.unwrap_or(rest.len()))
}

fn quoted(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of `'x'` or `'\n'`; 1 for a lifetime, whose name follows as a token of its
/// own.
fn letter_or_lifetime(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((after, _))) => {
            let behind = after + rest[after..].chars().next().map_or(0, char::len_utf8);
            rest[behind..]
                .find('\'')
                .map_or(rest.len(), |end| behind + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the length of an item: to the end of its braces, or to its semicolon.
fn item_length(code: &str) -> usize {
    let Some(begin) = code.find(['{', ';']) else {
        return code.len();
    };
    if code[begin..].starts_with(';') {
        return begin + 1;
    }
    let mut depth = 0;
    for (at, letter) in code[begin..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return begin + at + 1;
        }
    }
    code.len()
}
