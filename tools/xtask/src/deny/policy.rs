//! `deny.toml`, as far as this check goes: a setting that it would not honour is an error.
//!
//! The file is cargo-deny's, which `cargo xtask advisories` runs with it.

use serde::Deserialize;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub graph: Graph,
    pub licenses: Licenses,
    pub bans: Bans,
    pub sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Dependencies of other targets are not looked at.
    pub targets: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licenses {
    pub allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bans {
    #[serde(rename = "multiple-versions")]
    _multiple_versions: Allow,
    #[serde(rename = "wildcards")]
    _wildcards: Deny,
    /// True if a crate that is not published may name one beside it without a version.
    pub allow_wildcard_paths: bool,
    pub deny: Vec<Ban>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ban {
    /// The name alone: all versions.
    #[serde(rename = "crate")]
    pub name: String,
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sources {
    #[serde(rename = "unknown-registry")]
    _unknown_registry: Deny,
    #[serde(rename = "unknown-git")]
    _unknown_git: Deny,
    /// URLs of indexes.
    pub allow_registry: Vec<String>,
}

/// The only value that this check knows for a setting.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Deny {
    Deny,
}

/// The only value that this check knows for a setting.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Allow {
    Allow,
}

/// Reads the policy.
///
/// # Errors
/// Names what is wrong or unknown in it.
pub fn parse(text: &str) -> Result<Policy, String> {
    let policy: Policy = toml::from_str(text).map_err(|error| format!("deny.toml: {error}"))?;
    match policy.bans.deny.iter().find(|ban| !is_name(&ban.name)) {
        Some(ban) => Err(format!("deny.toml: {:?} is not a crate's name", ban.name)),
        None => Ok(policy),
    }
}

fn is_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    !text.is_empty() && text.chars().all(plain)
}
