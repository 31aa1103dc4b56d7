//! The rules of this repository that no other tool knows. Each says what to do instead.
//!
//! | module | what it looks at |
//! |---|---|
//! | [`lines`] | single files: length, whitespace, documentation, what must be absent where |
//! | [`edges`] | which crate may use which |
//! | [`map`] | that ARCHITECTURE.md and README.md speak of what exists |

use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::black_box::root;

mod edges;
mod lines;
mod map;

#[cfg(test)]
mod tests;

/// Looks at everything; prints all complaints.
pub fn run() -> Outcome {
    let files = files()?;
    let mut complaints = Vec::new();
    for path in &files {
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            complaints.extend(lines::check(path, &text));
        }
    }
    complaints.extend(edges::check(&edges::metadata()?));
    complaints.extend(map::check(&|path| read(path), &|path| {
        root().join(path).exists()
    })?);
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

/// All files that git keeps or would keep, relative to the root.
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
