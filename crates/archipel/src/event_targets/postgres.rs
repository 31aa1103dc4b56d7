//! Targets in PostgreSQL: a row for each event.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use archipel_api::times::iso_time;
use async_trait::async_trait;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, TlsConnect};
use tokio_postgres::{Client, Config, NoTls, Statement};
use tokio_util::task::AbortOnDropHandle;

use super::message::Message;
use super::server::{self, why};
use super::stream::{self, Bounded, Received};
use crate::config::{self, Host};

/// The task that drives a connection.
type Driver = AbortOnDropHandle<()>;

/// A PostgreSQL server.
pub struct Server {
    settings: config::Postgres,
    tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// Returns the server that the settings describe.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(settings: &config::Postgres) -> Result<Server, String> {
        Ok(Server {
            tls: settings.tls.as_ref().map(stream::tls).transpose()?,
            settings: settings.clone(),
        })
    }

    async fn client(&self) -> Result<(Client, Driver, Received), String> {
        let settings = &self.settings;
        let mut config = Config::new();
        config
            .user(&settings.user)
            .dbname(&settings.database)
            .application_name("archipel");
        if let Some(password) = &settings.password {
            config.password(password.expose());
        }
        let (stream, received) = stream::bounded(&settings.server).await?;
        match &self.tls {
            Some(tls) => {
                config.ssl_mode(SslMode::Require);
                let tls = Tls(settings.server.clone(), tls.clone());
                let made = config.connect_raw(stream, tls).await;
                let (client, driver) = made.map_err(|error| why(&error))?;
                Ok((client, driven(driver), received))
            }
            None => {
                config.ssl_mode(SslMode::Disable);
                let made = config.connect_raw(stream, NoTls).await;
                let (client, driver) = made.map_err(|error| why(&error))?;
                Ok((client, driven(driver), received))
            }
        }
    }

    /// Prepares the command that stores an event. Makes the table if it is missing.
    async fn prepare(&self, client: &Client) -> Result<Statement, String> {
        let table = &self.settings.table;
        // Texts, so that the server reads time and document; a document that it cannot store is
        // refused.
        let insert = format!(
            "INSERT INTO {table} (event_time, event_data) VALUES ($1::text::timestamptz, $2::text::jsonb)"
        );
        let missing = match client.prepare(&insert).await {
            Ok(statement) => return Ok(statement),
            Err(error) => error,
        };
        if missing.code() != Some(&SqlState::UNDEFINED_TABLE) {
            return Err(why(&missing));
        }
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} (event_time timestamptz NOT NULL, event_data jsonb NOT NULL)"
        );
        // It fails if another node makes the table at the same time. Then the next command
        // succeeds.
        let created = client.batch_execute(&create).await;
        let prepared = client.prepare(&insert).await;
        prepared.map_err(|error| match created {
            Ok(()) => why(&error),
            Err(error) => format!("the table is missing and cannot be made: {}", why(&error)),
        })
    }
}

/// Runs a connection for as long as the client holds the task.
fn driven<E>(driver: impl Future<Output = Result<(), E>> + Send + 'static) -> Driver {
    // The client gets its errors, too.
    AbortOnDropHandle::new(tokio::spawn(async move {
        let _ = driver.await;
    }))
}

/// A connection, and the task that drives it.
pub struct Connection {
    client: Client,
    insert: Statement,
    received: Received,
    _driver: Driver,
}

#[async_trait]
impl server::Server for Server {
    type Connection = Connection;

    async fn connect(&self) -> Result<Connection, String> {
        let (client, driver, received) = self.client().await?;
        Ok(Connection {
            insert: self.prepare(&client).await?,
            client,
            received,
            _driver: driver,
        })
    }

    async fn send(&self, connection: &Connection, message: &Message) -> Result<(), String> {
        let time = iso_time(message.time_ms);
        // A command outside a transaction is one of its own: it is committed when it returns.
        let stored = connection
            .client
            .execute(&connection.insert, &[&time, &message.text])
            .await;
        stored.map(|_| ()).map_err(|error| why(&error))
    }

    fn is_spent(&self, connection: &Connection) -> bool {
        connection.received.is_much()
    }
}

/// Begins TLS once the server has agreed to it.
struct Tls(Host, Arc<ClientConfig>);

impl TlsConnect<Bounded<TcpStream>> for Tls {
    type Stream = TlsStream;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<TlsStream>> + Send>>;

    fn connect(self, stream: Bounded<TcpStream>) -> Self::Future {
        Box::pin(async move {
            let secured = stream::secure(stream, &self.0, self.1).await;
            secured.map(TlsStream).map_err(std::io::Error::other)
        })
    }
}

/// A connection with TLS.
struct TlsStream(tokio_rustls::client::TlsStream<Bounded<TcpStream>>);

impl tokio_postgres::tls::TlsStream for TlsStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
