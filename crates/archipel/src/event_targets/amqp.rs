//! Targets of AMQP 0.9.1: an exchange of RabbitMQ, for example.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_compat::Compat;
use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::runtime::default_runtime;
use lapin::tcp::AsyncTcpStream;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{BasicProperties, Channel, Confirmation, ConnectionProperties};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::net::{TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

use super::message::Message;
use super::server::{self, why};
use super::stream;
use crate::config;

/// The user of a broker that has no other. Such a broker lets it connect from its own machine
/// alone.
const GUEST: &str = "guest";
/// The delivery mode of a message that survives a restart of the broker, in a durable queue.
const PERSISTENT: u8 = 2;
/// The largest frame, in bytes, unless the broker wants smaller ones: RabbitMQ's own limit. The
/// library makes room for 32 frames in each direction, and would take any size that a broker names.
const MOST_FRAME_BYTES: u32 = 128 << 10;

/// A broker.
pub struct Server {
    settings: config::Amqp,
    tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// Returns the broker that the settings describe.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(settings: &config::Amqp) -> Result<Server, String> {
        Ok(Server {
            tls: settings.tls.as_ref().map(stream::tls).transpose()?,
            settings: settings.clone(),
        })
    }

    fn uri(&self) -> AMQPUri {
        let login = self.settings.login.as_ref();
        let user = login.map_or(GUEST, |login| login.user.as_str());
        let password = login.map_or(GUEST, |login| login.password.expose());
        AMQPUri {
            // The library gets a connection that is made already, so it needs no TLS of its own.
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: user.to_owned(),
                    password: password.to_owned(),
                },
                host: self.settings.server.name.clone(),
                port: self.settings.server.port,
            },
            vhost: self.settings.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(MOST_FRAME_BYTES),
                ..Default::default()
            },
        }
    }
}

/// A connection, its channels, and the task that carries its bytes.
pub struct Connection {
    /// Those on which no message is under way. Each carries one at a time, because the library
    /// takes a message that comes back for the one that is confirmed next. There are as many as
    /// messages were under way at once.
    idle: Mutex<Vec<Channel>>,
    connection: lapin::Connection,
    received: stream::Received,
    _carrier: AbortOnDropHandle<()>,
}

#[async_trait]
impl server::Server for Server {
    type Connection = Connection;

    async fn connect(&self) -> Result<Connection, String> {
        let (mut stream, received) = stream::open(&self.settings.server, self.tls.as_ref()).await?;
        // The library has a thread for each connection, which ends only with the connection. This
        // task ends it when the delivery is given up. It also begins TLS, for which the library
        // would need a second crypto provider.
        let (inner, mut outer) = pair().map_err(|error| error.to_string())?;
        let carrier = AbortOnDropHandle::new(tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut outer).await;
        }));
        let ready = Mutex::new(Some(Compat::new(inner)));
        let take = async move |_, _| {
            let stream = ready.lock().take();
            let stream = stream.map(AsyncTcpStream::Plain);
            stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected).into())
        };
        let runtime = default_runtime().map_err(|error| why(&error))?;
        let options = ConnectionProperties::default().with_connection_name("archipel".into());
        let made = lapin::Connection::connector(self.uri(), runtime, take, options).await;
        let connection = made.map_err(|error| why(&error))?;
        let first = open_channel(&connection).await?;
        Ok(Connection {
            idle: Mutex::new(vec![first]),
            connection,
            received,
            _carrier: carrier,
        })
    }

    async fn send(&self, connection: &Connection, message: &Message) -> Result<(), String> {
        let config::Amqp {
            exchange,
            routing_key,
            ..
        } = &self.settings;
        // A message that no queue takes would be lost, so the broker must tell.
        let options = BasicPublishOptions {
            mandatory: true,
            ..Default::default()
        };
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT)
            .with_timestamp(message.time_ms / 1000);
        let (exchange, routing_key) = (exchange.as_str().into(), routing_key.as_str().into());
        let body = message.text.as_bytes();
        let idle = connection.idle.lock().pop();
        let channel = match idle {
            Some(channel) => channel,
            None => open_channel(&connection.connection).await?,
        };
        let publish = channel.basic_publish(exchange, routing_key, options, body, properties);
        let published = publish.await.map_err(|error| why(&error))?;
        let confirmed = published.await.map_err(|error| why(&error))?;
        // Not before: the confirmation of a message that was given up may still come.
        connection.idle.lock().push(channel);
        match confirmed {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(returned)) => Err(format!(
                "no queue takes messages of exchange {:?} with routing key {:?}: {}",
                self.settings.exchange, self.settings.routing_key, returned.reply_text
            )),
            Confirmation::Nack(_) => Err("the broker could not store the message".into()),
            Confirmation::NotRequested => Err("the broker confirms no messages".into()),
        }
    }

    fn is_spent(&self, connection: &Connection) -> bool {
        connection.received.is_much()
    }
}

/// Makes a channel on which the broker confirms messages.
async fn open_channel(connection: &lapin::Connection) -> Result<Channel, String> {
    let channel = connection.create_channel().await;
    let channel = channel.map_err(|error| why(&error))?;
    let options = ConfirmSelectOptions::default();
    let confirms = channel.confirm_select(options).await;
    confirms.map_err(|error| why(&error))?;
    Ok(channel)
}

/// Returns two ends of a connection within this process. The library takes nothing but a
/// `TcpStream`.
fn pair() -> io::Result<(TcpStream, UnixStream)> {
    let (inner, outer) = UnixStream::pair()?;
    let inner = OwnedFd::from(inner.into_std()?);
    Ok((TcpStream::from_std(inner.into())?, outer))
}
