//! `beside`: small reads while one large object is being stored. It shows the upload's share of the
//! link and the latency of the reads.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::Method;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Began, Common};
use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::results::Times;
use crate::s3::{Ask, What, ask};

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Size of the large object, MiB
    #[arg(long, default_value_t = 256)]
    size_mib: usize,
    /// Milliseconds from one small read to the next
    #[arg(long, default_value_t = 100)]
    every_ms: u64,
    /// The number of small objects, which are read in turn
    #[arg(long, default_value_t = 50)]
    objects: u64,
    /// The rate of the links, Mbit/s, to show the upload's share of it
    #[arg(long)]
    rate_mbit: Option<f64>,
}

/// Runs the reads alone, then beside the upload.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let endpoint = args.common.endpoint()?;
    let mut reader = Client::connect(&endpoint).await?;
    let filler = Filler::new();
    for number in 0..args.objects {
        let body = filler.body(16, super::first_serial());
        ask(&mut reader, Ask::put(&key(number), body))
            .await?
            .good()?;
    }
    let alone = tokio::time::sleep(Duration::from_secs(5));
    let alone = read_until(args, &endpoint, alone).await?;
    let mut writer = Client::connect(&endpoint).await?;
    let mut upload = Times::new()?;
    let body = filler.body(args.size_mib << 20, super::first_serial());
    let started = Instant::now();
    let stored = async {
        let answer = ask(&mut writer, Ask::put("beside/large", body)).await;
        upload.add(&answer.and_then(|answer| answer.good()), started.elapsed());
        upload.bytes = (args.size_mib << 20) as u64;
    };
    let beside = read_until(args, &endpoint, stored).await?;
    let row = upload.row_over("upload", started.elapsed());
    let used = args
        .rate_mbit
        .zip(row.mb_per_s)
        .map(|(rate, mb)| mb * 8.0 / rate);
    let used = used.map_or(String::new(), |share| {
        format!("; the upload uses {:.1} % of the link", share * 100.0)
    });
    let rows = vec![
        row,
        alone.row("GetObject alone"),
        beside.row("GetObject beside"),
    ];
    let options = format!(
        "{} MiB, reads every {} ms{used}",
        args.size_mib, args.every_ms
    );
    eprintln!("beside: {options}");
    args.common
        .finish("beside", options, began, rows, Vec::new())
}

/// Reads small objects at fixed times until `end` completes, without waiting for earlier answers.
/// Then waits for the reads in progress.
async fn read_until(
    args: &Args,
    endpoint: &Endpoint,
    end: impl Future<Output = ()>,
) -> Outcome<Times> {
    let (mut times, mut idle, mut open) = (Times::new()?, Vec::new(), FuturesUnordered::new());
    let mut turns = interval(Duration::from_millis(args.every_ms));
    turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut number, mut over) = (0, pin!(end));
    let mut is_over = false;
    while !(is_over && open.is_empty()) {
        tokio::select! {
            () = &mut over, if !is_over => is_over = true,
            due = turns.tick(), if !is_over => {
                let key = key(number % args.objects.max(1));
                number += 1;
                let client: Option<Client> = idle.pop();
                open.push(async move {
                    let mut client = match client {
                        Some(client) => client,
                        None => Client::connect(endpoint).await?,
                    };
                    let asked = Ask::new(Method::GET, What::Object(&key));
                    let answer = ask(&mut client, asked).await.and_then(|answer| answer.good());
                    Outcome::Ok((client, answer, due.elapsed()))
                });
            }
            Some(read) = open.next(), if !open.is_empty() => {
                let (client, answer, time) = read?;
                times.add(&answer, time);
                // A broken connection yields no answer.
                idle.extend(answer.is_ok().then_some(client));
            }
        }
    }
    Ok(times)
}

fn key(number: u64) -> String {
    format!("beside/small/{number}")
}
