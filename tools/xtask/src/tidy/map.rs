//! That documents are complete: the map names every crate, the S3 page every operation.

/// The map of crates and tools.
const MAP: &str = "ARCHITECTURE.md";

/// The file that lists crates and tools.
const MEMBERS_FILE: &str = "Cargo.toml";

/// The page where users read which operations of S3 there are, and the source that defines them.
const OPERATIONS_DOCUMENT: &str = "docs/s3.md";
const OPERATIONS_SOURCE: &str = "crates/api/src/s3/route.rs";

/// Returns complaints about crates that the map leaves out, and operations that users are not told
/// of.
pub fn check(read: &dyn Fn(&str) -> Result<String, String>) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    let map = read(MAP)?;
    let manifest = read(MEMBERS_FILE)?;
    for member in members(&manifest)? {
        if !map.contains(&format!("`{member}`")) {
            complaints.push(format!("{MAP} does not name `{member}`"));
        }
    }
    let table = read(OPERATIONS_DOCUMENT)?;
    let missing = operations(&read(OPERATIONS_SOURCE)?)
        .into_iter()
        .filter(|name| !table.contains(name.as_str()));
    complaints.extend(missing.map(|name| format!("{OPERATIONS_DOCUMENT} does not name {name}")));
    Ok(complaints)
}

/// Returns the operations that a table of lines such as `PutObject => PutObject,` defines.
fn operations(source: &str) -> Vec<String> {
    let entry = |line: &str| {
        let (name, actions) = line.trim().strip_suffix(',')?.split_once(" => ")?;
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_uppercase())
                && text.chars().all(|c| c.is_ascii_alphanumeric())
        };
        let known = is_name(name) && actions.split(' ').all(is_name);
        known.then(|| name.to_owned())
    };
    source.lines().filter_map(entry).collect()
}

fn members(manifest: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = manifest
        .parse()
        .map_err(|error| format!("Cargo.toml: {error}"))?;
    let members = table
        .get("workspace")
        .and_then(|workspace| workspace.get("members"))
        .and_then(|members| members.as_array())
        .ok_or("Cargo.toml has no members")?;
    Ok(members
        .iter()
        .filter_map(|m| m.as_str())
        .map(String::from)
        .collect())
}
