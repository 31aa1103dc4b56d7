//! Targets that keep a connection: all that their kinds have in common.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use archipel_model::{DeliverEvent, Event};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::message::Message;

/// The time for one delivery, with the connection that it needs. A server that does not answer
/// holds up deliveries no longer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A server that takes messages over a connection.
#[async_trait]
pub trait Server: Send + Sync + 'static {
    /// A connection. Dropping it ends it at once, also if the server does not answer.
    type Connection: Send + Sync + 'static;

    /// Makes a connection.
    ///
    /// # Errors
    /// A text for operators.
    async fn connect(&self) -> Result<Self::Connection, String>;

    /// Sends a message. Returns once the server has confirmed it.
    ///
    /// # Errors
    /// A text for operators. The connection is not used any more.
    async fn send(&self, connection: &Self::Connection, message: &Message) -> Result<(), String>;

    /// Returns true if another connection shall take the place of this one.
    fn is_spent(&self, _: &Self::Connection) -> bool {
        false
    }
}

/// A server, and the connection that deliveries share. It is made when it is needed, and made again
/// after an error.
pub struct Reused<S: Server> {
    server: S,
    region: String,
    current: Mutex<Option<Arc<S::Connection>>>,
    /// Held by the delivery that connects. The others wait for its connection.
    connecting: tokio::sync::Mutex<()>,
}

impl<S: Server> Reused<S> {
    /// Returns a target without a connection. Its messages name this region.
    pub fn new(server: S, region: &str) -> Reused<S> {
        Reused {
            server,
            region: region.to_owned(),
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
        }
    }

    async fn bring(&self, message: &Message) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let connected = timeout_at(deadline, self.connection()).await;
            let connected = connected.map_err(|_| "it cannot be reached in time".to_owned());
            let (connection, is_new) = connected.flatten()?;
            let sent = timeout_at(deadline, self.server.send(&connection, message)).await;
            match sent {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(why)) => {
                    self.forget(&connection);
                    // The server may have closed a connection that nobody used for a while.
                    if is_new {
                        return Err(why);
                    }
                }
                Err(_) => {
                    self.forget(&connection);
                    return Err("it did not confirm the event in time".into());
                }
            }
        }
    }

    /// Returns the connection, and whether it was made just now.
    async fn connection(&self) -> Result<(Arc<S::Connection>, bool), String> {
        let known = || {
            let current = self.current.lock().clone();
            current.filter(|connection| !self.server.is_spent(connection))
        };
        if let Some(connection) = known() {
            return Ok((connection, false));
        }
        let _connecting = self.connecting.lock().await;
        // Another delivery may have made it meanwhile.
        if let Some(connection) = known() {
            return Ok((connection, false));
        }
        let made = Arc::new(self.server.connect().await?);
        *self.current.lock() = Some(made.clone());
        Ok((made, true))
    }

    /// Makes the next delivery connect again, unless another one did already.
    fn forget(&self, connection: &Arc<S::Connection>) {
        let mut current = self.current.lock();
        if current
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, connection))
        {
            *current = None;
        }
    }
}

#[async_trait]
impl<S: Server> DeliverEvent for Reused<S> {
    async fn deliver(&self, event: &Event) -> Result<(), String> {
        self.bring(&Message::about(event, &self.region)).await
    }

    async fn test(&self, bucket: &str, request_id: &str, now_ms: u64) -> Result<(), String> {
        self.bring(&Message::test(bucket, request_id, now_ms)).await
    }
}

/// Returns an error with those of its causes that it does not tell itself.
pub fn why(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    // Some servers end their texts with a line break.
    text.trim_end().replace('\n', " ")
}

#[cfg(test)]
mod tests;
