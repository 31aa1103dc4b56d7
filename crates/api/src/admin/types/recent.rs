//! Lines of the audit log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A line of the audit log: one request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// The number of the line since the start of the node.
    #[serde(default)]
    pub number: u64,
    /// The time at which the request arrived (RFC 3339).
    pub time: String,
    /// The endpoint at which it arrived: `s3`, `k2v`, `web`, `admin`.
    pub endpoint: String,
    /// The id of the request, as the answer gives it.
    pub request_id: String,
    /// The address of the client; absent on the local socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The access key whose signature was verified, or the name of the operator's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The action that it asked for: `PutObject`, for example.
    pub action: String,
    /// The HTTP method.
    pub method: String,
    /// The bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// The object's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The path, where there is no bucket and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `allowed`, `denied`, `refused` or `failed`.
    pub decision: String,
    /// The HTTP status; 0 if there was no answer.
    pub status: u16,
    /// The code of the error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Bytes of the request's body that were read.
    pub received: u64,
    /// Bytes of the answer's body that were sent.
    pub sent: u64,
    /// The time until the end of the answer.
    pub milliseconds: u64,
}
