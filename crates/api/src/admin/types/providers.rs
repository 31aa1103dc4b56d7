//! Requests and answers about identity providers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An identity provider of OpenID Connect. Roles can trust its tokens.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProviderInfo {
    /// The name: the issuer without `https://`.
    pub name: String,
    /// The issuer's URL.
    pub url: String,
    /// The ARN, as policies name it.
    pub arn: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// The audiences that tokens may be for.
    pub clients: Vec<String>,
    /// Thumbprints of certificates. They are shown and do not count: the certificate has to be one that
    /// the system trusts.
    pub thumbprints: Vec<String>,
}

/// `POST /v1/identity-providers`
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateProvider {
    /// The issuer's URL, which begins with `https://`.
    pub url: String,
    /// The audiences that tokens may be for: at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// SHA-1 thumbprints of certificates in hexadecimal: at most 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thumbprints: Vec<String>,
}

/// `PATCH /v1/identity-providers/{name}`: first adds, then removes. A refusal changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeProvider {
    /// Audiences to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_clients: Vec<String>,
    /// Audiences to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_clients: Vec<String>,
    /// The thumbprints from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprints: Option<Vec<String>>,
}
