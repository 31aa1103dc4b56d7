//! Requests and answers about groups, roles and policies.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A group of users.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GroupInfo {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The unique id.
    pub id: String,
    /// The ARN.
    pub arn: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// The users in the group.
    pub users: Vec<String>,
    /// The names of the policies that only this group has.
    pub inline_policies: Vec<String>,
    /// The ARNs of the attached policies.
    pub policies: Vec<String>,
}

/// `POST /v1/groups`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateGroup {
    /// The name.
    pub name: String,
    /// The path, from slash to slash: `/` if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// `PATCH /v1/groups/{name}`: adds and attaches, then removes and detaches. A refusal changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeGroup {
    /// Users to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_users: Vec<String>,
    /// Users to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_users: Vec<String>,
    /// Managed policies to attach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<String>,
    /// Managed policies to detach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detach: Vec<String>,
}

/// A role: an identity that a principal takes for some time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RoleInfo {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The unique id.
    pub id: String,
    /// The ARN.
    pub arn: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// The description.
    pub description: String,
    /// The longest session in seconds.
    pub max_session_seconds: u32,
    /// The policy that says who may assume the role, as JSON text.
    pub trust: String,
    /// The names of the policies that only this role has.
    pub inline_policies: Vec<String>,
    /// The ARNs of the attached policies.
    pub policies: Vec<String>,
}

/// `POST /v1/roles`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRole {
    /// The name.
    pub name: String,
    /// The path, from slash to slash: `/` if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The longest session in seconds, 3600 to 43200: 3600 if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_session_seconds: Option<u32>,
    /// The policy that says who may assume the role, as JSON text.
    pub trust: String,
}

/// `PATCH /v1/roles/{name}`: what is absent stays as it is. A refusal changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The longest session in seconds, 3600 to 43200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_session_seconds: Option<u32>,
    /// The policy that says who may assume the role, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// Managed policies to attach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<String>,
    /// Managed policies to detach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detach: Vec<String>,
}

/// A managed policy: it can be attached to several users, groups and roles.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PolicyInfo {
    /// The name.
    pub name: String,
    /// The ARN.
    pub arn: String,
    /// The description.
    pub description: String,
    /// Milliseconds since 1970; 0 for a policy that every cluster has.
    pub created_ms: u64,
    /// The time of the last change.
    pub changed_ms: u64,
    /// True if every cluster has it, so that it cannot be changed.
    pub built_in: bool,
    /// The number of the version that counts.
    pub version: u32,
    /// The document of that version, as JSON text.
    pub document: String,
    /// The users that it is attached to; absent if the node does not know them now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<String>>,
    /// The groups that it is attached to; absent if the node does not know them now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// The roles that it is attached to; absent if the node does not know them now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
}

impl PolicyInfo {
    /// Returns the number of users, groups and roles that it is attached to, if that is known.
    pub fn holders(&self) -> Option<usize> {
        let all = [&self.users, &self.groups, &self.roles];
        let counts = all.into_iter().map(|names| names.as_ref().map(Vec::len));
        counts.sum()
    }
}

/// `POST /v1/policies`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePolicy {
    /// The name.
    pub name: String,
    /// The path, from slash to slash: `/` if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The document, as JSON text.
    pub document: String,
}

/// A policy's document.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDocument {
    /// The document, as JSON text.
    pub document: String,
}

/// The kind of what has an inline policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HolderKind {
    /// Users.
    Users,
    /// Groups.
    Groups,
    /// Roles.
    Roles,
}

impl HolderKind {
    /// Returns the name, as paths have it.
    pub fn name(self) -> &'static str {
        match self {
            HolderKind::Users => "users",
            HolderKind::Groups => "groups",
            HolderKind::Roles => "roles",
        }
    }
}
