//! `archipel demo`: nodes with a bucket and a key, and what to paste to use them.
//!
//! One node runs in this process; several run each in a process of its own ([`several`]), as in
//! life.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archipel_model::{AccessKey, Error, Model, Permissions};
use serde::Serialize;

use crate::cli::{DemoArgs, table};
use crate::client::{Client, Failure};
use crate::login_link::login_link;
use crate::node::{self, Node};
use crate::{config, logs, process};

mod children;
mod ports;
mod several;

/// The most nodes that a demo runs.
const MAX_NODES: u32 = 100;
/// The time that a node may take to read its buckets and keys.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The bucket's name, and the key's.
const NAME: &str = "demo";

/// The description of the demo, shown once all is ready; for scripts on one line.
#[derive(Serialize)]
struct Ready {
    endpoint: String,
    /// The address of websites.
    web: String,
    /// The address of K2V.
    k2v: String,
    /// The address of the web console.
    console: String,
    /// A link that logs in there, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    console_login: Option<String>,
    region: String,
    access_key: String,
    secret_key: String,
    bucket: &'static str,
    nodes: Vec<ReadyNode>,
    #[serde(skip)]
    dir: PathBuf,
}

#[derive(Clone, Serialize)]
struct ReadyNode {
    pid: u32,
    zone: String,
    dir: String,
    s3: String,
    web: String,
    k2v: String,
    console: String,
    admin: String,
    /// The address at which it listens for other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The file that starts it again: `archipel server --config FILE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<String>,
}

/// Runs it until a signal.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    if !(1..=MAX_NODES).contains(&args.nodes) {
        return Err(Failure::new(format!(
            "--nodes {}: fix: give a number from 1 to {MAX_NODES}",
            args.nodes
        )));
    }
    process::keep_files_private();
    let dir = absolute(&args.dir)?;
    match args.nodes {
        1 => alone(args, dir),
        _ => several::run(args, &dir),
    }
}

fn alone(args: &DemoArgs, dir: PathBuf) -> Result<(), Failure> {
    several::refuse_in(&dir)?;
    let listen = SocketAddr::from(([127, 0, 0, 1], args.port));
    let web = SocketAddr::from(([127, 0, 0, 1], ports::web(args.port)));
    let k2v = SocketAddr::from(([127, 0, 0, 1], ports::k2v(args.port)));
    let console = SocketAddr::from(([127, 0, 0, 1], ports::console(args.port)));
    let settings = config::for_demo(dir.clone(), listen, web, k2v, console);
    logs::start(&settings.log).map_err(Failure::new)?;
    if let Err(error) = process::raise_open_files() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    node::runtime()?.block_on(async {
        let Some(node) = Node::start(settings).await.map_err(Failure::new)? else {
            return Ok(());
        };
        // A new key must not be made because the earlier one is not known yet.
        node.model().wait_until_read(READ_TIMEOUT).await;
        let key = prepare(node.model())
            .await
            .map_err(|error| Failure::new(format!("the demo's bucket and key: {error}")))?;
        let admin = Client::socket(node.settings().admin.socket.clone());
        let link = link(&admin).await;
        ready(&node, &key, link, dir).announce(args.json)?;
        node.run_until_signal().await.map_err(Failure::new)
    })
}

fn ready(node: &Node, key: &AccessKey, console_login: Option<String>, dir: PathBuf) -> Ready {
    let settings = node.settings();
    let addresses = node.addresses();
    let web = addresses.web.map(|web| web.to_string()).unwrap_or_default();
    let k2v = addresses.k2v.map(|k2v| k2v.to_string()).unwrap_or_default();
    let console = addresses.console.map(|at| at.to_string());
    let console = console.unwrap_or_default();
    Ready {
        endpoint: format!("http://{}", addresses.s3),
        web: format!("http://{web}"),
        k2v: format!("http://{k2v}"),
        console: format!("http://{console}"),
        console_login,
        region: settings.s3.region.clone(),
        access_key: key.id.clone(),
        secret_key: key.secret.expose().to_owned(),
        bucket: NAME,
        nodes: vec![ReadyNode {
            pid: std::process::id(),
            zone: settings.cluster.zone.clone(),
            dir: settings.data_dir.display().to_string(),
            s3: addresses.s3.to_string(),
            web,
            k2v,
            console,
            admin: settings.admin.socket.display().to_string(),
            cluster: None,
            config: None,
        }],
        dir,
    }
}

