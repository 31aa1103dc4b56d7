//! Documents and the comments of modules against the repository: paths, links and the format
//! number.

use std::collections::{BTreeMap, BTreeSet};

/// Documents outside `docs/`.
const DOCUMENTS: [&str; 4] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "tests/README.md",
];

/// The beginnings of a repository path in back quotes.
const ROOTS: [&str; 5] = ["crates/", "tools/", "docs/", "tests/", ".ci/"];

/// The page that states the version of the stored format, and the source that defines it.
const FORMAT_DOCUMENT: &str = "docs/internals/data-format.md";
const FORMAT_SOURCE: &str = "crates/storage/src/store/boot.rs";

/// Returns complaints about all documents. `files` has the path and the text of every text file.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let tree = Tree::of(files);
    let documents = files.iter().filter(|(path, _)| is_document(path));
    let mut complaints: Vec<String> = documents
        .flat_map(|(path, text)| tree.check(path, text))
        .collect();
    let sources = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    complaints.extend(sources.flat_map(|(path, text)| tree.check_source(path, text)));
    complaints.extend(format_number(files));
    complaints
}

/// Returns whether a file is a document of the present: the changelog is not.
pub fn is_document(path: &str) -> bool {
    (path.starts_with("docs/") && path.ends_with(".md")) || DOCUMENTS.contains(&path)
}

/// All files and folders, and the headings of documents.
struct Tree<'a> {
    files: &'a BTreeMap<String, String>,
    folders: BTreeSet<&'a str>,
}

impl<'a> Tree<'a> {
    fn of(files: &'a BTreeMap<String, String>) -> Tree<'a> {
        let above = |path: &'a String| path.match_indices('/').map(|(at, _)| &path[..at]);
        let folders = files.keys().flat_map(above).collect();
        Tree { files, folders }
    }

    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains_key(path) || self.folders.contains(path)
    }

    /// Returns whether some file ends with this path, such as `lineage/accept.rs`.
    fn has_end(&self, path: &str) -> bool {
        let end = format!("/{path}");
        self.files.keys().any(|file| file.ends_with(&end))
    }

    fn check(&self, document: &str, text: &str) -> Vec<String> {
        let prose = without_fences(text);
        let quoted = quoted_paths(&prose).filter(|path| match is_rooted(path) {
            true => !self.has(path),
            false => !self.has_end(path),
        });
        let mut complaints: Vec<String> = quoted
            .map(|path| format!("{document} names {path}, which does not exist"))
            .collect();
        complaints.extend(links(&prose).filter_map(|link| self.broken(document, link)));
        complaints
    }

    /// Returns complaints about the comment of a module. Its paths may begin at its crate, too.
    fn check_source(&self, source: &str, text: &str) -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
        let comment = lines.collect::<Vec<_>>().join("\n");
        let prose = without_fences(&comment);
        let package = source.match_indices('/').nth(1);
        let package = package.map_or("", |(end, _)| &source[..end]);
        let is_there = |path: &&str| match is_rooted(path) {
            true => self.has(path) || self.has(&format!("{package}/{path}")),
            false => self.has_end(path),
        };
        let missing = quoted_paths(&prose).filter(|path| !is_there(path));
        missing
            .map(|path| format!("{source} names {path}, which does not exist"))
            .collect()
    }

    /// Returns a complaint about a link whose file or heading is missing.
    fn broken(&self, document: &str, link: &str) -> Option<String> {
        let (target, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = match target {
            "" => document.to_owned(),
            _ => resolved(document, target),
        };
        if !self.has(&path) {
            return Some(format!("{document} links to {link}, which does not exist"));
        }
        let text = self.files.get(&path).filter(|_| path.ends_with(".md"))?;
        let is_known = heading.is_empty() || headings(text).any(|known| known == heading);
        (!is_known).then(|| format!("{document} links to {link}: {path} has no such heading"))
    }
}

/// Returns the text without fenced blocks, which hold commands and output.
pub fn without_fences(text: &str) -> String {
    let mut is_fenced = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if !is_fenced && !is_fence {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Returns what looks like a path of the repository in back quotes.
fn quoted_paths(prose: &str) -> impl Iterator<Item = &str> {
    let quoted = prose.split('`').skip(1).step_by(2);
    let is_path = |path: &&str| {
        let is_source = path.contains('/') && path.ends_with(".rs");
        (is_source || is_rooted(path)) && !path.contains(['*', '{', '<', ' ', '\n'])
    };
    quoted
        .map(|path| path.split('#').next().unwrap_or(path))
        .filter(is_path)
}

fn is_rooted(path: &str) -> bool {
    ROOTS.iter().any(|root| path.starts_with(root))
}

/// Returns the targets of links within the repository.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    let targets = prose.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split([')', ' ', '\n']).next())
        .filter(|link| !link.contains(':'))
}

/// Returns a link's target as a path from the root.
fn resolved(document: &str, target: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the names under which links reach the headings of a document.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        });
        kept.collect()
    })
}

/// Returns a complaint if the page states another version of the stored format than the source.
fn format_number(files: &BTreeMap<String, String>) -> Option<String> {
    let page = files.get(FORMAT_DOCUMENT);
    let source = files.get(FORMAT_SOURCE);
    let stated = page.and_then(|text| number_behind(text, "version of the whole format. It is "));
    let defined = source.and_then(|text| number_behind(text, "const FORMAT: u64 = "));
    match (stated, defined) {
        (_, None) => Some(format!("{FORMAT_SOURCE} has no `const FORMAT: u64`")),
        (None, _) => Some(format!(
            "{FORMAT_DOCUMENT} does not say: version of the whole format. It is N."
        )),
        (Some(stated), Some(defined)) => (stated != defined).then(|| {
            format!("{FORMAT_DOCUMENT} states format {stated}; it is {defined} in {FORMAT_SOURCE}")
        }),
    }
}

/// Returns the number behind some words, wherever the lines break.
fn number_behind(text: &str, words: &str) -> Option<u64> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, behind) = text.split_once(words)?;
    let digits = behind.split(|letter: char| !letter.is_ascii_digit()).next();
    digits?.parse().ok()
}
