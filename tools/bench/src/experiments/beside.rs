//! `beside`: small reads while one large object is being stored: how much of a link the upload uses, and how long the
//! reads wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Began, Common};
use crate::Outcome;
use crate::body::Filler;
use crate::http::Client;
use crate::results::Times;
use crate::s3::{Ask, What, ask};

/// Options.
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
    /// Small objects that are read in turn
    #[arg(long, default_value_t = 50)]
    objects: u64,
    /// The rate of the links, Mbit/s: the upload's share of it is told, too
    #[arg(long)]
    rate_mbit: Option<f64>,
}

/// Runs it: reads alone, then beside the upload.
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
    let alone = read_until(args, &mut reader, alone).await?;
    let mut writer = Client::connect(&endpoint).await?;
    let mut upload = Times::new()?;
    let body = filler.body(args.size_mib << 20, super::first_serial());
    let started = Instant::now();
    let stored = async {
        let answer = ask(&mut writer, Ask::put("beside/large", body)).await;
        upload.add(&answer.and_then(|answer| answer.good()), started.elapsed());
        upload.bytes = (args.size_mib << 20) as u64;
    };
    let beside = read_until(args, &mut reader, stored).await?;
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

/// Small reads, one at a time, until something has ended. A read counts from when it was due.
async fn read_until(
    args: &Args,
    client: &mut Client,
    end: impl Future<Output = ()>,
) -> Outcome<Times> {
    let is_over = AtomicBool::new(false);
    let reads = async {
        let mut times = Times::new()?;
        let mut turns = interval(Duration::from_millis(args.every_ms));
        turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for number in 0.. {
            let due = turns.tick().await;
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let key = key(number % args.objects.max(1));
            let answer = ask(client, Ask::new(Method::GET, What::Object(&key))).await;
            times.add(&answer.and_then(|answer| answer.good()), due.elapsed());
        }
        Outcome::Ok(times)
    };
    let ends = async {
        end.await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(reads, ends).0
}

fn key(number: u64) -> String {
    format!("beside/small/{number}")
}
