//! The targets of event notifications: brings events to other services.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | the documents that targets get |
//! | [`webhook`] | targets that get a POST |
//! | [`server`] | what all other targets have in common: one connection, and a bounded time |
//! | [`stream`] | connections over TCP and TLS |
//! | [`amqp`], [`kafka`], [`nats`], [`postgres`], [`redis`] | one kind each |

use std::sync::Arc;

use archipel_model::{DeliverEvent, EventTarget, Model};

use crate::config::{self, Service};

mod amqp;
mod kafka;
mod message;
mod nats;
mod postgres;
mod redis;
mod server;
mod stream;
mod webhook;

use server::Reused;

/// Declares the targets that the settings name.
///
/// # Errors
/// A text for the operator.
pub fn declare(model: &Model, settings: &config::Settings) -> Result<(), String> {
    let mut targets: Vec<(EventTarget, Arc<dyn DeliverEvent>)> = Vec::new();
    for target in &settings.event_targets {
        let deliver = deliverer(&target.service, &settings.s3.region).map_err(|why| {
            let fix = "correct this target, or remove it";
            format!("event_targets.name = {:?}: {why}; fix: {fix}", target.name)
        })?;
        let limits = EventTarget {
            name: target.name.clone(),
            kind: target.service.kind().into(),
            backlog: target.backlog,
            refuses: target.refuses,
        };
        targets.push((limits, deliver));
    }
    model.set_event_targets(targets);
    Ok(())
}

/// Returns what brings events to a service. It connects once there is an event.
fn deliverer(service: &Service, region: &str) -> Result<Arc<dyn DeliverEvent>, String> {
    Ok(match service {
        Service::Webhook(webhook) => Arc::new(webhook::Hook::new(webhook, region)?),
        Service::Nats(nats) => Arc::new(Reused::new(nats::Server::new(nats)?, region)),
        Service::Redis(redis) => Arc::new(Reused::new(redis::Server::new(redis)?, region)),
        Service::Postgres(postgres) => {
            Arc::new(Reused::new(postgres::Server::new(postgres)?, region))
        }
        Service::Amqp(amqp) => Arc::new(Reused::new(amqp::Server::new(amqp)?, region)),
        Service::Kafka(kafka) => Arc::new(Reused::new(kafka::Server::new(kafka)?, region)),
    })
}
