//! The server under load: a demo started and stopped here, or any existing S3 endpoint.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rusty_s3::{Bucket, Credentials, UrlStyle};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{Outcome, http, process};

/// An S3 endpoint with its credentials.
#[derive(Clone)]
pub struct Endpoint {
    /// The bucket, with the endpoint's address.
    pub bucket: Bucket,
    /// The key.
    pub credentials: Credentials,
    /// The server's process, if it is on this machine.
    pub pid: Option<u32>,
    /// The address of its metrics: host and port, or a local socket.
    pub metrics: Option<String>,
    /// For an endpoint of `https`: how its certificate is verified.
    pub tls: Option<Arc<ClientConfig>>,
}

/// The options for an existing endpoint.
#[derive(clap::Args, Clone)]
pub struct Existing {
    /// A running S3 endpoint (a URL; several nodes of one store with commas). Without it `bench
    /// node` starts `archipel demo`
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
    /// The process id on this machine, for processor time
    #[arg(long)]
    pid: Option<u32>,
    /// The address of its Prometheus metrics: host:port, or the path of a local socket
    #[arg(long)]
    metrics: Option<String>,
    /// Files with the certificates that are trusted at endpoints of https (PEM)
    #[arg(long, value_delimiter = ',')]
    trust: Vec<PathBuf>,
}

impl Existing {
    /// Returns the endpoint. Fails if none was named.
    pub fn required(&self) -> Outcome<Endpoint> {
        self.endpoint()?
            .ok_or_else(|| "no endpoint; fix: name one with --endpoint, or use `bench lab`".into())
    }

    /// Returns all named endpoints, which are nodes of one store.
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

    /// Returns the first named endpoint, if any.
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
        let tls = match bucket.base_url().scheme() {
            "https" => Some(trusting(&self.trust)?),
            _ => None,
        };
        Ok(Some(Endpoint {
            bucket,
            credentials,
            pid: self.pid,
            metrics: self.metrics.clone(),
            tls,
        }))
    }
}

/// Returns a configuration that trusts the certificates of these files.
fn trusting(files: &[PathBuf]) -> Outcome<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for file in files {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
    }
    if roots.is_empty() {
        return Err("https needs --trust with the endpoint's certificate".into());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
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

/// A server started here. It is killed when the value is dropped.
pub struct Demo {
    process: Child,
    folder: PathBuf,
    /// Its endpoint.
    pub endpoint: Endpoint,
}

impl Demo {
    /// Starts a demo of one node in a new folder within `parent`.
    pub async fn start(binary: &Path, parent: &Path) -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("archipel-bench-")
            .tempdir_in(parent)?
            .keep();
        let mut process = Command::new(binary)
            .args(["demo", "--nodes", "1", "--port", "0", "--json", "--dir"])
            .arg(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{}: {e} (cargo build --profile dist)", binary.display()))?;
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
            tls: None,
        })
    }

    /// Returns host and port.
    pub fn address(&self) -> Outcome<String> {
        let url = self.bucket.base_url();
        let host = url.host_str().ok_or("the endpoint has no host")?;
        Ok(format!(
            "{host}:{}",
            url.port_or_known_default().unwrap_or(80)
        ))
    }

    /// Returns the processor time that the server has used, in seconds; 0 if it is not on this
    /// machine.
    pub fn cpu(&self) -> f64 {
        self.pid.and_then(process::cpu_seconds).unwrap_or_default()
    }

    /// Returns the number of file syncs of the server so far: the sum of its counters of syncs and
    /// of synced commits. Returns `None` if it shows no such counters.
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
