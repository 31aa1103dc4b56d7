//! `list`: lists all keys of a bucket, page by page.

use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::Instant;

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
    /// The number of keys
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// The keys of a page
    #[arg(long, default_value_t = 1000)]
    page: u64,
    /// The number of complete listings
    #[arg(long, default_value_t = 3)]
    count: u32,
    /// The clients that store the keys
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// The keys exist already
    #[arg(long)]
    only_read: bool,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let prefix = format!("list/{}/", args.keys);
    if !args.only_read {
        fill(args, &prefix).await?;
    }
    let mut client = Client::connect(&args.common.endpoint()?).await?;
    let mut rows = Vec::new();
    for number in 0..args.count {
        let started = Instant::now();
        let (times, keys) = walk(&mut client, &prefix, args.page).await?;
        let elapsed = started.elapsed();
        if keys != args.keys {
            return Err(format!("{keys} keys were listed, but {} exist", args.keys).into());
        }
        let mut row = times.row_over(&format!("pages, walk {}", number + 1), elapsed);
        row.per_s = Some(keys as f64 / elapsed.as_secs_f64());
        eprintln!("list: {:.0} keys/s", row.per_s.unwrap_or_default());
        rows.push(row);
    }
    let options = format!("{} keys, pages of {}; rates are keys", args.keys, args.page);
    args.common.finish("list", options, began, rows, Vec::new())
}

/// Lists all keys once. Returns the times of the pages and the number of keys.
async fn walk(client: &mut Client, prefix: &str, page: u64) -> Outcome<(Times, u64)> {
    let (mut times, mut keys) = (Times::new()?, 0);
    let (page, mut token) = (page.to_string(), None::<String>);
    loop {
        let fixed = [
            ("list-type", "2"),
            ("max-keys", page.as_str()),
            ("prefix", prefix),
        ];
        let token_query = token.as_deref().map(|token| ("continuation-token", token));
        let query: Vec<_> = token_query.into_iter().chain(fixed).collect();
        let list = Ask {
            query: &query,
            ..Ask::new(Method::GET, What::Bucket)
        };
        let answer = ask(client, list).await?.good()?;
        times.good(answer.total);
        keys += answer.text.matches("<Key>").count() as u64;
        if answer.tag("IsTruncated") != Some("true") {
            return Ok((times, keys));
        }
        let next = answer.tag("NextContinuationToken");
        token = Some(
            next.ok_or("a page without a continuation token")?
                .replace("&amp;", "&"),
        );
    }
}

async fn fill(args: &Args, prefix: &str) -> Outcome<()> {
    let endpoints = args.common.endpoints()?;
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        let endpoint = endpoints.get(number as usize % endpoints.len());
        let endpoint = endpoint.ok_or("no endpoint")?.clone();
        let numbers = (number..args.keys).step_by(args.clients as usize);
        clients.spawn(store(endpoint, prefix.to_owned(), numbers));
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    eprintln!("list: {} keys exist", args.keys);
    Ok(())
}

async fn store(
    endpoint: Endpoint,
    prefix: String,
    numbers: impl Iterator<Item = u64>,
) -> Outcome<()> {
    let mut client = Client::connect(&endpoint).await?;
    let filler = Filler::new();
    for number in numbers {
        let key = format!("{prefix}{number:09}");
        ask(&mut client, Ask::put(&key, filler.body(16, number)))
            .await?
            .good()?;
    }
    Ok(())
}
