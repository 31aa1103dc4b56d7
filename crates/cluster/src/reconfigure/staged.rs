//! Changes of the layout that operators have staged.

use std::collections::BTreeMap;

use archipel_base::NodeId;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::layout::{Redundancy, Role};

/// Changes that are not applied yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Staged {
    /// The layout version that they are to become: the next.
    #[serde(rename = "v")]
    pub version: u64,
    /// The number of edits since that version became the next. Applying names it, so that an unseen
    /// edit is not applied.
    #[serde(rename = "n", default)]
    pub revision: u64,
    /// New and changed roles; `None` takes a node out.
    #[serde(rename = "r")]
    pub roles: BTreeMap<NodeId, Option<Role>>,
    /// The new redundancy, if it changes.
    #[serde(rename = "c")]
    pub redundancy: Option<Redundancy>,
}

impl Staged {
    /// Returns true if nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.redundancy.is_none()
    }

    /// Returns the changes for a layout version: none if these are for another.
    pub(super) fn for_version(version: u64, staged: Option<Staged>) -> Staged {
        let none = Staged {
            version,
            ..Staged::default()
        };
        staged.filter(|s| s.version == version).unwrap_or(none)
    }

    /// Adds a change to the others.
    pub(super) fn add(&mut self, change: &LayoutChange) {
        match change {
            LayoutChange::Assign(role) => {
                self.roles.insert(role.store.node, Some(role.clone()));
            }
            LayoutChange::Remove(node) => {
                self.roles.insert(*node, None);
            }
            LayoutChange::Redundancy(redundancy) => self.redundancy = Some(*redundancy),
            LayoutChange::Revert => {
                self.roles.clear();
                self.redundancy = None;
            }
        }
    }
}

impl Versioned for Staged {
    const VERSION: u8 = 1;
}

/// One change to stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayoutChange {
    /// A node takes part, or changes its role.
    Assign(Role),
    /// A node takes part no more.
    Remove(NodeId),
    /// The redundancy changes.
    Redundancy(Redundancy),
    /// All staged changes are dropped.
    Revert,
}
