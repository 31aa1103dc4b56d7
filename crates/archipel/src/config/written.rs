//! The file as it is written: from its text to a table of known keys with values of the right
//! types. All other keys are found at once, each with its problem.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer, Error};

use super::file::File;
use super::problem::without_text;
use super::{Problem, known};

/// The content of the file.
pub struct Written {
    /// The keys without a problem.
    pub table: toml::Table,
    /// The problems of the others, in the order of the file.
    pub problems: Vec<Problem>,
    /// The sections to which these belong. They are not known as a whole, so what seems wrong in
    /// them otherwise may follow from these problems.
    sections: BTreeSet<String>,
}

impl Written {
    /// Adds a problem. The settings at `path` then are not what they should be.
    pub fn refuse(&mut self, path: &str, problem: Problem) {
        self.sections.insert(section(path).to_owned());
        self.problems.push(problem);
    }

    /// Returns all problems: these, and those among `found` that do not follow from them.
    pub fn with(self, found: Vec<Problem>) -> Vec<Problem> {
        let Written {
            mut problems,
            sections,
            ..
        } = self;
        let own = |problem: &Problem| !sections.contains(section(&problem.key));
        problems.extend(found.into_iter().filter(own));
        problems
    }
}

/// Returns the first name of a path: its section, its list, or itself.
fn section(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

/// Reads the text of a file. [`File`] says what is wrong with it, and names one key at a time: that
/// key is left out, and the rest is read again. So nothing is accepted that [`File`] refuses.
///
/// # Errors
/// The text is not TOML.
pub fn read(text: &str) -> Result<Written, Error> {
    let mut root = DeTable::parse(text)?;
    let mut found = Vec::new();
    let mut sections = BTreeSet::new();
    while let Err(error) = File::deserialize(Deserializer::from(root.clone())) {
        let span = error.span().unwrap_or_default();
        let Some(path) = take(root.get_mut(), &span) else {
            return Err(error);
        };
        let nearest = known::nearest(&without_numbers(&path));
        for path in [Some(path.as_str()), nearest].into_iter().flatten() {
            sections.insert(section(path).to_owned());
        }
        let line = line(text, span.start);
        found.push((span.start, problem(path, line, nearest, error.message())));
    }
    // The order of a table is not that of the file.
    found.sort_by_key(|(start, _)| *start);
    Ok(Written {
        table: toml::Table::deserialize(Deserializer::from(root))?,
        problems: found.into_iter().map(|(_, problem)| problem).collect(),
        sections,
    })
}

/// Describes what is wrong with a key, from the message of [`File`]. `nearest` is the known key that
/// is like it, if there is one.
fn problem(key: String, line: usize, nearest: Option<&str>, message: &str) -> Problem {
    let is_unknown = message.starts_with("unknown field");
    let fix = match nearest {
        _ if !is_unknown => "`archipel config example` shows every key with its type".to_owned(),
        Some(nearest) => format!("the nearest known key is {nearest}"),
        None => "remove it; `archipel config example` shows every key".to_owned(),
    };
    Problem {
        key,
        value: None,
        line: Some(line),
        why: match is_unknown {
            true => "unknown key".into(),
            false => without_text(message),
        },
        fix,
    }
}

/// Describes an error with its line in the text. The content of the line is left out, because it may
/// be a secret.
pub fn describe(text: &str, error: &Error) -> String {
    let message = without_text(error.message());
    match error.span() {
        Some(span) => format!("line {}: {message}", line(text, span.start)),
        None => message,
    }
}

/// Returns the line of a place in the text, from 1.
fn line(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    1 + before.filter(|byte| *byte == b'\n').count()
}

/// Returns a path without the numbers of entries of lists.
fn without_numbers(path: &str) -> String {
    path.split(['[', ']']).step_by(2).collect()
}

/// Removes the key whose name or value is at `span`, and returns its path. An entry of a list takes
/// the whole list with it, because the other entries would get other numbers.
fn take(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let (name, found) = table.iter_mut().find_map(|(key, value)| {
        // The inner value comes first: a list of tables and its first table are at the same place.
        let is_here = key.span() == *span || value.span() == *span;
        let found = inside(value.get_mut(), span).or(is_here.then(Found::itself))?;
        Some((key.get_ref().to_string(), found))
    })?;
    if found.is_whole {
        table.remove(name.as_str());
    }
    Some(name + &found.path)
}

/// A place inside of a value.
struct Found {
    /// The path from the value to it.
    path: String,
    /// True if the value as a whole must go.
    is_whole: bool,
}

impl Found {
    fn itself() -> Found {
        Found {
            path: String::new(),
            is_whole: true,
        }
    }
}

/// Looks for `span` inside of a value, and removes the key that is there.
fn inside(value: &mut DeValue<'_>, span: &Range<usize>) -> Option<Found> {
    match value {
        DeValue::Table(table) => take(table, span).map(|path| Found {
            path: format!(".{path}"),
            is_whole: false,
        }),
        DeValue::Array(items) => items.iter_mut().enumerate().find_map(|(number, item)| {
            let is_here = item.span() == *span;
            let found = inside(item.get_mut(), span).or(is_here.then(Found::itself))?;
            Some(Found {
                path: format!("[{number}]{}", found.path),
                ..found
            })
        }),
        _ => None,
    }
}
