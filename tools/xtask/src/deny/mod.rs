//! Licences, banned crates and sources of all dependencies, as `deny.toml` wants them.
//!
//! cargo-deny checks the same and more, and takes two minutes to compile. This asks
//! `cargo metadata` and takes a second.
//!
//! | module | what it holds |
//! |---|---|
//! | [`policy`] | `deny.toml` |
//! | [`licence`] | licence expressions |

use std::process::Command;

use serde::Deserialize;

use crate::Outcome;
use crate::black_box::root;

mod licence;
mod policy;

#[cfg(test)]
mod tests;

use policy::Policy;

/// The answer of `cargo metadata` about all packages that the workspace builds on.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for one that lies on this disk.
    source: Option<String>,
    /// The registries that it may go to: `None` for any.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// Runs it; prints all complaints.
pub fn run() -> Outcome {
    let file = root().join("deny.toml");
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let policy = policy::parse(&text)?;
    let metadata = metadata(&policy)?;
    let complaints = check(&policy, &metadata);
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => println!(
            "{} packages are as deny.toml wants",
            metadata.packages.len()
        ),
        count => return Err(format!("{count} complaints")),
    }
    Ok(())
}

/// Asks cargo.
fn metadata(policy: &Policy) -> Result<Metadata, String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--locked", "--format-version", "1"]);
    for target in &policy.graph.targets {
        command.args(["--filter-platform", target]);
    }
    let output = command
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    parse(&output.stdout)
}

fn parse(json: &[u8]) -> Result<Metadata, String> {
    serde_json::from_slice(json).map_err(|error| format!("cargo metadata: {error}"))
}

/// Returns complaints about all packages.
fn check(policy: &Policy, metadata: &Metadata) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in &metadata.packages {
        let mut found: Vec<String> = wildcards(policy, package);
        found.extend(unlicensed(policy, package));
        found.extend(banned(policy, package));
        found.extend(foreign(policy, package, &metadata.workspace_members));
        let Package { name, version, .. } = package;
        complaints.extend(found.iter().map(|what| format!("{name} {version}: {what}")));
    }
    complaints
}

fn unlicensed(policy: &Policy, package: &Package) -> Option<String> {
    let Some(expression) = &package.license else {
        return Some("it declares no licence".into());
    };
    match licence::is_allowed(expression, &policy.licenses.allow) {
        Ok(true) => None,
        Ok(false) => Some(format!("its licence is not allowed: {expression}")),
        Err(why) => Some(why),
    }
}

fn banned(policy: &Policy, package: &Package) -> Option<String> {
    let ban = policy
        .bans
        .deny
        .iter()
        .find(|ban| ban.name == package.name)?;
    Some(format!("it is banned: {}", ban.reason))
}

/// Returns complaints about dependencies of any version.
fn wildcards(policy: &Policy, package: &Package) -> Vec<String> {
    let is_private = package.publish.as_ref().is_some_and(Vec::is_empty);
    let may_be_path = policy.bans.allow_wildcard_paths && is_private;
    let is_wild = |dependency: &&Dependency| {
        dependency.req == "*" && !(may_be_path && dependency.path.is_some())
    };
    let wild = package.dependencies.iter().filter(is_wild);
    wild.map(|dependency| format!("it takes any version of {}", dependency.name))
        .collect()
}

fn foreign(policy: &Policy, package: &Package, members: &[String]) -> Option<String> {
    let Some(source) = &package.source else {
        let is_ours = members.contains(&package.id);
        return (!is_ours).then(|| "it is a path outside the workspace".into());
    };
    let registry = source
        .strip_prefix("registry+")
        .or_else(|| source.strip_prefix("sparse+"));
    let is_known =
        registry.is_some_and(|url| policy.sources.allow_registry.iter().any(|a| a == url));
    (!is_known).then(|| format!("its source is not allowed: {source}"))
}
