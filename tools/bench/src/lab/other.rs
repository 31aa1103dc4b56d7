//! Any other server, described by a small file.
//!
//! ```toml
//! name = "minio"
//! start = ["/usr/bin/minio", "server", "--address", "{address}:9000", "http://10.88.0.{1...3}:9000{folder}/data"]
//! env = { MINIO_ROOT_USER = "minio", MINIO_ROOT_PASSWORD = "miniominio" }
//! port = 9000
//! access_key = "minio"
//! secret_key = "miniominio"
//! region = "us-east-1"
//! durability = "O_DIRECT, no fsync"
//! ```
//!
//! `{address}`, `{folder}`, `{node}` and `{addresses}` (all, with commas) are replaced for each
//! node. Folders are `DIR/NODE`. The bucket is made over S3.

use std::collections::BTreeMap;
use std::path::Path;

use hyper::Method;
use netlab::lab::Lab;
use rusty_s3::{Bucket, Credentials, UrlStyle};
use serde::Deserialize;

use super::server::{BUCKET, Started, servers, spawn, until};
use crate::Outcome;
use crate::endpoint::Endpoint;
use crate::http::Client;
use crate::s3::{Ask, What, ask};

/// The description file.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Its name, also used in file names.
    pub name: String,
    start: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    port: u16,
    access_key: String,
    secret_key: String,
    region: String,
    durability: String,
}

impl Description {
    /// Reads the description from a file.
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Starts it in each node that is not for clients.
    pub async fn start(&self, lab: &Lab, folder: &Path) -> Outcome<Started> {
        let nodes = servers(lab);
        let addresses: Outcome<Vec<String>> = nodes
            .iter()
            .map(|n| Ok(lab.address(&n.name)?.to_string()))
            .collect();
        let addresses = addresses?.join(",");
        let program = self.start.first().ok_or("start is empty")?;
        let mut started = Started {
            processes: Vec::new(),
            logs: Vec::new(),
            endpoints: Vec::new(),
            certificates: Vec::new(),
            key: self.access_key.clone(),
            secret: self.secret_key.clone(),
            region: self.region.clone(),
            durability: self.durability.clone(),
            server: super::version(Path::new(program)),
        };
        for node in nodes {
            let home = folder.join(&node.name);
            std::fs::create_dir(&home)?;
            let address = lab.address(&node.name)?.to_string();
            let put_in = |text: &String| {
                let text = text
                    .replace("{address}", &address)
                    .replace("{node}", &node.name);
                text.replace("{folder}", &home.display().to_string())
                    .replace("{addresses}", &addresses)
            };
            let mut command = lab.command(&node.name, program)?;
            command.args(self.start.iter().skip(1).map(put_in));
            command.envs(self.env.iter().map(|(name, value)| (name, put_in(value))));
            let log = folder.join(format!("{}.log", node.name));
            started.processes.push(spawn(command, &log)?);
            started.logs.push(log);
            started
                .endpoints
                .push((node, format!("http://{address}:{}", self.port)));
        }
        self.make_bucket(lab, &started).await?;
        Ok(started)
    }

    /// Makes the bucket from within the network, at the first node.
    async fn make_bucket(&self, lab: &Lab, started: &Started) -> Outcome<()> {
        let (node, url) = started.endpoints.first().ok_or("no nodes")?;
        let bucket = Bucket::new(url.parse()?, UrlStyle::Path, BUCKET, self.region.clone())?;
        let endpoint = Endpoint {
            bucket,
            credentials: Credentials::new(self.access_key.clone(), self.secret_key.clone()),
            pid: None,
            metrics: None,
            tls: None,
        };
        let make = async || -> Outcome<()> {
            let mut client = Client::connect(&endpoint).await?;
            ask(&mut client, Ask::new(Method::PUT, What::Bucket))
                .await?
                .good()
                .map(drop)
        };
        let within = lab.names().namespace(&node.name);
        netlab::sys::within(&within, || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(until(make)).map_err(std::io::Error::other)
        })?;
        Ok(())
    }
}
