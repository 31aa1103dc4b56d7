//! The website of a bucket.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/buckets/{name}/website`: pages, or a redirect.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebsiteInfo {
    /// The bucket's name.
    pub bucket: String,
    /// The page of a folder; absent if all requests are redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The key of the page that tells of errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The routing rules. The first that applies counts.
    #[serde(default)]
    pub rules: Vec<WebsiteRule>,
    /// The target of a redirect of all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<WebsiteRedirect>,
}

/// `PUT /v1/buckets/{name}/website`. Give `index`, or `redirect` alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetWebsite {
    /// The bucket's objects are pages; this is the page of a folder, such as `index.html`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The key of the page that tells of errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The routing rules: at most 50. If absent, those that there are stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<WebsiteRule>>,
    /// All requests are redirected to another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<WebsiteRedirect>,
}

/// The target of a redirect of all requests of a website.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebsiteRedirect {
    /// The host, possibly with a port or a path.
    pub host: String,
    /// `http` or `https`; if absent, that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// A routing rule of a website: a condition (`key_prefix`, `error_status`), and a redirect. Parts
/// that the redirect leaves out stay as they are in the request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebsiteRule {
    /// The beginning of the keys to which the rule applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_prefix: Option<String>,
    /// The status of the errors to which the rule applies, 400 to 599. If absent, the rule applies
    /// before an object is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_status: Option<u16>,
    /// The host to redirect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The status of the redirect, 301 to 399: 301 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The key to redirect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_key: Option<String>,
    /// The text that replaces `key_prefix` in the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_prefix: Option<String>,
}
