//! `versioned`: what versions cost. Small PUTs into a bucket with versions beside those into a
//! bucket without, in turns; and a key with few versions beside one with many.
//!
//! It makes a bucket with versions, whose name is that of the given one and `-versions`, and leaves
//! it there. So the access key must be allowed to create buckets.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use rusty_s3::{Bucket, UrlStyle};
use tokio::time::Instant;

use super::puts::{Puts, Serial, keys};
use super::{Began, Common, first_serial};
use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::results::{Row, Times};
use crate::s3::{Ask, What, ask, text_body};

const ENABLED: &str = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The bytes of an object
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Concurrent requests, spread over all endpoints
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// The seconds of each turn
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// The turns of each bucket
    #[arg(long, default_value_t = 3)]
    turns: u32,
    /// The versions of the key with many versions
    #[arg(long, default_value_t = 100_000)]
    versions: u64,
    /// The requests of each kind to a key
    #[arg(long, default_value_t = 100)]
    count: u32,
}

impl Args {
    fn puts(&self) -> Puts {
        Puts {
            size: self.size,
            clients: self.clients,
        }
    }
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let plain = args.common.endpoints()?;
    let versioned = with_versions(&plain).await?;
    let run = first_serial();
    let serial = Serial::from(run);
    let mut rows = beside(args, [&plain, &versioned], &serial).await?;
    let one = versioned.first().ok_or("no endpoint")?;
    for versions in [10, args.versions] {
        let key = format!("versions/{run}/{versions}");
        fill(args, &versioned, &key, versions, &serial).await?;
        rows.extend(measure(args, one, &key, versions, &serial).await?);
    }
    let options = format!(
        "{} bytes, {} clients, {} turns of {} s; a key with {} versions",
        args.size, args.clients, args.turns, args.seconds, args.versions
    );
    let common = &args.common;
    common.finish("versioned", options, began, rows, Vec::new())
}

/// Makes the bucket with versions, and returns it at all endpoints.
async fn with_versions(plain: &[Endpoint]) -> Outcome<Vec<Endpoint>> {
    let versioned = plain.iter().map(|endpoint| {
        let mut url = endpoint.bucket.base_url().clone();
        url.set_path("/");
        let name = format!("{}-versions", endpoint.bucket.name());
        let region = endpoint.bucket.region().to_owned();
        Ok(Endpoint {
            bucket: Bucket::new(url, UrlStyle::Path, name, region)?,
            ..endpoint.clone()
        })
    });
    let versioned: Vec<Endpoint> = versioned.collect::<Outcome<_>>()?;
    let mut client = Client::connect(versioned.first().ok_or("no endpoint")?).await?;
    let make = ask(&mut client, Ask::new(Method::PUT, What::Bucket)).await?;
    if !make.text.contains("BucketAlreadyOwnedByYou") {
        make.good()?;
    }
    let enable = Ask {
        query: &[("versioning", "")],
        body: text_body(ENABLED.into()),
        ..Ask::new(Method::PUT, What::Bucket)
    };
    ask(&mut client, enable).await?.good()?;
    Ok(versioned)
}

/// Sends PUTs of new keys to both buckets in turns. Returns their rates and the ratio of these.
async fn beside(args: &Args, buckets: [&[Endpoint]; 2], serial: &Arc<Serial>) -> Outcome<Vec<Row>> {
    let names = ["PUT, without versions", "PUT, with versions"];
    let mut all = [Times::new()?, Times::new()?];
    let mut elapsed = [Duration::ZERO; 2];
    for _ in 0..args.turns {
        for ((endpoints, times), elapsed) in buckets.iter().zip(&mut all).zip(&mut elapsed) {
            let began = Instant::now();
            let end = began + Duration::from_secs(args.seconds);
            let key = move |serial: &Serial| {
                (Instant::now() < end).then(|| format!("put/{}", serial.next()))
            };
            times.merge(args.puts().send(endpoints, serial, key).await?)?;
            *elapsed += began.elapsed();
        }
    }
    let each = all.iter().zip(names).zip(elapsed);
    let mut rows: Vec<Row> = each
        .map(|((times, name), elapsed)| times.row_over(name, elapsed))
        .collect();
    let rates: Vec<f64> = rows.iter().filter_map(|row| row.per_s).collect();
    if let [plain, versioned] = rates[..] {
        let ratio = versioned / plain;
        eprintln!("versioned: {ratio:.2} of the rate without versions");
        rows.push(Row {
            name: format!("ratio: {ratio:.2}"),
            ..Row::default()
        });
    }
    Ok(rows)
}

/// Makes a key with so many versions.
async fn fill(
    args: &Args,
    endpoints: &[Endpoint],
    key: &str,
    versions: u64,
    serial: &Arc<Serial>,
) -> Outcome<()> {
    let mut missing = versions;
    while missing > 0 {
        let key = key.to_owned();
        // Clients that write one key at once hinder each other, and get 503 at times.
        let puts = args.puts();
        let next = keys(missing, move |_| key.clone());
        missing = puts.send(endpoints, serial, next).await?.errors();
    }
    eprintln!("versioned: {key} has {versions} versions");
    Ok(())
}

/// Measures PUT, GET and the first page of the versions of a key, one request at a time.
async fn measure(
    args: &Args,
    endpoint: &Endpoint,
    key: &str,
    versions: u64,
    serial: &Serial,
) -> Outcome<Vec<Row>> {
    let mut client = Client::connect(endpoint).await?;
    let filler = Filler::new();
    let (mut get, mut put) = (Times::new()?, Times::new()?);
    let mut pages = [("10", Times::new()?), ("1000", Times::new()?)];
    for _ in 0..args.count {
        let read = ask(&mut client, Ask::new(Method::GET, What::Object(key))).await?;
        get.good(read.good()?.total);
        for (size, times) in &mut pages {
            let query = [("max-keys", *size), ("prefix", key), ("versions", "")];
            let list = Ask {
                query: &query,
                ..Ask::new(Method::GET, What::Bucket)
            };
            times.good(ask(&mut client, list).await?.good()?.total);
        }
        let body = filler.body(args.size, serial.next());
        put.good(ask(&mut client, Ask::put(key, body)).await?.good()?.total);
    }
    let of = |name: &str| format!("{name}, {versions} versions");
    let mut rows = vec![put.row(&of("PUT")), get.row(&of("GET"))];
    for (size, times) in pages {
        rows.push(times.row(&of(&format!("first page of at most {size}"))));
    }
    Ok(rows)
}
