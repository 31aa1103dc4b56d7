//! The description of a network: sites with nodes, and the quality of their links.
//!
//! The quality of a link is combined from the general to the particular: `[inside]` for nodes of
//! one site and `[between]` for others, then each matching entry of `[[links]]`, in the file's
//! order.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::link::Quality;

mod spec;
#[cfg(test)]
mod tests;

pub use spec::LinkSpec;

const PRESETS: [(&str, &str); 7] = [
    ("five-sites", include_str!("../presets/five-sites.toml")),
    ("three-sites", include_str!("../presets/three-sites.toml")),
    ("fifty-ms", include_str!("../presets/fifty-ms.toml")),
    ("thin", include_str!("../presets/thin.toml")),
    ("lossy", include_str!("../presets/lossy.toml")),
    ("near", include_str!("../presets/near.toml")),
    ("hundred", include_str!("../presets/hundred.toml")),
];

/// The limit of nodes in a lab, because the number of links grows with the square.
pub const MAX_NODES: usize = 500;

/// A network, as described in its file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The name of the lab: letters, digits and `-`.
    pub name: String,
    /// The seed of all chance.
    #[serde(default = "one")]
    pub seed: u64,
    /// The largest packet, in bytes.
    #[serde(default = "ethernet")]
    pub mtu: u32,
    /// The carrier of packets.
    #[serde(default)]
    pub carrier: Carrier,
    /// Links between nodes of one site.
    #[serde(default)]
    pub inside: LinkSpec,
    /// Links between nodes of different sites.
    #[serde(default)]
    pub between: LinkSpec,
    /// The sites with their nodes.
    pub sites: Vec<Site>,
    /// Links that differ.
    #[serde(default)]
    pub links: Vec<Exception>,
}

/// The carrier of packets between nodes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// The relay, which supports all link properties.
    #[default]
    Relay,
    /// A bridge of the kernel. It costs less, and its links have no properties.
    Bridge,
}

/// A group of nodes near one another.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The site's name.
    pub name: String,
    /// The names of nodes that hold data.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// The number of further nodes, named `SITE-1` and so on.
    #[serde(default)]
    pub count: usize,
    /// The names of nodes that only forward requests.
    #[serde(default)]
    pub gateways: Vec<String>,
    /// The names of client nodes.
    #[serde(default)]
    pub clients: Vec<String>,
}

/// Links that differ: between two sites or nodes in both directions, or in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Both ways.
    pub between: Option<[String; 2]>,
    /// One way, with `to`.
    pub from: Option<String>,
    /// One way, with `from`.
    pub to: Option<String>,
    /// The quality of these links.
    pub quality: LinkSpec,
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds data.
    Storage,
    /// Forwards requests and holds no data.
    Gateway,
    /// Sends requests.
    Client,
}

/// A node of the network.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, unique among nodes and sites.
    pub name: String,
    /// Its site.
    pub site: String,
    /// Its role.
    pub role: Role,
}

fn one() -> u64 {
    1
}

fn ethernet() -> u32 {
    1500
}

impl Topology {
    /// Reads a file, or the preset with this name.
    pub fn load(name: &str) -> Outcome<Self> {
        let preset = PRESETS.iter().find(|(preset, _)| *preset == name);
        let text = match preset {
            Some((_, text)) => (*text).to_owned(),
            None => std::fs::read_to_string(Path::new(name)).map_err(|error| {
                let presets: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
                format!("{name}: {error}; presets are {}", presets.join(", "))
            })?,
        };
        Self::parse(&text).map_err(|error| format!("{name}: {error}").into())
    }

    /// Returns the names of all presets.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// Parses and checks the text of a file.
    pub fn parse(text: &str) -> Outcome<Self> {
        let topology: Self = toml::from_str(text)?;
        topology.validate()?;
        Ok(topology)
    }

    /// Returns all nodes in the file's order; the index is a node's number.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        for site in &self.sites {
            let counted = (1..=site.count.min(MAX_NODES)).map(|n| format!("{}-{n}", site.name));
            let storage = site.nodes.iter().cloned().chain(counted).collect();
            let groups = [
                (&storage, Role::Storage),
                (&site.gateways, Role::Gateway),
                (&site.clients, Role::Client),
            ];
            for (names, role) in groups {
                nodes.extend(names.iter().map(|name| Node {
                    name: name.clone(),
                    site: site.name.clone(),
                    role,
                }));
            }
        }
        nodes
    }

    /// Returns the quality of the link between two nodes.
    pub fn link(&self, from: &Node, to: &Node) -> Quality {
        let mut spec = if from.site == to.site {
            self.inside
        } else {
            self.between
        };
        for exception in &self.links {
            if exception.fits(from, to) {
                spec = spec.or(&exception.quality);
            }
        }
        spec.quality()
    }

    fn validate(&self) -> Outcome<()> {
        let nodes = self.nodes();
        let sites = self.sites.iter().map(|site| &site.name);
        let mut names = BTreeSet::new();
        for name in nodes.iter().map(|node| &node.name).chain(sites) {
            plain(name)?;
            if !names.insert(name) {
                return Err(format!("the name {name} is used twice").into());
            }
        }
        plain(&self.name)?;
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            return Err(format!("{} nodes; use 1 to {MAX_NODES}", nodes.len()).into());
        }
        if !(576..=65_535).contains(&self.mtu) {
            return Err(format!("an MTU of {}; use 576 to 65535", self.mtu).into());
        }
        let specs = self.links.iter().map(|link| &link.quality);
        for spec in specs.chain([&self.inside, &self.between]) {
            spec.validate()?;
        }
        for exception in &self.links {
            exception.validate(&names)?;
        }
        self.validate_bridge()
    }

    fn validate_bridge(&self) -> Outcome<()> {
        let plain = self.inside.is_plain() && self.between.is_plain() && self.links.is_empty();
        if self.carrier == Carrier::Bridge && !plain {
            return Err("links of a bridge have no properties: remove carrier".into());
        }
        Ok(())
    }
}

impl Exception {
    fn fits(&self, from: &Node, to: &Node) -> bool {
        let is = |node: &Node, name: &String| node.name == *name || node.site == *name;
        if let Some([a, b]) = &self.between {
            return (is(from, a) && is(to, b)) || (is(from, b) && is(to, a));
        }
        let from_fits = self.from.as_ref().is_some_and(|name| is(from, name));
        from_fits && self.to.as_ref().is_some_and(|name| is(to, name))
    }

    fn validate(&self, names: &BTreeSet<&String>) -> Outcome<()> {
        let one_way = self.from.is_some() && self.to.is_some();
        if self.between.is_some() == one_way || self.from.is_some() != self.to.is_some() {
            return Err("an entry of links needs either between, or from and to".into());
        }
        let named = self
            .between
            .iter()
            .flatten()
            .chain(&self.from)
            .chain(&self.to);
        for name in named {
            if !names.contains(name) {
                return Err(
                    format!("links name {name}, which is neither a site nor a node").into(),
                );
            }
        }
        Ok(())
    }
}

/// Checks a name, which becomes part of the names of namespaces and folders.
fn plain(name: &str) -> Outcome<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 40 || name.starts_with('-') || !name.chars().all(allowed) {
        return Err(
            format!("{name:?} is not a valid name: use up to 40 letters, digits and -").into(),
        );
    }
    Ok(())
}
