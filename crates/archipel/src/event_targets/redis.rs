//! Targets in Redis: a stream, a list or a channel.

use std::sync::Arc;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, cmd};
use rustls::ClientConfig;
use tokio_util::task::AbortOnDropHandle;

use super::message::Message;
use super::server::{self, TIMEOUT, why};
use super::stream;
use crate::config::{self, RedisKey};

/// A Redis server.
pub struct Server {
    settings: config::Redis,
    tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// Returns the server that the settings describe.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(settings: &config::Redis) -> Result<Server, String> {
        Ok(Server {
            tls: settings.tls.as_ref().map(stream::tls).transpose()?,
            settings: settings.clone(),
        })
    }
}

/// A connection, and the task that drives it.
pub struct Connection {
    commands: MultiplexedConnection,
    received: stream::Received,
    _driver: AbortOnDropHandle<()>,
}

#[async_trait]
impl server::Server for Server {
    type Connection = Connection;

    async fn connect(&self) -> Result<Connection, String> {
        let mut info = RedisConnectionInfo::default().set_db(self.settings.database.into());
        if let Some(user) = &self.settings.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.settings.password {
            info = info.set_password(password.expose());
        }
        let (stream, received) = stream::open(&self.settings.server, self.tls.as_ref()).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (commands, driver) = made.map_err(|error| why(&error))?;
        Ok(Connection {
            commands,
            received,
            _driver: AbortOnDropHandle::new(tokio::spawn(driver)),
        })
    }

    async fn send(&self, connection: &Connection, message: &Message) -> Result<(), String> {
        let command = command(&self.settings.to, message);
        let mut commands = connection.commands.clone();
        let answer = command.exec_async(&mut commands).await;
        answer.map_err(|error| why(&error))
    }

    fn is_spent(&self, connection: &Connection) -> bool {
        connection.received.is_much()
    }
}

fn command(to: &RedisKey, message: &Message) -> Cmd {
    let mut command = match to {
        RedisKey::Stream(name) => {
            let mut add = cmd("XADD");
            add.arg(name).arg("*").arg("event");
            add
        }
        RedisKey::List(name) => {
            let mut push = cmd("RPUSH");
            push.arg(name);
            push
        }
        RedisKey::Channel(name) => {
            let mut publish = cmd("PUBLISH");
            publish.arg(name);
            publish
        }
    };
    command.arg(&message.text);
    command
}
