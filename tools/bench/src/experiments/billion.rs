//! `billion`: batches of tiny objects, each stored by many clients at once. The time of each batch
//! shows whether a store slows down as the number of objects grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Began, Common};
use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::results::{Row, Series, Times};
use crate::s3::{Ask, ask};

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The number of batches
    #[arg(long, default_value_t = 128)]
    batches: u64,
    /// Objects in a batch
    #[arg(long, default_value_t = 8192)]
    batch: u64,
    /// The bytes of an object
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Concurrent requests, spread over all endpoints
    #[arg(long, default_value_t = 128)]
    clients: usize,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let store = Store::open(&args.common.endpoints()?, args.clients, args.size).await?;
    let mut all = Times::new()?;
    let mut seconds = Vec::new();
    let mut clients = store.clients;
    let started = Instant::now();
    for number in 0..args.batches {
        let batch = Instant::now();
        let keys = store.keys.clone();
        keys.restart(number, args.batch);
        clients = run_batch(clients, &keys, &mut all).await?;
        seconds.push(batch.elapsed().as_secs_f64());
        let rate = args.batch as f64 / batch.elapsed().as_secs_f64();
        eprintln!(
            "billion: batch {} of {}: {rate:.0} objects/s",
            number + 1,
            args.batches
        );
    }
    let mut rows = vec![all.row_over("PutObject", started.elapsed())];
    rows.extend(shape(&seconds));
    let points = seconds
        .iter()
        .enumerate()
        .map(|(n, s)| ((n + 1) as f64 * args.batch as f64, *s));
    let series = Series {
        name: "time of a batch".into(),
        axes: ["objects".into(), "seconds".into()],
        points: points.collect(),
    };
    let options = format!(
        "{} batches of {} objects of {} bytes, {} clients",
        args.batches, args.batch, args.size, args.clients
    );
    args.common
        .finish("billion", options, began, rows, vec![series])
}

/// Returns rows of the batches that show growth or variation of the time.
fn shape(seconds: &[f64]) -> Vec<Row> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let parts = [
        ("tenth batch", seconds.get(9)),
        ("last batch", seconds.last()),
        ("median batch", sorted.get(sorted.len() / 2)),
        ("slowest batch", sorted.last()),
    ];
    let row = |(name, seconds): (&str, Option<&f64>)| {
        let ms = *seconds? * 1e3;
        Some(Row {
            name: name.into(),
            count: 1,
            mean_ms: ms,
            p50_ms: ms,
            p99_ms: ms,
            max_ms: ms,
            ..Row::default()
        })
    };
    parts.into_iter().filter_map(row).collect()
}

/// The keys of a batch that are not stored yet.
pub struct Keys {
    run: u64,
    batch: AtomicU64,
    next: AtomicU64,
    end: AtomicU64,
}

impl Keys {
    fn restart(&self, batch: u64, size: u64) {
        self.batch.store(batch, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.end.store(size, Ordering::Relaxed);
    }

    fn next(&self) -> Option<(String, u64)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (batch, size) = (
            self.batch.load(Ordering::Relaxed),
            self.end.load(Ordering::Relaxed),
        );
        let serial = self.run + batch * size + number;
        (number < size).then(|| {
            (
                format!("billion/{}/{batch:06}/{number:06}", self.run),
                serial,
            )
        })
    }
}

struct Store {
    clients: Vec<Storer>,
    keys: Arc<Keys>,
}

struct Storer {
    client: Client,
    filler: Filler,
    size: usize,
}

impl Store {
    async fn open(endpoints: &[Endpoint], clients: usize, size: usize) -> Outcome<Self> {
        let filler = Filler::new();
        let mut storers = Vec::new();
        for number in 0..clients {
            let endpoint = endpoints
                .get(number % endpoints.len())
                .ok_or("no endpoint")?;
            storers.push(Storer {
                client: Client::connect(endpoint).await?,
                filler: filler.clone(),
                size,
            });
        }
        let keys = Keys {
            run: super::first_serial(),
            batch: AtomicU64::new(0),
            next: AtomicU64::new(0),
            end: AtomicU64::new(0),
        };
        Ok(Self {
            clients: storers,
            keys: Arc::new(keys),
        })
    }
}

async fn run_batch(
    clients: Vec<Storer>,
    keys: &Arc<Keys>,
    all: &mut Times,
) -> Outcome<Vec<Storer>> {
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn(client.run(keys.clone()));
    }
    let mut clients = Vec::new();
    while let Some(done) = running.join_next().await {
        let (client, times) = done??;
        all.merge(times)?;
        clients.push(client);
    }
    Ok(clients)
}

impl Storer {
    async fn run(mut self, keys: Arc<Keys>) -> Outcome<(Self, Times)> {
        let mut times = Times::new()?;
        while let Some((key, serial)) = keys.next() {
            let began = Instant::now();
            let put = Ask::put(&key, self.filler.body(self.size, serial));
            let answer = ask(&mut self.client, put)
                .await
                .and_then(|answer| answer.good());
            times.add(&answer, began.elapsed());
            times.bytes += self.size as u64;
            if times.errors() > 100 {
                return Err("more than 100 errors of one client".into());
            }
            if answer.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.client.reopen().await?;
            }
        }
        Ok((self, times))
    }
}
