//! What new policies and roles are made from, and what policies are attached to.

use crate::object::Tags;

/// What a new managed policy is made from.
#[derive(Clone, Debug)]
pub struct NewPolicy {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The description.
    pub description: String,
    /// The document.
    pub document: String,
    /// The tags.
    pub tags: Tags,
}

/// What a new role is made from.
#[derive(Clone, Debug)]
pub struct NewRole {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The description.
    pub description: String,
    /// The longest session in seconds.
    pub max_session_s: u32,
    /// The policy that says who may assume it.
    pub trust: String,
    /// The tags.
    pub tags: Tags,
}

/// A user, group or role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// `user`, `group` or `role`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}
