//! `mixed`: many clients that read, query, store and remove objects, by weights.
//!
//! Closed loop: each client sends its next request after its last answer. Open loop (`--rate`):
//! requests are due at fixed times, independent of the server. A time then counts from the moment
//! when its request was due, not when a client was free to send it, so that a pause of the server
//! stays visible.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Began, Common};
use crate::Outcome;
use crate::body::Filler;
use crate::http::Client;
use crate::results::{Row, Times};
use crate::s3::{Ask, What, ask};

#[cfg(test)]
mod tests;

/// The options.
#[derive(clap::Args, Clone)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Seconds
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Clients, spread over all endpoints
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// The bytes of an object, or a range (`1024-4194304`) in which small sizes are more frequent
    #[arg(long, default_value = "256")]
    size: String,
    /// The number of objects at the start
    #[arg(long, default_value_t = 500)]
    objects: u64,
    /// Weights of GET, HEAD, PUT, DELETE
    #[arg(long, value_delimiter = ',', default_value = "45,30,15,10")]
    weights: Vec<u64>,
    /// Open loop: total requests a second
    #[arg(long)]
    rate: Option<f64>,
}

const NAMES: [&str; 4] = ["GetObject", "HeadObject", "PutObject", "RemoveObject"];
const PUT: usize = 2;
const DELETE: usize = 3;

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let plan = Arc::new(Plan::new(args)?);
    fill(args, &plan).await?;
    eprintln!("mixed: {} objects exist", args.objects);
    let start = Instant::now();
    let end = start + Duration::from_secs(args.seconds);
    let mut clients = JoinSet::new();
    for worker in workers(args, &plan).await? {
        clients.spawn(worker.run(start, end));
    }
    let mut kinds = NAMES
        .iter()
        .map(|_| Times::new())
        .collect::<Outcome<Vec<_>>>()?;
    while let Some(done) = clients.join_next().await {
        for (all, one) in kinds.iter_mut().zip(done??) {
            all.merge(one)?;
        }
    }
    let rows = rows(kinds, start.elapsed())?;
    let loops = args
        .rate
        .map_or("closed loop".into(), |rate| format!("open loop, {rate}/s"));
    let options = format!(
        "{} s, {} clients, {} bytes, GET/HEAD/PUT/DELETE {:?}, {loops}",
        args.seconds, args.clients, args.size, args.weights
    );
    args.common
        .finish("mixed", options, began, rows, Vec::new())
}

fn rows(kinds: Vec<Times>, elapsed: Duration) -> Outcome<Vec<Row>> {
    let used = NAMES
        .iter()
        .zip(&kinds)
        .filter(|(_, times)| times.count() + times.errors() > 0);
    let mut rows: Vec<Row> = used
        .map(|(name, times)| times.row_over(name, elapsed))
        .collect();
    let mut all = Times::new()?;
    for times in kinds {
        all.merge(times)?;
    }
    rows.push(all.row_over("all", elapsed));
    Ok(rows)
}

/// The state that the clients share.
struct Plan {
    run: u64,
    sizes: (usize, usize),
    weights: Vec<u64>,
    interval: Option<Duration>,
    turn: AtomicU64,
    serial: AtomicU64,
    objects: Mutex<VecDeque<u64>>,
}

impl Plan {
    fn new(args: &Args) -> Outcome<Self> {
        let (least, most) = args
            .size
            .split_once('-')
            .unwrap_or((&args.size, &args.size));
        if args.weights.len() != NAMES.len() || args.weights.iter().sum::<u64>() == 0 {
            return Err("weights need four numbers: GET,HEAD,PUT,DELETE".into());
        }
        Ok(Self {
            run: super::first_serial(),
            sizes: (least.parse()?, most.parse()?),
            weights: args.weights.clone(),
            interval: args.rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            turn: AtomicU64::new(0),
            serial: AtomicU64::new(0),
            objects: Mutex::new(VecDeque::new()),
        })
    }

    fn key(&self, number: u64) -> String {
        format!("mixed/{}/{number:09}", self.run)
    }

    /// Returns the time at which the next request of an open loop is due.
    fn next_due(&self, start: Instant) -> Option<Instant> {
        let interval = self.interval?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Some(start + interval.mul_f64(turn as f64))
    }

