//! Requests and answers about tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A token of the admin API.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenInfo {
    /// The id: the part of the token that is not secret.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// The time from which it opens nothing, in milliseconds since 1970; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// True if that time has come.
    pub expired: bool,
    /// The rights that it gives: `RESOURCE:read`, `RESOURCE:write`, `buckets/NAME:read`,
    /// `buckets/NAME:write`. The resource `all` stands for all of them. The right to write includes
    /// that to read.
    pub scopes: Vec<String>,
}

/// A new token with its secret.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenWithSecret {
    /// The token.
    #[serde(flatten)]
    pub token: TokenInfo,
    /// The secret that requests carry: `Authorization: Bearer SECRET`. It cannot be shown again.
    pub secret: String,
}

/// A token to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// The name for people.
    pub name: String,
    /// The rights that it gives, as in [`TokenInfo`]; at least one.
    pub scopes: Vec<String>,
    /// The seconds after which it opens nothing; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_seconds: Option<u64>,
}

/// A change of a token. Absent fields change nothing; the secret always stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeToken {
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The rights that it gives; at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The seconds from now after which it opens nothing; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_seconds: Option<u64>,
}
