//! `k2v`: small items. Open polls, single inserts beside batches, and requests one at a time.
//!
//! The endpoints are those of the K2V API. Partition keys and sort keys are of this run alone, so
//! that nothing is there before.

use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Began, Common, first_serial};
use crate::Outcome;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::k2v::{Ask, ask};
use crate::results::{Row, Times};

mod polls;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The items that are inserted one by one, and again by batches
    #[arg(long, default_value_t = 100_000)]
    items: u64,
    /// The bytes of a value
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// Clients that insert single items at once, spread over all endpoints
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// The items of a batch
    #[arg(long, default_value_t = 1000)]
    batch: u64,
    /// Clients that insert batches at once, spread over all endpoints
    #[arg(long, default_value_t = 4)]
    batch_clients: u64,
    /// The turns of single inserts and of batches
    #[arg(long, default_value_t = 2)]
    turns: u64,
    /// The polls that are open at once, all at the first endpoint. Their memory is shown if its
    /// process is known (--pid)
    #[arg(long, default_value_t = 10_000)]
    polls: u64,
    /// The polls of each connection: more than one go over HTTP/2
    #[arg(long, default_value_t = 1)]
    polls_per_connection: u64,
    /// The requests of each kind, one at a time
    #[arg(long, default_value_t = 30)]
    count: u32,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let endpoints = args.common.endpoints()?;
    let run = first_serial();
    // First: memory that the rest of the experiment leaves free would hide that of the polls.
    let mut rows = polls::open(args, &endpoints, run).await?;
    rows.extend(inserts(args, &endpoints, run).await?);
    rows.extend(one_at_a_time(args, &endpoints, run).await?);
    rows.extend(polls::wake(args, &endpoints, run).await?);
    let options = format!(
        "{} items of {} bytes, {} clients; batches of {}, {} clients; rates are items; {} polls, {} on a connection",
        args.items,
        args.size,
        args.clients,
        args.batch,
        args.batch_clients,
        args.polls,
        args.polls_per_connection
    );
    args.common.finish("k2v", options, began, rows, Vec::new())
}

/// Returns the name of an item: items of one batch are in several partitions.
fn name(run: u64, kind: &str, number: u64) -> (String, String) {
    (
        format!("{kind}-{run}-{}", number % 100),
        format!("{number:09}"),
    )
}

/// Returns a value that no other number has.
fn value(size: usize, number: u64) -> Bytes {
    let mut all = vec![0; size];
    blake3::Hasher::new()
        .update(&number.to_le_bytes())
        .finalize_xof()
        .fill(&mut all);
    all.into()
}

/// Returns the document of a batch that inserts these values, which have text form already.
fn batch(items: impl Iterator<Item = ((String, String), Option<String>, String)>) -> Bytes {
    let items =
        items.map(|((pk, sk), token, value)| json!({"pk": pk, "sk": sk, "ct": token, "v": value}));
    json!(items.collect::<Vec<_>>()).to_string().into()
}

/// Inserts items one by one and by batches, in turns. Returns the rates of items, and their ratio.
async fn inserts(args: &Args, endpoints: &[Endpoint], run: u64) -> Outcome<Vec<Row>> {
    let names = ["InsertItem", "InsertBatch"];
    let mut all = [Times::new()?, Times::new()?];
    let mut seconds = [0.0; 2];
    let each = args.items / args.turns.max(1);
    for turn in 0..args.turns {
        let numbers = turn * each..(turn + 1) * each;
        for (by_batch, (times, seconds)) in all.iter_mut().zip(&mut seconds).enumerate() {
            let began = Instant::now();
            times.merge(insert(args, endpoints, run, numbers.clone(), by_batch == 1).await?)?;
            *seconds += began.elapsed().as_secs_f64();
        }
    }
    let items = (each * args.turns) as f64;
    let rates = seconds.map(|seconds| items / seconds);
    let rows = names.into_iter().zip(all).zip(rates);
    let mut rows: Vec<Row> = rows
        .map(|((name, times), rate)| Row {
            per_s: Some(rate),
            ..times.row(name)
        })
        .collect();
    let ratio = rates[1] / rates[0];
    eprintln!("k2v: {ratio:.2} times the rate of single inserts");
    rows.push(Row {
        name: format!("ratio: {ratio:.2}"),
        ..Row::default()
    });
    Ok(rows)
}

