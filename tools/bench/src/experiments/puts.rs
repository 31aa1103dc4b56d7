//! PUTs by many clients, until there are no more keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::results::Times;
use crate::s3::{Ask, ask};

/// The numbers of a run's keys and contents.
pub struct Serial(AtomicU64);

impl Serial {
    /// Returns numbers from this one on.
    pub fn from(first: u64) -> Arc<Serial> {
        Arc::new(Serial(AtomicU64::new(first)))
    }

    /// Returns the next number.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The way in which PUTs are sent.
#[derive(Clone, Copy)]
pub struct Puts {
    /// The bytes of an object.
    pub size: usize,
    /// The number of clients, spread over all endpoints.
    pub clients: u64,
}

impl Puts {
    /// Sends PUTs by all clients until `next` names no more keys. Refused requests are counted.
    pub async fn send(
        self,
        endpoints: &[Endpoint],
        serial: &Arc<Serial>,
        next: impl Fn(&Serial) -> Option<String> + Clone + Send + 'static,
    ) -> Outcome<Times> {
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let endpoint = endpoints.get(number as usize % endpoints.len());
            let endpoint = endpoint.ok_or("no endpoint")?.clone();
            let (serial, next) = (serial.clone(), next.clone());
            clients.spawn(async move {
                let (mut client, mut times) = (Client::connect(&endpoint).await?, Times::new()?);
                let filler = Filler::new();
                while let Some(key) = next(&serial) {
                    let body = filler.body(self.size, serial.next());
                    let began = Instant::now();
                    let answer = ask(&mut client, Ask::put(&key, body)).await;
                    let answer = answer.and_then(|answer| answer.good());
                    times.add(&answer, began.elapsed());
                }
                Outcome::Ok(times)
            });
        }
        let mut all = Times::new()?;
        while let Some(times) = clients.join_next().await {
            all.merge(times??)?;
        }
        Ok(all)
    }
}

/// Returns a function that names so many keys, each once.
pub fn keys(
    count: u64,
    name: impl Fn(u64) -> String + Clone + Send + 'static,
) -> impl Fn(&Serial) -> Option<String> + Clone + Send + 'static {
    let left = Arc::new(AtomicU64::new(count));
    move |_: &Serial| {
        let take = |left: u64| left.checked_sub(1);
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.ok().map(|left| name(count - left))
    }
}
