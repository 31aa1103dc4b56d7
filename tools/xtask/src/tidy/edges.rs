//! The dependencies between the product's crates: each uses only those to its left.

use std::process::Command;

use serde::Deserialize;

use crate::black_box::root;

/// The product's crates, from the ground up.
const ORDER: [&str; 12] = [
    "archipel-allocator",
    "archipel-boxed",
    "archipel-base",
    "archipel-traces",
    "archipel-access",
    "archipel-storage",
    "archipel-net",
    "archipel-cluster",
    "archipel-model",
    "archipel-api",
    "archipel-console",
    "archipel",
];

/// Crates that only some may use, and who.
const CONFINED: &[(&[&str], &[&str])] = &[
    (
        &["hyper", "hyper-util", "http", "http-body-util"],
        &["archipel-api", "archipel-console", "archipel"],
    ),
    (&["quick-xml"], &["archipel-api", "archipel-console"]),
    (&["askama"], &["archipel-console"]),
    (&["toml", "clap"], &["archipel"]),
    (&["heed", "rusqlite", "fjall"], &["archipel-storage"]),
    (&["quinn", "quinn-proto"], &["archipel-net"]),
    (
        &["rustls", "tokio-rustls"],
        &["archipel-net", "archipel-api", "archipel"],
    ),
    (&["rustls-webpki"], &["archipel-api"]),
    (
        &["async-nats", "redis", "tokio-postgres", "lapin", "rskafka"],
        &["archipel"],
    ),
    (&["rcgen"], &["archipel"]),
    (&["prost"], &["archipel"]),
    (&["getrandom"], &["archipel-base"]),
    (&["syn", "quote"], &["archipel-boxed"]),
    (&["tikv-jemallocator"], &["archipel-allocator"]),
];

/// The part of `cargo metadata` that is looked at.
#[derive(Deserialize)]
pub struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    kind: Option<String>,
}

/// Asks cargo.
pub fn metadata() -> Result<Metadata, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    parse(&output.stdout)
}

pub fn parse(json: &[u8]) -> Result<Metadata, String> {
    serde_json::from_slice(json).map_err(|error| format!("cargo metadata: {error}"))
}

/// Returns complaints about edges.
pub fn check(metadata: &Metadata) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in &metadata.packages {
        let Some(place) = ORDER.iter().position(|name| *name == package.name) else {
            continue;
        };
        for dependency in &package.dependencies {
            complaints.extend(edge(place, &package.name, dependency, metadata));
        }
    }
    complaints
}

fn edge(place: usize, from: &str, to: &Dependency, metadata: &Metadata) -> Option<String> {
    let ours = metadata
        .packages
        .iter()
        .any(|package| package.name == to.name);
    if ours {
        let allowed = ORDER[..place].contains(&to.name.as_str());
        return (!allowed).then(|| {
            format!(
                "{from} uses {}: a crate may use only those left of it ({})",
                to.name,
                ORDER.join(", ")
            )
        });
    }
    let (_, allowed) = CONFINED
        .iter()
        .find(|(names, _)| names.contains(&to.name.as_str()))?;
    let is_dev = to.kind.as_deref() == Some("dev");
    (!is_dev && !allowed.contains(&from)).then(|| {
        format!(
            "{from} uses {}: that belongs in {}",
            to.name,
            allowed.join(", ")
        )
    })
}
