//! `expiry`: the latency of clients while a lifecycle rule deletes many objects.
//!
//! It stores objects, sends GETs and PUTs at fixed times, and gives the bucket a rule by which the
//! objects have expired. Then it sends the same requests until no object is left. The access key
//! must own the bucket, which must have no lifecycle rules: at the end it has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::puts::{Puts, Serial, keys};
use super::{Began, Common, first_serial};
use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::results::{Row, Times};
use crate::s3::{Ask, What, ask, text_body};

/// The longest time that all objects may take to expire.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The number of small objects that are read and overwritten.
const SMALL: u64 = 500;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The objects that expire
    #[arg(long, default_value_t = 1_000_000)]
    objects: u64,
    /// The bytes of an object
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Concurrent requests that store these objects, spread over all endpoints
    #[arg(long, default_value_t = 64)]
    fillers: u64,
    /// Clients that read, and as many that write, one request at a time each
    #[arg(long, default_value_t = 2)]
    clients: u64,
    /// Milliseconds from one request of a client to its next
    #[arg(long, default_value_t = 20)]
    every_ms: u64,
    /// The seconds of the measurement before anything expires
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let endpoints = args.common.endpoints()?;
    let (run, mut client) = (
        first_serial(),
        Client::connect(&args.common.endpoint()?).await?,
    );
    let (serial, prefix) = (Serial::from(run), format!("expiry/{run}/"));
    let small = Puts {
        size: args.size,
        clients: 1,
    };
    let stored = small.send(&endpoints, &serial, keys(SMALL, key)).await?;
    all_stored(&stored, SMALL)?;
    let many = Puts {
        size: args.size,
        clients: args.fillers,
    };
    let (filling, name) = (Instant::now(), prefix.clone());
    let name = move |number| format!("{name}{number:08}");
    let filled = many
        .send(&endpoints, &serial, keys(args.objects, name))
        .await?;
    let fill = filled.row_over("PUT of what expires", filling.elapsed());
    all_stored(&filled, args.objects)?;
    eprintln!("expiry: {} objects are stored", args.objects);

    let quiet = requests_until(args, &endpoints, &serial, async {
        tokio::time::sleep(Duration::from_secs(args.seconds)).await;
        Ok(())
    });
    let quiet = quiet.await?;
    set_rule(&mut client, &prefix).await?;
    let set = Instant::now();
    let beside = requests_until(args, &endpoints, &serial, gone(&mut client, &prefix)).await?;
    let expired = set.elapsed();
    ask(&mut client, rules(Method::DELETE)).await?.good()?;

    let mut rows = vec![fill];
    rows.push(Row {
        name: "objects expired".into(),
        count: args.objects,
        per_s: Some(args.objects as f64 / expired.as_secs_f64()),
        ..Row::default()
    });
    for (name, quiet, beside) in [
        ("GET", &quiet.get, &beside.get),
        ("PUT", &quiet.put, &beside.put),
    ] {
        let before = quiet.row(&format!("{name}, quiet"));
        let during = beside.row(&format!("{name}, while objects expire"));
        let ratio = during.p99_ms / before.p99_ms;
        eprintln!("expiry: p99 of {name} is {ratio:.2} of quiet");
        let ratio = Row {
            name: format!("{name}, ratio of p99: {ratio:.2}"),
            ..Row::default()
        };
        rows.extend([before, during, ratio]);
    }
    let options = format!(
        "{} objects of {} bytes; {} clients of each kind, a request each {} ms",
        args.objects, args.size, args.clients, args.every_ms
    );
    let common = &args.common;
    common.finish("expiry", options, began, rows, Vec::new())
}

fn key(number: u64) -> String {
    format!("expiry-small/{}", number % SMALL)
}

/// Checks that nothing was refused: an object that is missing would not expire.
fn all_stored(times: &Times, objects: u64) -> Outcome<()> {
    match times.count() == objects && times.errors() == 0 {
        true => Ok(()),
        false => Err(format!("{} of {objects} objects were stored", times.count()).into()),
    }
}

fn rules(method: Method) -> Ask<'static> {
    Ask {
        query: &[("lifecycle", "")],
        ..Ask::new(method, What::Bucket)
    }
}

/// Gives the bucket a rule by which all objects with the prefix have expired.
async fn set_rule(client: &mut Client, prefix: &str) -> Outcome<()> {
    let text = format!(
        "<LifecycleConfiguration><Rule><ID>expiry</ID><Status>Enabled</Status><Filter><Prefix>{prefix}</Prefix>\
         </Filter><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>"
    );
    let set = Ask {
        body: text_body(text),
        ..rules(Method::PUT)
    };
    ask(client, set).await?.good().map(drop)
}

/// Waits until no object with the prefix is listed.
async fn gone(client: &mut Client, prefix: &str) -> Outcome<()> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let list = Ask {
            query: &[("list-type", "2"), ("max-keys", "1"), ("prefix", prefix)],
            ..Ask::new(Method::GET, What::Bucket)
        };
        let listed = ask(client, list).await?.good()?;
        if listed.tag("KeyCount") == Some("0") {
            return Ok(());
        }
    }
    Err("objects that have expired are still listed".into())
}

/// The times of the requests of one measurement.
struct Measured {
    get: Times,
    put: Times,
}

/// Sends requests at fixed times until `end` completes. A request's time begins when it was due.
async fn requests_until(
    args: &Args,
    endpoints: &[Endpoint],
    serial: &Arc<Serial>,
    end: impl Future<Output = Outcome<()>>,
) -> Outcome<Measured> {
    let (over, mut clients) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for number in 0..2 * args.clients {
        let endpoint = endpoints.get(number as usize % endpoints.len());
        let endpoint = endpoint.ok_or("no endpoint")?.clone();
        let (over, serial) = (over.clone(), serial.clone());
        let (size, every) = (args.size, Duration::from_millis(args.every_ms));
        clients.spawn(async move {
            let (mut client, mut times) = (Client::connect(&endpoint).await?, Times::new()?);
            let (filler, is_put) = (Filler::new(), number % 2 == 1);
            let mut turns = interval(every);
            turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while !over.load(Ordering::Relaxed) {
                let due = turns.tick().await;
                let key = key(serial.next());
                let request = match is_put {
                    true => Ask::put(&key, filler.body(size, serial.next())),
                    false => Ask::new(Method::GET, What::Object(&key)),
                };
                let answer = ask(&mut client, request).await;
                times.add(&answer.and_then(|answer| answer.good()), due.elapsed());
            }
            Outcome::Ok((is_put, times))
        });
    }
    let ended = end.await;
    over.store(true, Ordering::Relaxed);
    let mut measured = Measured {
        get: Times::new()?,
        put: Times::new()?,
    };
    while let Some(one) = clients.join_next().await {
        let (is_put, times) = one??;
        match is_put {
            true => measured.put.merge(times)?,
            false => measured.get.merge(times)?,
        }
    }
    ended.map(|()| measured)
}
