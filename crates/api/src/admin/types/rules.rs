//! Rules of buckets: event notifications, and requests of scripts from other sites (CORS).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The event notifications of a bucket: `GET` and `PUT /v1/buckets/{name}/notifications`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketNotifications {
    /// The rules; none if the bucket has no configuration.
    pub rules: Vec<NotificationRule>,
}

/// A rule of event notifications: the events that go to a target.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationRule {
    /// The rule's name, unique in the bucket; a random one if absent.
    #[serde(default)]
    pub id: String,
    /// The name of a target: `GET /v1/event-targets` lists them.
    pub target: String,
    /// The events: `s3:ObjectCreated:*`, `s3:ObjectRemoved:Delete`...
    pub events: Vec<String>,
    /// The beginning of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The end of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// The form of the rule in documents of the S3 API.
    #[serde(default)]
    pub style: NotificationStyle,
}

/// The form of a rule in documents of the S3 API. All forms do the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotificationStyle {
    /// `TopicConfiguration`.
    Topic,
    /// `QueueConfiguration`.
    #[default]
    Queue,
    /// `CloudFunctionConfiguration`.
    Function,
}

/// The CORS rules of a bucket: `GET` and `PUT /v1/buckets/{name}/cors`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketCors {
    /// The rules: at most 100; none if the bucket has no configuration. The first that allows a request
    /// counts.
    pub rules: Vec<CorsRule>,
}

/// A CORS rule: the rights of scripts from other sites.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CorsRule {
    /// The rule's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The sites, such as `https://example.com`, each with at most one `*`.
    pub origins: Vec<String>,
    /// `GET`, `PUT`, `HEAD`, `POST`, `DELETE`.
    pub methods: Vec<String>,
    /// The headers that a request may have, each with at most one `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The headers of the answer that a script may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<String>,
    /// For how many seconds a browser may remember the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u32>,
}