    /// Returns the size of an object by its number, drawn evenly among orders of magnitude.
    fn size(&self, number: u64) -> usize {
        let (least, most) = self.sizes;
        let share = netlab::link::mix(number) as f64 / u64::MAX as f64;
        let ratio = most as f64 / least.max(1) as f64;
        ((least as f64 * ratio.powf(share)) as usize).clamp(least.min(most), most)
    }
}

async fn fill(args: &Args, plan: &Arc<Plan>) -> Outcome<()> {
    let mut clients = JoinSet::new();
    for mut worker in workers(args, plan).await? {
        let (plan, most) = (plan.clone(), args.objects);
        clients.spawn(async move {
            while (plan.objects.lock().len() as u64) < most {
                worker.put().await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
}

async fn workers(args: &Args, plan: &Arc<Plan>) -> Outcome<Vec<Worker>> {
    let endpoints = args.common.endpoints()?;
    let filler = Filler::new();
    let mut workers = Vec::new();
    for number in 0..args.clients {
        let endpoint = endpoints
            .get(number % endpoints.len())
            .ok_or("no endpoint")?;
        workers.push(Worker {
            client: Client::connect(endpoint).await?,
            filler: filler.clone(),
            plan: plan.clone(),
            draws: netlab::link::mix(number as u64),
        });
    }
    Ok(workers)
}

struct Worker {
    client: Client,
    filler: Filler,
    plan: Arc<Plan>,
    draws: u64,
}

impl Worker {
    async fn run(mut self, start: Instant, end: Instant) -> Outcome<Vec<Times>> {
        let mut kinds = NAMES
            .iter()
            .map(|_| Times::new())
            .collect::<Outcome<Vec<_>>>()?;
        loop {
            let due = self.plan.next_due(start).unwrap_or_else(Instant::now);
            if due >= end {
                return Ok(kinds);
            }
            sleep_until(due).await;
            let kind = self.kind();
            let answer = self.request(kind).await;
            let Some(times) = kinds.get_mut(kind) else {
                continue;
            };
            times.add(&answer, due.elapsed());
            times.bytes += *answer.as_ref().unwrap_or(&0);
            if answer.is_err() {
                self.client.reopen().await?;
            }
        }
    }

    /// Sends one request. Returns the bytes of content that it moved.
    async fn request(&mut self, kind: usize) -> Outcome<u64> {
        match kind {
            PUT => self.put().await,
            DELETE => match self.take() {
                Some(number) => self.about(number, Method::DELETE).await,
                None => self.put().await,
            },
            _ => {
                let number = self
                    .some()
                    .ok_or("no object is left; fix: fewer DELETEs, or more objects")?;
                let method = if kind == 0 { Method::GET } else { Method::HEAD };
                self.about(number, method).await
            }
        }
    }

    async fn put(&mut self) -> Outcome<u64> {
        let number = self.plan.serial.fetch_add(1, Ordering::Relaxed);
        let (key, size) = (self.plan.key(number), self.plan.size(number));
        let body = self.filler.body(size, self.plan.run + number);
        ask(&mut self.client, Ask::put(&key, body)).await?.good()?;
        self.plan.objects.lock().push_back(number);
        Ok(size as u64)
    }

    async fn about(&mut self, number: u64, method: Method) -> Outcome<u64> {
        let key = self.plan.key(number);
        let answer = ask(&mut self.client, Ask::new(method, What::Object(&key))).await?;
        // Another client may have removed it in the meantime.
        if answer.status == 404 {
            return Ok(0);
        }
        Ok(answer.good()?.bytes)
    }

    fn some(&mut self) -> Option<u64> {
        let draw = self.draw();
        let objects = self.plan.objects.lock();
        objects
            .get(usize::try_from(draw % (objects.len() as u64).max(1)).ok()?)
            .copied()
    }

    fn take(&self) -> Option<u64> {
        self.plan.objects.lock().pop_front()
    }

    fn kind(&mut self) -> usize {
        let sum: u64 = self.plan.weights.iter().sum();
        let mut left = self.draw() % sum;
        let weights = self.plan.weights.iter();
        let mut kinds = weights.enumerate().filter_map(|(kind, weight)| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found.then_some(kind)
        });
        kinds.next().unwrap_or(0)
    }

    fn draw(&mut self) -> u64 {
        self.draws = netlab::link::mix(self.draws);
        self.draws
    }
}