/// Inserts the items with these numbers. Returns the times of the requests.
async fn insert(
    args: &Args,
    endpoints: &[Endpoint],
    run: u64,
    numbers: std::ops::Range<u64>,
    by_batch: bool,
) -> Outcome<Times> {
    let (clients, step) = match by_batch {
        false => (args.clients, 1),
        true => (args.batch_clients, args.batch),
    };
    let (size, stride) = (args.size, clients * step);
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let endpoint = endpoints.get(client as usize % endpoints.len());
        let endpoint = endpoint.ok_or("no endpoint")?.clone();
        let starts = (numbers.start + client * step..numbers.end).step_by(stride as usize);
        let end = numbers.end;
        tasks.spawn(async move {
            let (mut client, mut times) = (Client::connect(&endpoint).await?, Times::new()?);
            for start in starts {
                let (method, request) = match by_batch {
                    false => single_insertion(run, start, size),
                    true => batch_insertion(run, start..(start + step).min(end), size),
                };
                let began = Instant::now();
                let answer = ask(&mut client, method, &request).await;
                times.add(&answer, began.elapsed());
                answer?;
            }
            Outcome::Ok(times)
        });
    }
    let mut all = Times::new()?;
    while let Some(times) = tasks.join_next().await {
        all.merge(times??)?;
    }
    Ok(all)
}

/// Returns the request that inserts one item.
fn single_insertion(run: u64, number: u64, size: usize) -> (Method, Ask) {
    let (pk, sk) = name(run, "single", number);
    let request = Ask {
        body: value(size, number),
        ..Ask::item(&pk, &sk)
    };
    (Method::PUT, request)
}

/// Returns the request that inserts the items with these numbers at once.
fn batch_insertion(run: u64, numbers: std::ops::Range<u64>, size: usize) -> (Method, Ask) {
    let items = numbers.map(|number| {
        let text = base64(&value(size, number));
        (name(run, "batch", number), None, text)
    });
    (Method::POST, Ask::bucket("", batch(items)))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Sends requests of each kind at the first endpoint, one at a time.
async fn one_at_a_time(args: &Args, endpoints: &[Endpoint], run: u64) -> Outcome<Vec<Row>> {
    let mut client = Client::connect(endpoints.first().ok_or("no endpoint")?).await?;
    let kinds = [
        "ReadItem",
        "InsertItem, one",
        "DeleteItem",
        "InsertBatch of 100",
        "ReadBatch of 100",
    ];
    let mut all = Vec::new();
    for _ in kinds {
        all.push(Times::new()?);
    }
    for round in 0..u64::from(args.count) {
        let pk = format!("alone-{run}-{round}");
        let item = Ask {
            body: value(args.size, round),
            ..Ask::item(&pk, "s")
        };
        let read = Ask::item(&pk, "s");
        let numbers = 0..100;
        let many = numbers.map(|number| {
            let name = (format!("{pk}-{number}"), "s".to_owned());
            (name, None, base64(&value(args.size, number)))
        });
        let many = Ask::bucket("", batch(many));
        let searches = (0..100).map(|number| json!({"partitionKey": format!("{pk}-{number}")}));
        let searches = json!(searches.collect::<Vec<_>>()).to_string();
        let search = Ask::bucket("search=", searches);
        let order = [
            (1, Method::PUT, &item),
            (0, Method::GET, &read),
            (2, Method::DELETE, &read),
            (3, Method::POST, &many),
            (4, Method::POST, &search),
        ];
        let mut token = None;
        for (kind, method, request) in order {
            let request = Ask {
                token: token.take(),
                ..request.clone()
            };
            let began = Instant::now();
            let answer = ask(&mut client, method, &request).await?;
            if let Some(times) = all.get_mut(kind) {
                times.good(began.elapsed());
            }
            token = answer.token;
        }
    }
    Ok(all
        .iter()
        .zip(kinds)
        .map(|(times, kind)| times.row(kind))
        .collect())
}
