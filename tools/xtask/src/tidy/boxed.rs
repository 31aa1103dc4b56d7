//! Async functions that other crates await: they are boxed, so that they are compiled once.

use std::collections::BTreeMap;

use super::source;

/// The crates whose public async functions have the attribute, where they can.
const CRATES: [&str; 2] = ["crates/cluster/src/", "crates/model/src/"];

const ATTRIBUTE: &str = "#[boxed]";
const PUBLIC: &str = "pub async fn ";

/// Returns complaints about all files.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let looked_at = |path: &&String| {
        let is_in = CRATES.iter().any(|folder| path.starts_with(folder));
        is_in && path.ends_with(".rs") && !source::is_test(path)
    };
    let paths = files.keys().filter(looked_at);
    paths
        .flat_map(|path| check_file(path, &files[path]))
        .collect()
}

/// Returns complaints about one source file.
pub fn check_file(path: &str, text: &str) -> Vec<String> {
    let code = source::product_code(text);
    let mut complaints = Vec::new();
    let (mut offset, mut has_attribute) = (0, false);
    for (number, line) in code.lines().enumerate() {
        let rest = line.trim_start();
        if rest.starts_with(PUBLIC) && !has_attribute && !has_types(&code[offset..]) {
            let name = rest[PUBLIC.len()..].split('(').next().unwrap_or_default();
            complaints.push(format!(
                "{path}:{}: {name}: write {ATTRIBUTE} above it, else each crate that awaits it compiles it again",
                number + 1
            ));
        }
        has_attribute = rest.contains(ATTRIBUTE) || (has_attribute && rest.starts_with("#["));
        offset += line.len() + 1;
    }
    complaints
}

/// Returns true if the function at the start of `code` has type parameters, written or `impl`.
fn has_types(code: &str) -> bool {
    let signature = code.split(['{', ';']).next().unwrap_or_default();
    let arguments = signature.split("->").next().unwrap_or_default();
    let before = arguments.split('(').next().unwrap_or_default();
    let of_types = before.split(['<', ',']).skip(1);
    let mut names = of_types.map(str::trim).filter(|name| !name.is_empty());
    names.any(|name| !name.starts_with('\'')) || arguments.contains("impl ")
}
