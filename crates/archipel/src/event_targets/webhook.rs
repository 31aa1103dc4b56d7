//! Targets that get a POST.

use archipel_api::webhook::Webhook;
use archipel_model::{DeliverEvent, Event};
use async_trait::async_trait;

use super::message::Message;
use crate::config;

/// A webhook.
pub struct Hook {
    webhook: Webhook,
    region: String,
}

impl Hook {
    /// Returns the webhook that the settings describe.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(settings: &config::Webhook, region: &str) -> Result<Hook, String> {
        let token = settings.token.as_ref().map(|token| token.expose());
        Ok(Hook {
            webhook: Webhook::new(settings.url.clone(), token)?,
            region: region.to_owned(),
        })
    }

    async fn post(&self, message: Message) -> Result<(), String> {
        let text = message.text.into();
        let posted = self.webhook.post("application/json", text).await;
        posted.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl DeliverEvent for Hook {
    async fn deliver(&self, event: &Event) -> Result<(), String> {
        self.post(Message::about(event, &self.region)).await
    }

    async fn test(&self, bucket: &str, request_id: &str, now_ms: u64) -> Result<(), String> {
        self.post(Message::test(bucket, request_id, now_ms)).await
    }
}
