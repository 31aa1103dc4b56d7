//! The messages about events, as documents that S3 defines.
//!
//! Source: AWS, "Event message structure".

use archipel_api::s3::record::for_target;
use archipel_api::times::iso_time;
use archipel_model::Event;
use serde_json::json;

/// A message for a target.
pub struct Message {
    /// The bucket and the key, with a slash between them. Messages with the same name stay in
    /// order.
    pub name: String,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: u64,
    /// The document, in JSON.
    pub text: String,
}

impl Message {
    /// Returns the message about an event.
    pub fn about(event: &Event, region: &str) -> Message {
        Message {
            name: format!("{}/{}", event.bucket, event.key),
            time_ms: event.time_ms,
            text: json!({ "Records": [for_target(event, region)] }).to_string(),
        }
    }

    /// Returns the message that tests a target.
    pub fn test(bucket: &str, request_id: &str, now_ms: u64) -> Message {
        let text = json!({
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": iso_time(now_ms),
            "Bucket": bucket,
            "RequestId": request_id,
            "HostId": "",
        });
        Message {
            name: format!("{bucket}/"),
            time_ms: now_ms,
            text: text.to_string(),
        }
    }
}
