//! The server under load: `archipel demo`, started here and stopped at the end, or any S3 endpoint that exists.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rusty_s3::{Bucket, Credentials, UrlStyle};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{Outcome, http};

/// Where to send requests, and with which key.
#[derive(Clone)]
pub struct Endpoint {
    /// The bucket, with the endpoint's address.
    pub bucket: Bucket,
    /// The key.
    pub credentials: Credentials,
    /// The server's process, if it is on this machine.
    pub pid: Option<u32>,
    /// Where it shows metrics: host and port, or a local socket.
    pub metrics: Option<String>,
}

/// How to reach an endpoint that exists.
#[derive(clap::Args, Clone)]
pub struct Existing {
    /// An S3 endpoint that is running already (a URL; several nodes of one store: with commas); without it
    /// `bench node` starts `archipel demo`
    #[arg(long, requires_all = ["access_key", "secret_key", "bucket"])]
    endpoint: Option<String>,
    /// Its access key
    #[arg(long)]
    access_key: Option<String>,
    /// Its secret key
    #[arg(long)]
    secret_key: Option<String>,
    /// A bucket that may be written to
    #[arg(long)]
    bucket: Option<String>,
    /// Its region
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Its process on this machine, to tell processor time
    #[arg(long)]
    pid: Option<u32>,
    /// Where it shows Prometheus metrics: host:port, or the path of a local socket
    #[arg(long)]
    metrics: Option<String>,
}

impl Existing {
    /// The endpoint; an error if none was named.
    pub fn required(&self) -> Outcome<Endpoint> {
        self.endpoint()?
            .ok_or_else(|| "name one with --endpoint, or let `bench lab` start some".into())
    }

    /// All endpoints that were named with commas between them: nodes of one store.
    pub fn all(&self) -> Outcome<Vec<Endpoint>> {
        let urls = self.endpoint.as_deref().unwrap_or_default().split(',');
        urls.map(|url| {
            let one = Self {
                endpoint: Some(url.to_owned()),
                ..self.clone()
            };
            one.required()
        })
        .collect()
    }

    /// The first endpoint that was named, if any.
    pub fn endpoint(&self) -> Outcome<Option<Endpoint>> {
        let (Some(url), Some(key), Some(secret), Some(bucket)) = (
            &self.endpoint,
            &self.access_key,
            &self.secret_key,
            &self.bucket,
        ) else {
            return Ok(None);
        };
        let bucket = Bucket::new(
            url.split(',').next().unwrap_or_default().parse()?,
            UrlStyle::Path,
            bucket.clone(),
            self.region.clone(),
        )?;
        let credentials = Credentials::new(key.clone(), secret.clone());
        Ok(Some(Endpoint {
            bucket,
            credentials,
            pid: self.pid,
            metrics: self.metrics.clone(),
        }))
    }
}

/// The line that `archipel demo --json` prints.
#[derive(Deserialize)]
struct Ready {
    endpoint: String,
    region: String,
    access_key: String,
    secret_key: String,
    bucket: String,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    pid: u32,
    admin: String,
}

/// A server of our own; killed if it is dropped.
pub struct Demo {
    process: Child,
    folder: PathBuf,
    /// Where to reach it.
    pub endpoint: Endpoint,
}

impl Demo {
    /// Starts one on a new folder within `parent`.
    pub async fn start(binary: &Path, parent: &Path) -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("archipel-bench-")
            .tempdir_in(parent)?
            .keep();
        let mut process = Command::new(binary)
            .args(["demo", "--port", "0", "--json", "--dir"])
            .arg(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| {
                format!(
                    "{}: {e} (cargo build --release -p archipel)",
                    binary.display()
                )
            })?;
        let out = process.stdout.take().ok_or("no output to read")?;
        let line = BufReader::new(out)
            .lines()
            .next_line()
            .await?
            .ok_or("the server ended before it was ready")?;
        let endpoint = Endpoint::from_ready(&serde_json::from_str(&line)?)?;
        Ok(Self {
            process,
            folder,
            endpoint,
        })
    }

    /// Stops it and removes its folder.
    pub async fn stop(mut self) -> Outcome<()> {
        self.process.kill().await?;
        Ok(std::fs::remove_dir_all(&self.folder)?)
    }
}

impl Endpoint {
    fn from_ready(ready: &Ready) -> Outcome<Self> {
        let url = ready.endpoint.parse()?;
        let bucket = Bucket::new(
            url,
            UrlStyle::Path,
            ready.bucket.clone(),
            ready.region.clone(),
        )?;
        let node = ready.nodes.first();
        Ok(Self {
            bucket,
            credentials: Credentials::new(ready.access_key.clone(), ready.secret_key.clone()),
            pid: node.map(|n| n.pid),
            metrics: node.map(|n| n.admin.trim_start_matches("http://").to_owned()),
        })
    }

    /// Host and port.
    pub fn address(&self) -> Outcome<String> {
        let url = self.bucket.base_url();
        let host = url.host_str().ok_or("the endpoint has no host")?;
        Ok(format!(
            "{host}:{}",
            url.port_or_known_default().unwrap_or(80)
        ))
    }

    /// How many times the server has synced a file so far: the sum of its counters of syncs and of synced commits.
    /// None if it shows none.
    pub async fn syncs(&self) -> Option<f64> {
        let text = http::page(self.metrics.as_ref()?, "/metrics").await.ok()?;
        let counters = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                let plain = name.split('{').next()?;
                let counts = plain.contains("sync") || plain.contains("durable_commits");
                (counts && plain.ends_with("_total")).then(|| value.parse::<f64>().ok())?
            });
        let values: Vec<f64> = counters.collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}
