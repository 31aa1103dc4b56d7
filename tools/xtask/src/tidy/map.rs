//! That the documents a newcomer reads first speak of what exists.

/// The documents, from the root.
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"];

/// Where crates and tools are.
const MEMBERS_FILE: &str = "Cargo.toml";

/// Where users read which operations of S3 there are, and where they are defined.
const OPERATIONS_DOCUMENT: &str = "docs/s3.md";
const OPERATIONS_SOURCE: &str = "crates/api/src/s3/route.rs";

/// What the paths in documents begin with.
const ROOTS: [&str; 5] = ["crates/", "tools/", "docs/", "tests/", ".ci/"];

/// Complaints: paths that the documents name and that do not exist; crates that the map leaves
/// out; operations that users are not told of.
pub fn check(
    read: &dyn Fn(&str) -> Result<String, String>,
    exists: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for document in DOCUMENTS {
        let text = read(document)?;
        let missing = paths(&text).filter(|path| !exists(path));
        complaints
            .extend(missing.map(|path| format!("{document} names {path}, which does not exist")));
    }
    let map = read(DOCUMENTS[0])?;
    let manifest = read(MEMBERS_FILE)?;
    for member in members(&manifest)? {
        if !map.contains(&format!("`{member}`")) {
            complaints.push(format!("{} does not name `{member}`", DOCUMENTS[0]));
        }
    }
    let table = read(OPERATIONS_DOCUMENT)?;
    let missing = operations(&read(OPERATIONS_SOURCE)?)
        .into_iter()
        .filter(|name| !table.contains(name.as_str()));
    complaints.extend(missing.map(|name| format!("{OPERATIONS_DOCUMENT} does not name {name}")));
    Ok(complaints)
}

/// The operations that a table of lines such as `PutObject Write,` defines.
fn operations(source: &str) -> Vec<String> {
    let entry = |line: &str| {
        let (name, need) = line.trim().strip_suffix(',')?.split_once(' ')?;
        let known = ["Any", "Read", "Write", "Owner"].contains(&need);
        known.then(|| name.to_owned())
    };
    source.lines().filter_map(entry).collect()
}

/// Paths in back quotes or in links.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let linked = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    quoted
        .chain(linked)
        .map(|path| path.split('#').next().unwrap_or(path))
        .filter(|path| ROOTS.iter().any(|root| path.starts_with(root)))
        .filter(|path| !path.contains(['*', ' ', '{', '<']))
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
