//! `lat`: one request at a time, each kind in turn. It shows the number of round trips of each
//! kind.
//!
//! The kinds take turns within each round, so that a busy phase of the machine affects all of them
//! equally. The first rounds only warm up connections and caches.

use std::time::Duration;

use hyper::Method;

use super::{Began, Common};
use crate::Outcome;
use crate::body::Filler;
use crate::http::Client;
use crate::results::Times;
use crate::s3::{Answer, Ask, What, ask, text_body};

const MIB: usize = 1 << 20;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// The number of rounds; each has one request of every kind
    #[arg(long, default_value_t = 50)]
    count: u32,
    /// Warm-up rounds, which are not counted
    #[arg(long, default_value_t = 5)]
    warm_up: u32,
    /// Bytes of a small object
    #[arg(long, default_value_t = 16)]
    size: usize,
}

const KINDS: [&str; 11] = [
    "ListBuckets",
    "PutObject",
    "HeadObject",
    "GetObject",
    "ListObjectsV2",
    "PutObject if none",
    "RemoveObject",
    "PutObject 1 MiB",
    "GetObject 1 MiB",
    "UploadPart",
    "CompleteMultipartUpload",
];

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    let began = Began::now();
    let mut round = Round {
        client: Client::connect(&args.common.endpoint()?).await?,
        filler: Filler::new(),
        size: args.size,
        run: format!("lat-{}", super::first_serial()),
        number: super::first_serial(),
        times: Vec::new(),
    };
    for _ in 0..args.warm_up {
        round.run().await?;
    }
    round.times = KINDS.iter().map(|_| Times::new()).collect::<Outcome<_>>()?;
    for number in 0..args.count {
        round.run().await?;
        if number % 10 == 9 {
            eprintln!("lat: {} of {} rounds", number + 1, args.count);
        }
    }
    let rows = KINDS.iter().zip(&round.times);
    let rows = rows.map(|(name, times)| times.row(name)).collect();
    let options = format!("{} rounds, objects of {} bytes", args.count, args.size);
    args.common.finish("lat", options, began, rows, Vec::new())
}

struct Round {
    client: Client,
    filler: Filler,
    size: usize,
    run: String,
    number: u64,
    times: Vec<Times>,
}

impl Round {
    async fn run(&mut self) -> Outcome<()> {
        self.number += 1;
        let small = format!("{}/small/{}", self.run, self.number);
        let once = format!("{}/once/{}", self.run, self.number);
        let large = format!("{}/large/{}", self.run, self.number);
        let query = [("list-type", "2"), ("prefix", "no-such-prefix/")];
        self.time(0, Ask::new(Method::GET, What::Service)).await?;
        self.time(1, Ask::put(&small, self.body(self.size))).await?;
        self.time(2, Ask::new(Method::HEAD, What::Object(&small)))
            .await?;
        self.time(3, Ask::new(Method::GET, What::Object(&small)))
            .await?;
        let list = Ask {
            query: &query,
            ..Ask::new(Method::GET, What::Bucket)
        };
        self.time(4, list).await?;
        let put_once = Ask {
            headers: &[("if-none-match", "*")],
            ..Ask::put(&once, self.body(self.size))
        };
        self.time(5, put_once).await?;
        self.time(6, Ask::new(Method::DELETE, What::Object(&small)))
            .await?;
        self.time(7, Ask::put(&large, self.body(MIB))).await?;
        self.time(8, Ask::new(Method::GET, What::Object(&large)))
            .await?;
        self.upload(&format!("{}/parts/{}", self.run, self.number))
            .await
    }

    async fn upload(&mut self, key: &str) -> Outcome<()> {
        let create = Ask {
            query: &[("uploads", "")],
            ..Ask::new(Method::POST, What::Object(key))
        };
        let created = ask(&mut self.client, create).await?.good()?;
        let id = created.tag("UploadId").ok_or("an upload without id")?;
        let part = Ask {
            query: &[("partNumber", "1"), ("uploadId", id)],
            ..Ask::put(key, self.body(self.size))
        };
        let Some(part) = self.time(9, part).await? else {
            return Ok(());
        };
        let etag = part.etag.ok_or("a part without ETag")?;
        let complete = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        let complete = Ask {
            query: &[("uploadId", id)],
            body: text_body(complete),
            ..Ask::new(Method::POST, What::Object(key))
        };
        self.time(10, complete).await.map(drop)
    }

    /// Sends a request and records the time. A bad answer is recorded, a broken connection ends the
    /// run.
    async fn time(&mut self, kind: usize, request: Ask<'_>) -> Outcome<Option<Answer>> {
        let answer = ask(&mut self.client, request).await?;
        let total = answer.total;
        let answer = answer.good();
        if let Some(times) = self.times.get_mut(kind) {
            times.add(&answer, total);
        }
        // The pause lets the server finish its background work before the next request.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(answer.ok())
    }

    fn body(&self, size: usize) -> crate::body::Fresh {
        self.filler.body(size, self.number)
    }
}
