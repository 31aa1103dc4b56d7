//! `encrypted`: what encryption at rest costs. PUT and GET without it, with keys of the cluster
//! (SSE-S3) and with a key of the client (SSE-C), in turns.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use md5::{Digest as _, Md5};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::puts::Serial;
use super::{Began, Common, first_serial};
use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::results::{Row, Times};
use crate::s3::{Ask, What, ask};

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The bytes of an object
    #[arg(long, default_value_t = 4_718_592)]
    size: usize,
    /// Clients, spread over all endpoints
    #[arg(long, default_value_t = 8)]
    clients: u64,
    /// The objects of each client
    #[arg(long, default_value_t = 8)]
    objects: u64,
    /// The seconds of each turn
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// The turns of each way
    #[arg(long, default_value_t = 3)]
    turns: u32,
}

/// One kind of request, with what was measured.
struct Kind {
    method: Method,
    /// The name of the protection.
    way: &'static str,
    headers: Vec<(&'static str, String)>,
    times: Times,
    elapsed: Duration,
}

const PLAIN: &str = "plain";

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let endpoints = args.common.endpoints()?;
    let serial = Serial::from(first_serial());
    let mut kinds = kinds()?;
    for _ in 0..args.turns {
        for kind in &mut kinds {
            let began = Instant::now();
            kind.times
                .merge(turn(args, &endpoints, &serial, kind).await?)?;
            kind.elapsed += began.elapsed();
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for kind in &kinds {
        let name = format!("{}, {}", kind.method, kind.way);
        let row = kind.times.row_over(&name, kind.elapsed);
        let rate = row.per_s.unwrap_or_default();
        rows.push(row);
        if kind.way == PLAIN {
            continue;
        }
        let plain = format!("{}, {PLAIN}", kind.method);
        let plain = rows.iter().find(|row| row.name == plain);
        let plain = plain
            .and_then(|row| row.per_s)
            .ok_or("no rate of plain requests")?;
        let ratio = format!("{name} / {PLAIN}: {:.2}", rate / plain);
        eprintln!("encrypted: {ratio}");
        rows.push(Row {
            name: ratio,
            ..Row::default()
        });
    }
    let options = format!(
        "{} bytes, {} clients, {} turns of {} s",
        args.size, args.clients, args.turns, args.seconds
    );
    let common = &args.common;
    common.finish("encrypted", options, began, rows, Vec::new())
}

/// Returns the kinds in the order of a turn: a PUT, then the GET that reads what it stored.
fn kinds() -> Outcome<Vec<Kind>> {
    let key = [7_u8; 32];
    let customer = vec![
        (
            "x-amz-server-side-encryption-customer-algorithm",
            "AES256".to_owned(),
        ),
        (
            "x-amz-server-side-encryption-customer-key",
            STANDARD.encode(key),
        ),
        (
            "x-amz-server-side-encryption-customer-key-md5",
            STANDARD.encode(Md5::digest(key)),
        ),
    ];
    let cluster = vec![("x-amz-server-side-encryption", "AES256".to_owned())];
    let ways = [
        (PLAIN, Vec::new(), Vec::new()),
        ("SSE-S3", cluster, Vec::new()),
        ("SSE-C", customer.clone(), customer),
    ];
    let mut kinds = Vec::new();
    for (way, put, get) in ways {
        for (method, headers) in [(Method::PUT, put), (Method::GET, get)] {
            kinds.push(Kind {
                method,
                way,
                headers,
                times: Times::new()?,
                elapsed: Duration::ZERO,
            });
        }
    }
    Ok(kinds)
}

/// Sends requests of a kind by all clients for a turn's time.
async fn turn(
    args: &Args,
    endpoints: &[Endpoint],
    serial: &Arc<Serial>,
    kind: &Kind,
) -> Outcome<Times> {
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        let endpoint = endpoints.get(number as usize % endpoints.len());
        let client = OneClient {
            client: Client::connect(endpoint.ok_or("no endpoint")?).await?,
            keys: format!("encrypted/{}/{number}", kind.way),
            objects: args.objects,
            size: args.size,
            serial: serial.clone(),
        };
        clients.spawn(client.run(kind.method.clone(), kind.headers.clone(), end));
    }
    let mut all = Times::new()?;
    while let Some(times) = clients.join_next().await {
        all.merge(times??)?;
    }
    Ok(all)
}

/// A client with objects of its own.
struct OneClient {
    client: Client,
    keys: String,
    objects: u64,
    size: usize,
    serial: Arc<Serial>,
}

impl OneClient {
    /// Sends one request after the other until the end. All objects are stored at least once.
    async fn run(
        mut self,
        method: Method,
        headers: Vec<(&'static str, String)>,
        end: Instant,
    ) -> Outcome<Times> {
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let (filler, mut times, mut sent) = (Filler::new(), Times::new()?, 0);
        let stores = method == Method::PUT;
        while Instant::now() < end || stores && sent < self.objects {
            let key = format!("{}/{}", self.keys, sent % self.objects);
            let request = if stores {
                Ask::put(&key, filler.body(self.size, self.serial.next()))
            } else {
                Ask::new(method.clone(), What::Object(&key))
            };
            let request = Ask {
                headers: &headers,
                ..request
            };
            let began = Instant::now();
            let answer = ask(&mut self.client, request).await;
            let answer = answer.and_then(|answer| answer.good());
            times.add(&answer, began.elapsed());
            times.bytes += answer.map_or(0, |_| self.size as u64);
            sent += 1;
        }
        Ok(times)
    }
}
