//! The targets of event notifications: brings events to webhooks, as documents that S3 defines.
//!
//! Source: AWS, "Event message structure".

use std::sync::Arc;

use archipel_api::record::{for_webhook, rfc3339};
use archipel_api::webhook::Webhook;
use archipel_model::{DeliverEvent, Event, EventTarget, Model};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::config;

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
        self.post(json!({ "Records": [for_webhook(event, &self.region)] }))
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
