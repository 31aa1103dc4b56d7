//! Targets of NATS: a subject, with or without a stream of JetStream.

use std::sync::Arc;

use async_nats::jetstream;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use async_trait::async_trait;
use futures_util::StreamExt;
use parking_lot::Mutex;
use rustls::ClientConfig;

use super::message::Message;
use super::server::{self, TIMEOUT, why};
use super::stream;
use crate::config;

/// A NATS server, or a cluster of them.
pub struct Server {
    settings: config::Nats,
    addresses: Vec<ServerAddr>,
    tls: ClientConfig,
}

impl Server {
    /// Returns the server that the settings describe.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(settings: &config::Nats) -> Result<Server, String> {
        let scheme = if settings.tls { "tls" } else { "nats" };
        let addresses = settings.servers.iter().map(|host| {
            let address = format!("{scheme}://{host}").parse::<ServerAddr>();
            address.map_err(|error| format!("{host}: {error}"))
        });
        Ok(Server {
            addresses: addresses.collect::<Result<_, _>>()?,
            tls: (*stream::tls(&settings.trust)?).clone(),
            settings: settings.clone(),
        })
    }
}

/// A connection.
pub struct Connection {
    client: Client,
    /// The last complaint of the server.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Connection {
    /// Returns an error if this is not the connection that was made at first, or if the server
    /// refused a message.
    fn check(&self) -> Result<(), String> {
        if let Some(complaint) = self.complaint.lock().as_ref() {
            return Err(complaint.clone());
        }
        let connects = &self.client.statistics().connects;
        match connects.load(std::sync::atomic::Ordering::Relaxed) {
            1 => Ok(()),
            _ => Err("the connection ended".into()),
        }
    }

    /// Publishes a message. Returns once the server has read it.
    ///
    /// The server does not confirm messages. But it reads them in order, so the message is there
    /// once another one, to an inbox of this client, came back.
    async fn publish(&self, subject: String, text: String) -> Result<(), String> {
        let inbox = self.client.new_inbox();
        let subscribed = self.client.subscribe(inbox.clone()).await;
        let mut echoes = subscribed.map_err(|error| why(&error))?;
        let sent = self.client.publish(subject, text.into()).await;
        sent.map_err(|error| why(&error))?;
        // If the server refuses the message, it says so before the first echo. But another task of
        // the library tells it, which may come later than the echo. A second one gives it time for
        // a whole round trip. The library promises nothing here: JetStream is for those who need an
        // acknowledgement.
        for _ in 0..2 {
            let sent = self.client.publish(inbox.clone(), "".into()).await;
            sent.map_err(|error| why(&error))?;
            let echo = echoes.next().await;
            self.check()?;
            echo.ok_or("the connection ended")?;
        }
        Ok(())
    }
}

#[async_trait]
impl server::Server for Server {
    type Connection = Connection;

    async fn connect(&self) -> Result<Connection, String> {
        let complaint = Arc::new(Mutex::new(None));
        let noted = complaint.clone();
        let servers = self.addresses.len();
        let parts = u32::try_from(servers).unwrap_or(u32::MAX).saturating_add(1);
        let mut options = ConnectOptions::new()
            .name("archipel")
            // One that does not answer leaves time for the others, and for the message.
            .connection_timeout(TIMEOUT / parts)
            .request_timeout(Some(TIMEOUT))
            .require_tls(self.settings.tls)
            .tls_client_config(self.tls.clone())
            // The servers that are tried for the first connection count, too. A later connection is
            // refused by `check`: the next delivery makes a new one, so that no message is lost
            // between two.
            .max_reconnects(servers)
            .event_callback(move |event| {
                let text = match event {
                    Event::ServerError(error) => Some(error.to_string()),
                    Event::ClientError(error) => Some(error.to_string()),
                    Event::Disconnected | Event::Closed => Some("the connection ended".into()),
                    _ => None,
                };
                if let Some(text) = text {
                    noted.lock().get_or_insert(text);
                }
                std::future::ready(())
            });
        if let Some(token) = &self.settings.token {
            options = options.token(token.expose().to_owned());
        }
        if let Some(login) = &self.settings.login {
            let password = login.password.expose().to_owned();
            options = options.user_and_password(login.user.clone(), password);
        }
        let made = options.connect(self.addresses.as_slice()).await;
        Ok(Connection {
            client: made.map_err(|error| why(&error))?,
            complaint,
        })
    }

    async fn send(&self, connection: &Connection, message: &Message) -> Result<(), String> {
        connection.check()?;
        let (subject, text) = (self.settings.subject.clone(), message.text.clone());
        if !self.settings.jetstream {
            return connection.publish(subject, text).await;
        }
        let stream = jetstream::new(connection.client.clone());
        let sent = stream.publish(subject, text.into()).await;
        let acknowledged = sent.map_err(|error| why(&error))?.await;
        acknowledged.map(|_| ()).map_err(|error| why(&error))
    }
}
