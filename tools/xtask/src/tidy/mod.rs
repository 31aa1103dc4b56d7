//! The rules of this repository that no other tool knows. Each says what to do instead.
//!
//! | module | what it looks at |
//! |---|---|
//! | [`lines`] | single files: length, whitespace, documentation, what must be absent where |
//! | [`boxed`] | that async functions for other crates are boxed |
//! | [`edges`] | which crate may use which |
//! | [`map`] | that ARCHITECTURE.md names all crates, and the S3 page all operations |
//! | [`docs`] | that documents and comments of modules name paths, headings and a format number that exist |
//! | [`settings`] | that documents name settings that exist |
//! | [`tables`] | that tables of modules name exactly the modules |
//! | [`verbs`] | that comments of functions begin with a verb in the third person |
//! | [`words`] | retired words in documents, comments and strings |
//! | [`sentences`] | that no sentence of a document or a comment begins like a question unless it is one |
//! | [`purity`] | that the protocol core knows no runtime, clock or lock |
//! | [`cycle`] | modules of a crate that import one another in a cycle |
//! | [`python`] | Python text: comments and docstrings |
//! | [`source`] | Rust text: code, prose, product code |

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::black_box::root;

mod boxed;
mod cycle;
mod docs;
mod edges;
mod lines;
mod map;
mod purity;
mod python;
mod sentences;
mod settings;
mod source;
mod tables;
mod verbs;
mod words;

#[cfg(test)]
mod tests;

/// Looks at everything; prints all complaints.
pub fn run() -> Outcome {
    let files = texts()?;
    let mut complaints = Vec::new();
    for (path, text) in &files {
        complaints.extend(lines::check(path, text));
        complaints.extend(tables::check(path, text));
    }
    complaints.extend(edges::check(&edges::metadata()?));
    complaints.extend(map::check(&|path| read(path))?);
    complaints.extend(docs::check(&files));
    complaints.extend(settings::check(&files));
    complaints.extend(verbs::check(&files));
    complaints.extend(words::check(&files));
    complaints.extend(sentences::check(&files));
    complaints.extend(purity::check(&files));
    complaints.extend(cycle::check(&files));
    complaints.extend(boxed::check(&files));
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        count => Err(format!("{count} complaints")),
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Returns the path and the text of each file; the text of a binary file is empty.
fn texts() -> Result<BTreeMap<String, String>, String> {
    let files = files()?.into_iter();
    let read = files.map(|path| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        (path, text)
    });
    Ok(read.collect())
}

/// Returns all files that git keeps or would keep, relative to the root.
fn files() -> Result<Vec<String>, String> {
    let git = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git cannot be started: {error}"))?;
    let listed = String::from_utf8(git.stdout).map_err(|error| error.to_string())?;
    let there = |path: &&str| Path::new(&root().join(path)).is_file();
    Ok(listed.lines().filter(there).map(String::from).collect())
}
