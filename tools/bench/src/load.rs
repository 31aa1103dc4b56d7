//! Load by many clients for a fixed time: throughput and latencies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;

/// The kind of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stores objects. Each client overwrites its own keys in turn, with content that never
    /// repeats.
    Put,
    /// Reads the objects of an earlier `Put` load with the same name.
    Get,
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Put or get.
    pub kind: Kind,
    /// Bytes of each object.
    pub size: usize,
    /// Connections, each with one request at a time.
    pub clients: usize,
    /// The duration.
    pub time: Duration,
    /// The keys of each client, which limit the used space.
    pub keys: u64,
}

/// The result of a load.
pub struct Measured {
    /// Requests answered.
    pub requests: u64,
    /// Bytes of content, one way.
    pub bytes: u64,
    /// Wall time until the last answer.
    pub elapsed: Duration,
    /// Microseconds from sending to the end of the answer.
    pub latencies: Histogram<u64>,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Runs a load. A refused request is an error.
pub async fn run(endpoint: &Endpoint, load: &Load, filler: &Filler) -> Outcome<Measured> {
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..load.clients {
        let worker = Worker {
            client: Client::connect(endpoint).await?,
            load: load.clone(),
            filler: filler.clone(),
            number,
        };
        clients.spawn(worker.run(started + load.time));
    }
    let mut whole = Measured {
        requests: 0,
        bytes: 0,
        elapsed: Duration::ZERO,
        latencies: histogram()?,
    };
    while let Some(one) = clients.join_next().await {
        let one = one??;
        whole.requests += one.requests;
        whole.bytes += one.bytes;
        whole.latencies.add(&one.latencies)?;
    }
    whole.elapsed = started.elapsed();
    Ok(whole)
}

/// Removes the objects of a `Put` load.
pub async fn clean(endpoint: &Endpoint, load: &Load) -> Outcome<()> {
    let mut clients = JoinSet::new();
    for number in 0..load.clients {
        let (mut client, load) = (Client::connect(endpoint).await?, load.clone());
        clients.spawn(async move {
            for index in 0..load.keys {
                client.delete(&key(&load, number, index)).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(one) = clients.join_next().await {
        one??;
    }
    Ok(())
}

/// Stores every key that a `Get` load will read.
pub async fn fill(endpoint: &Endpoint, load: &Load, filler: &Filler) -> Outcome<()> {
    for number in 0..load.clients {
        let mut client = Client::connect(endpoint).await?;
        for index in 0..load.keys {
            client
                .put(
                    &key(load, number, index),
                    filler.body(load.size, next_serial()),
                )
                .await?;
        }
    }
    Ok(())
}

struct Worker {
    client: Client,
    load: Load,
    filler: Filler,
    number: usize,
}

impl Worker {
    async fn run(mut self, end: Instant) -> Outcome<Measured> {
        let mut measured = Measured {
            requests: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            latencies: histogram()?,
        };
        while Instant::now() < end {
            let key = key(&self.load, self.number, measured.requests % self.load.keys);
            let began = Instant::now();
            measured.bytes += match self.load.kind {
                Kind::Put => {
                    self.client
                        .put(&key, self.filler.body(self.load.size, next_serial()))
                        .await?
                }
                Kind::Get => self.client.get(&key).await?,
            };
            measured.requests += 1;
            measured
                .latencies
                .saturating_record(u64::try_from(began.elapsed().as_micros())?);
        }
        Ok(measured)
    }
}

fn key(load: &Load, client: usize, index: u64) -> String {
    format!("bench/{}/{client}/{index}", load.size)
}

fn next_serial() -> u64 {
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

fn histogram() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}
