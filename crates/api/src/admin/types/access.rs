//! Requests and answers about access.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/access/explain`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// The id of an access key, or `anonymous`.
    pub key: String,
    /// The action: `s3:GetObject`.
    pub action: String,
    /// The bucket, or the object as `bucket/key`; also as an ARN.
    pub resource: String,
    /// Further condition keys: `aws:SourceIp`, `s3:prefix`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

/// The decision about a request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// True if the request is allowed.
    pub allowed: bool,
    /// The reason, for people.
    pub reason: String,
    /// The action, as policies write it.
    pub action: String,
    /// The ARN of the resource.
    pub resource: String,
    /// The ARN of the access key; absent for anonymous clients.
    pub principal: Option<String>,
    /// All condition keys of the request.
    pub context: BTreeMap<String, Vec<String>>,
}
