//! Requests and answers about users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A user.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserInfo {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    pub path: String,
    /// The unique id.
    pub id: String,
    /// The ARN, as policies name the user.
    pub arn: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// True if requests with the user's access keys, and with the sessions that they began, are refused.
    #[serde(default)]
    pub disabled: bool,
    /// The groups.
    pub groups: Vec<String>,
    /// The names of the policies that only this user has.
    pub inline_policies: Vec<String>,
    /// The ARNs of the attached policies.
    pub policies: Vec<String>,
    /// The ids of the access keys.
    pub keys: Vec<String>,
}

/// `POST /v1/users`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// The name.
    pub name: String,
    /// The path, from slash to slash: `/` if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Managed policies to attach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<String>,
}

/// `PATCH /v1/users/{name}`: first attaches, then detaches. A refusal changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// True to refuse requests with the user's access keys, and with the sessions that they began; false
    /// to take them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Managed policies to attach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<String>,
    /// Managed policies to detach, by ARN or name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detach: Vec<String>,
}
