//! `ttfb`: the time to the first byte of a large object. The rest is not read: the connection is
//! closed, and the link gets time to drain.

use std::time::Duration;

use hyper::Method;

use super::{Began, Common};
use crate::Outcome;
use crate::body::Filler;
use crate::http::Client;
use crate::results::Times;
use crate::s3::{Ask, Until, What, ask};

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Sizes of the objects, MiB
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    sizes_mib: Vec<usize>,
    /// The number of requests for each size
    #[arg(long, default_value_t = 10)]
    count: u32,
    /// Seconds between two requests, so that the link can drain
    #[arg(long, default_value_t = 4)]
    pause_s: u64,
    /// Store the objects, and stop
    #[arg(long, conflicts_with = "only_read")]
    only_write: bool,
    /// The objects exist already
    #[arg(long)]
    only_read: bool,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let mut client = Client::connect(&args.common.endpoint()?).await?;
    if !args.only_read {
        write(args, &mut client).await?;
    }
    if args.only_write {
        return Ok(());
    }
    let mut rows = Vec::new();
    for size in &args.sizes_mib {
        let mut times = Times::new()?;
        for number in 0..args.count {
            let answer = ask(&mut client, first_byte(&key(*size))).await?;
            let first = answer.first;
            times.add(&answer.good(), first);
            eprintln!(
                "ttfb: {size} MiB, {} of {}: {first:.1?}",
                number + 1,
                args.count
            );
            tokio::time::sleep(Duration::from_secs(args.pause_s)).await;
        }
        rows.push(times.row(&format!("first byte of {size} MiB")));
    }
    let options = format!("{} requests each, {} s apart", args.count, args.pause_s);
    args.common.finish("ttfb", options, began, rows, Vec::new())
}

async fn write(args: &Args, client: &mut Client) -> Outcome<()> {
    let filler = Filler::new();
    for (serial, size) in args.sizes_mib.iter().enumerate() {
        eprintln!("ttfb: storing {size} MiB");
        let key = key(*size);
        let put = Ask::put(
            &key,
            filler.body(size << 20, super::first_serial() + serial as u64),
        );
        ask(client, put).await?.good()?;
    }
    Ok(())
}

fn first_byte(key: &str) -> Ask<'_> {
    Ask {
        until: Until::FirstByte,
        ..Ask::new(Method::GET, What::Object(key))
    }
}

fn key(size: usize) -> String {
    format!("ttfb/{size}-mib")
}
