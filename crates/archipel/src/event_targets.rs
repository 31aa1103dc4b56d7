//! The targets of event notifications: brings events to webhooks, as documents that S3 defines.
//!
//! Source: AWS, "Event message structure".

use std::sync::Arc;

use archipel_api::webhook::Webhook;
use archipel_model::{DeliverEvent, Event, EventTarget, Model};
use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::config;

/// The bytes of a key that are escaped in a message.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'*')
    .remove(b'/');

/// Declares the targets that the settings name.
///
/// # Errors
/// A text for the operator.
pub fn declare(model: &Model, settings: &config::Settings) -> Result<(), String> {
    let mut targets: Vec<(EventTarget, Arc<dyn DeliverEvent>)> = Vec::new();
    for target in &settings.event_targets {
        let webhook = Webhook::new(
            target.url.clone(),
            target.token.as_ref().map(|token| token.expose()),
        );
        let webhook = webhook.map_err(|why| {
            let fix = "correct this target, or remove it";
            format!("event_targets.name = {:?}: {why}; fix: {fix}", target.name)
        })?;
        let limits = EventTarget {
            name: target.name.clone(),
            kind: "webhook".into(),
            backlog: target.backlog,
            refuses: target.refuses,
        };
        let region = settings.s3.region.clone();
        targets.push((limits, Arc::new(Hook { webhook, region })));
    }
    model.set_event_targets(targets);
    Ok(())
}

struct Hook {
    webhook: Webhook,
    region: String,
}

impl Hook {
    async fn post(&self, message: Value) -> Result<(), String> {
        let message = message.to_string().into();
        self.webhook.post("application/json", message).await
    }
}

#[async_trait]
impl DeliverEvent for Hook {
    async fn deliver(&self, event: &Event) -> Result<(), String> {
        self.post(json!({ "Records": [record(event, &self.region)] }))
            .await
    }

    async fn test(&self, bucket: &str, request_id: &str, now_ms: u64) -> Result<(), String> {
        self.post(json!({
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": rfc3339(now_ms),
            "Bucket": bucket,
            "RequestId": request_id,
            "HostId": "",
        }))
        .await
    }
}

fn record(event: &Event, region: &str) -> Value {
    let principal = |id: Option<&str>| json!({ "principalId": id.unwrap_or("anonymous") });
    let mut object = json!({
        "key": utf8_percent_encode(&event.key, ESCAPED).to_string().replace("%20", "+"),
        "sequencer": event.sequencer,
    });
    if let Some(size) = event.size {
        object["size"] = size.into();
    }
    if let Some(etag) = &event.etag {
        object["eTag"] = etag.as_str().into();
    }
    if let Some(version) = &event.version {
        object["versionId"] = version.as_str().into();
    }
    json!({
        "eventVersion": "2.3",
        "eventSource": "aws:s3",
        "awsRegion": region,
        "eventTime": rfc3339(event.time_ms),
        "eventName": event.name.strip_prefix("s3:").unwrap_or(&event.name),
        "userIdentity": principal(event.principal.as_deref()),
        "requestParameters": { "sourceIPAddress": event.address.as_deref().unwrap_or("") },
        "responseElements": { "x-amz-request-id": event.request_id, "x-amz-id-2": "" },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": event.rule,
            "bucket": {
                "name": event.bucket,
                "arn": format!("arn:aws:s3:::{}", event.bucket),
            },
            "object": object,
        },
    })
}

fn rfc3339(millis: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000);
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_default()
}
