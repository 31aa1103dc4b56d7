//! Sentences of documents and comments: only a question begins with a word of a question. So the
//! subject of every other sentence comes first.
//!
//! A sentence begins at the start of a paragraph, of an item of a list or of a cell of a table, and
//! behind the end of another one. Headings, code blocks and strings are left alone.

use std::collections::BTreeMap;

use super::{python, source};

/// The words with which only questions begin.
const OF_QUESTIONS: [&str; 3] = ["What", "Who", "Whether"];

/// The signs that may stand before the first word of a sentence, and behind its end.
const SIGNS: [char; 8] = ['*', '_', '"', '\'', '(', ')', '[', ']'];

/// The marks with which comments begin. All of a document is text.
const RUST: &[&str] = &["//!", "///", "//"];
const PYTHON: &[&str] = &["#"];
const DOCUMENT: &[&str] = &[];

/// A word, and the number of its line.
type Word<'a> = (usize, &'a str);

/// Returns complaints about all files.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let all = files.iter();
    all.flat_map(|(path, text)| check_file(path, text))
        .collect()
}

/// Returns complaints about one file.
pub fn check_file(path: &str, text: &str) -> Vec<String> {
    let (prose, marks) = match path.rsplit_once('.') {
        Some((_, "rs")) => (source::comments(text), RUST),
        Some((_, "py")) => (python::prose(text), PYTHON),
        Some((_, "md")) => (text.to_owned(), DOCUMENT),
        _ => return Vec::new(),
    };
    let mut complaints = Vec::new();
    for paragraph in paragraphs(&prose, marks) {
        let sentences = paragraph.split_inclusive(|(_, word)| ends(word, &['.', '!', '?']));
        complaints.extend(sentences.filter_map(|sentence| complaint(path, sentence)));
    }
    complaints
}

/// Returns a complaint about a sentence that begins like a question and is none.
fn complaint(path: &str, sentence: &[Word<'_>]) -> Option<String> {
    let ((line, first), (_, last)) = (sentence.first()?, sentence.last()?);
    let first = first.trim_start_matches(SIGNS);
    let word = OF_QUESTIONS.into_iter().find(|word| {
        let behind = first.strip_prefix(word);
        behind.is_some_and(|behind| !behind.starts_with(source::is_of_name))
    })?;
    let is_question = ends(last, &['?']);
    (!is_question).then(|| {
        format!(
            "{path}:{line}: \"{word}\": begin the sentence with its subject, or end it with a question mark"
        )
    })
}

/// Returns true if a word ends with one of these marks, before signs.
fn ends(word: &str, marks: &[char]) -> bool {
    word.trim_end_matches(SIGNS).ends_with(marks)
}

/// Returns the paragraphs, the items of lists and the cells of tables.
fn paragraphs<'a>(prose: &'a str, marks: &[&str]) -> Vec<Vec<Word<'a>>> {
    let mut all: Vec<Vec<Word<'a>>> = Vec::new();
    let mut current: Vec<Word<'a>> = Vec::new();
    let (mut place_before, mut is_code) = ("", false);
    for (number, line) in prose.lines().enumerate() {
        let words = |text: &'a str| text.split_whitespace().map(move |word| (number + 1, word));
        let (place, text) = parts(line, marks);
        let (is_indented, text) = (text.starts_with("    "), text.trim());
        let is_fence = text.starts_with("```");
        let is_heading = text.starts_with('#');
        // A comment of another kind or at another place begins another paragraph.
        let is_other = place != place_before;
        if is_other || is_fence || is_heading || text.is_empty() {
            all.push(std::mem::take(&mut current));
        }
        is_code = (is_code && !is_other) ^ is_fence;
        place_before = place;
        if is_code || is_fence || is_heading {
            continue;
        }
        if text.starts_with('|') {
            all.push(std::mem::take(&mut current));
            all.extend(text.split('|').map(|cell| words(cell).collect()));
        } else if let Some(item) = item(text) {
            all.push(std::mem::take(&mut current));
            current.extend(words(item));
        } else if !(marks.is_empty() && is_indented && current.is_empty()) {
            // Else it is code: indentation that begins a paragraph of a document.
            current.extend(words(text));
        }
    }
    all.push(current);
    all
}

/// Returns the place and the mark of a comment, and its text. A line without a mark is all text.
fn parts<'a>(line: &'a str, marks: &[&str]) -> (&'a str, &'a str) {
    let begin = line.len() - line.trim_start().len();
    let mark = marks.iter().find(|mark| line[begin..].starts_with(**mark));
    line.split_at(mark.map_or(0, |mark| begin + mark.len()))
}

/// Returns the text of an item of a list, or of a quotation; `None` if a line begins none.
fn item(line: &str) -> Option<&str> {
    let behind = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match behind.len() < line.len() {
        true => behind.strip_prefix(". "),
        false => ["- ", "* ", "+ ", "> "]
            .into_iter()
            .find_map(|mark| line.strip_prefix(mark)),
    }
}
