//! Comments of functions: the first word is a verb in the third person, so that a reader sees what
//! the function does without its signature.
//!
//! The rule looks at the first word's form only: a capital letter at its start, small ones after
//! it, and an `s` at its end. A name, such as an operation's or one in back quotes, is no such
//! word. Functions of tests are left alone.

use std::collections::BTreeMap;

use super::source;

/// Words of that form that are no verbs.
const NO_VERBS: &[&str] = &["As", "Complaints", "Its", "Nodes", "Things", "This"];

/// The words that may stand before `fn`.
const QUALIFIERS: &[&str] = &["pub", "default", "const", "async", "unsafe", "extern"];

/// Returns complaints about all files.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let looked_at = |path: &&String| {
        let is_in = path.starts_with("crates/") || path.starts_with("tools/");
        is_in && path.ends_with(".rs") && !source::is_test(path)
    };
    let paths = files.keys().filter(looked_at);
    paths
        .flat_map(|path| check_file(path, &files[path]))
        .collect()
}

/// Returns complaints about one source file.
pub fn check_file(path: &str, text: &str) -> Vec<String> {
    let (code, product) = (source::code(text), source::product_code(text));
    let mut complaints = Vec::new();
    // The first line of the comment whose item has not come yet, and the brackets of its
    // attributes.
    let mut comment: Option<(usize, &str)> = None;
    let mut open = 0;
    let lines = text.lines().zip(code.lines().zip(product.lines()));
    for (number, (line, (code, product))) in lines.enumerate() {
        let (line, product) = (line.trim_start(), product.trim());
        if let Some(words) = line.strip_prefix("///") {
            comment = comment.or(Some((number + 1, words)));
        } else if product.is_empty() {
            // A comment, a string, or a blank line; else it is code of a test.
            comment = comment.filter(|_| code.trim().is_empty());
        } else if open > 0 || product.starts_with("#[") {
            open += product.matches('[').count();
            open -= product.matches(']').count().min(open);
            comment = comment.filter(|_| !product.ends_with("test]"));
        } else if let Some((number, words)) = comment.take()
            && is_function(product)
            && !begins_with_verb(words)
        {
            let word = words.split_whitespace().next().unwrap_or_default();
            complaints.push(format!(
                "{path}:{number}: \"{word}\": begin a function's comment with a verb in the third person, such as Returns"
            ));
        }
    }
    complaints
}

/// Returns whether a line of code begins a function.
fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut is_open = false;
    words.by_ref().find(|word| {
        let is_place = is_open || word.starts_with("pub(");
        is_open = is_place && !word.ends_with(')');
        !is_place && !QUALIFIERS.contains(word)
    }) == Some("fn")
}

/// Returns whether the first word has the form of a verb in the third person.
fn begins_with_verb(comment: &str) -> bool {
    let word = comment.split_whitespace().next().unwrap_or_default();
    let word = word.trim_end_matches([',', ':', '.']);
    let is_capital = word.starts_with(|c: char| c.is_ascii_uppercase());
    let mut others = word.chars().skip(1);
    let is_word = is_capital && others.all(|c| c.is_ascii_lowercase() || c == '-');
    is_word && word.ends_with('s') && !NO_VERBS.contains(&word)
}
