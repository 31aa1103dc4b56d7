//! `archipel demo`: a node with a bucket and a key, and what to paste to use it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use archipel_model::{AccessKey, Error, Model, Permissions};
use serde::Serialize;

use crate::cli::{DemoArgs, table};
use crate::client::Failure;
use crate::node::{self, Node};
use crate::{config, logs, process};

/// The bucket's name, and the key's.
const NAME: &str = "demo";

/// What scripts get, on one line.
#[derive(Serialize)]
struct Ready<'a> {
    endpoint: String,
    region: &'a str,
    access_key: &'a str,
    secret_key: &'a str,
    bucket: &'a str,
    nodes: Vec<ReadyNode>,
}

#[derive(Serialize)]
struct ReadyNode {
    pid: u32,
    zone: &'static str,
    dir: String,
    s3: String,
    admin: String,
}

/// Runs it until a signal.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    if args.nodes != 1 {
        return Err(Failure(format!(
            "--nodes {}: this release runs one node; several are for a later one. fix: leave --nodes out",
            args.nodes
        )));
    }
    process::keep_files_private();
    let dir = absolute(&args.dir)?;
    let listen = SocketAddr::from(([127, 0, 0, 1], args.port));
    let settings = config::for_demo(dir, listen);
    logs::start(&settings.log).map_err(Failure)?;
    if let Err(error) = process::raise_open_files() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    node::runtime()?.block_on(async {
        let node = Node::start(settings).await.map_err(Failure)?;
        let key = prepare(node.model())
            .await
            .map_err(|error| Failure(format!("the demo's bucket and key: {error}")))?;
        announce(&node, &key, args.json)?;
        node.run_until_signal().await.map_err(Failure)
    })
}

fn absolute(dir: &Path) -> Result<std::path::PathBuf, Failure> {
    std::path::absolute(dir).map_err(|error| Failure(format!("--dir {}: {error}", dir.display())))
}

/// The key of an earlier run, or a new one; and the bucket, which it may use for everything.
async fn prepare(model: &Model) -> Result<Arc<AccessKey>, Error> {
    let earlier = model.access_keys().into_iter().find(|key| key.name == NAME);
    let key = match earlier {
        Some(key) => key,
        None => model.create_access_key(NAME, true).await?,
    };
    match model.create_bucket(NAME, Some(&key.id)).await {
        Ok(_) => {}
        Err(Error::BucketExists) => {
            model.set_grant(NAME, &key.id, Permissions::ALL).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(key)
}

fn announce(node: &Node, key: &AccessKey, json: bool) -> Result<(), Failure> {
    let endpoint = format!("http://{}", node.s3_address());
    if !json {
        return table::text(&instructions(&endpoint, node, key));
    }
    let settings = node.settings();
    let ready = Ready {
        region: &settings.s3.region,
        access_key: &key.id,
        secret_key: key.secret.expose(),
        bucket: NAME,
        nodes: vec![ReadyNode {
            pid: std::process::id(),
            zone: "local",
            dir: settings.data_dir.display().to_string(),
            s3: node.s3_address().to_string(),
            admin: settings.admin.socket.display().to_string(),
        }],
        endpoint,
    };
    let line = serde_json::to_string(&ready).map_err(|error| Failure(error.to_string()))?;
    table::text(&line)
}

fn instructions(endpoint: &str, node: &Node, key: &AccessKey) -> String {
    let region = &node.settings().s3.region;
    let (id, secret) = (&key.id, key.secret.expose());
    let dir = node.settings().data_dir.display();
    format!(
        "\
Archipel is ready. Its data is in {dir}; Ctrl-C stops it, and the same command starts it again.

  endpoint    {endpoint}
  region      {region}
  access key  {id}
  secret key  {secret}
  bucket      {NAME}

AWS CLI
  AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} AWS_DEFAULT_REGION={region} aws --endpoint-url {endpoint} s3 cp README.md s3://{NAME}/

boto3
  python3 -c \"import boto3; print(boto3.client('s3', endpoint_url='{endpoint}', region_name='{region}', aws_access_key_id='{id}', aws_secret_access_key='{secret}').list_objects_v2(Bucket='{NAME}').get('Contents'))\"

rclone
  rclone copy README.md \":s3,provider=Other,env_auth=false,region={region},endpoint='{endpoint}',access_key_id={id},secret_access_key={secret}:{NAME}\"

Buckets and keys: archipel --help; for this node, for example: archipel status --data-dir {dir}"
    )
}