/// Makes a link to the console, unless it cannot be made: the disk may be full.
async fn link(admin: &Client) -> Option<String> {
    match login_link(admin).await {
        Ok(link) => Some(link),
        Err(failure) => {
            tracing::warn!(why = %failure, "no link to the console could be made");
            None
        }
    }
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(dir)
        .map_err(|error| Failure::new(format!("--dir {}: {error}", dir.display())))
}

/// Finds the key of an earlier run, or makes one; and the bucket, which it may use for everything.
async fn prepare(model: &Model) -> Result<Arc<AccessKey>, Error> {
    let mut keys = model.access_keys()?.into_iter();
    let earlier = keys.find(|key| key.name == NAME);
    let key = match earlier {
        Some(key) => key,
        None => model.create_owner_key(NAME).await?,
    };
    match model.find_bucket(NAME).await? {
        // Nothing is written where nothing is to be changed: the disk may be full.
        Some(bucket) if bucket.permissions(&key) == Permissions::ALL => {}
        Some(_) => _ = model.set_grant(NAME, &key.id, Permissions::ALL).await?,
        None => _ = model.create_bucket(NAME, Some(&key.id)).await?,
    }
    Ok(key)
}

impl Ready {
    fn announce(&self, json: bool) -> Result<(), Failure> {
        if !json {
            return table::document(&self.instructions());
        }
        let line = serde_json::to_string(self).map_err(|error| Failure::new(error.to_string()))?;
        table::text(&line)
    }

    fn instructions(&self) -> String {
        let Ready {
            endpoint,
            web,
            k2v,
            console,
            region,
            access_key: id,
            secret_key: secret,
            ..
        } = self;
        let dir = self.dir.display();
        let link = self.console_login.as_deref().unwrap_or("archipel console");
        let (_, port) = web.rsplit_once(':').unwrap_or_default();
        let one = self
            .nodes
            .first()
            .map_or(String::new(), |node| node.dir.clone());
        let nodes = match self.nodes.len() {
            1 => String::new(),
            _ => self.table(),
        };
        format!(
            "\
Archipel is ready. Its data is in {dir}; Ctrl-C stops it, and the same command starts it again.

  endpoint    {endpoint}
  region      {region}
  access key  {id}
  secret key  {secret}
  bucket      {NAME}
  websites    {web}
  K2V         {k2v}
  console     {console}
  log in once {link}
{nodes}
AWS CLI
  AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} AWS_DEFAULT_REGION={region} aws --endpoint-url {endpoint} s3 cp README.md s3://{NAME}/

boto3
  python3 -c \"import boto3; print(boto3.client('s3', endpoint_url='{endpoint}', region_name='{region}', aws_access_key_id='{id}', aws_secret_access_key='{secret}').list_objects_v2(Bucket='{NAME}').get('Contents'))\"

rclone
  rclone copy README.md \":s3,provider=Other,env_auth=false,region={region},endpoint='{endpoint}',access_key_id={id},secret_access_key={secret}:{NAME}\"

A website: archipel website enable {NAME} --data-dir {one}; then http://{NAME}.localhost:{port}/

Buckets and keys: archipel --help; for this node, for example: archipel status --data-dir {one}"
        )
    }

    /// Lists the nodes, each of which answers all requests.
    fn table(&self) -> String {
        let mut text =
            String::from("\nEach node answers all requests; stop one and go on with another:\n");
        for node in &self.nodes {
            let ReadyNode { pid, zone, s3, .. } = node;
            text.push_str(&format!("  {zone:<8}  http://{s3}  process {pid}\n"));
        }
        text
    }
}
