//! Archipel: a process in each node, joined to one cluster over the admin API.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hyper::Method;
use netlab::lab::Lab;
use netlab::topology::{Node, Role};
use serde_json::{Value, json};

use super::server::{BUCKET, K2V_PORT, PEER_PORT, S3_PORT, Started, servers, spawn, until};
use crate::{Outcome, http};

const CAPACITY: u64 = 100_000_000_000;

/// The program, with the settings that experiments compare.
#[derive(Clone)]
pub struct Setup {
    /// The program.
    pub binary: PathBuf,
    /// True to acknowledge before a sync.
    pub buffered: bool,
    /// The metadata engine, if not the default.
    pub engine: Option<String>,
    /// True for S3 over TLS, with certificates that the nodes make themselves.
    pub tls: bool,
}

impl Setup {
    /// Returns its name for file names.
    pub fn name(&self) -> String {
        let durability = self.buffered.then_some("buffered");
        let tls = self.tls.then_some("tls");
        let parts = [Some("archipel"), durability, self.engine.as_deref(), tls];
        parts.into_iter().flatten().collect::<Vec<_>>().join("-")
    }

    /// Starts it in each node that is not for clients.
    pub async fn start(&self, lab: &Lab, folder: &Path) -> Outcome<Started> {
        start(lab, folder, self).await
    }
}

async fn start(lab: &Lab, folder: &Path, setup: &Setup) -> Outcome<Started> {
    let binary = std::path::absolute(&setup.binary)?;
    let secret = folder.join("secret");
    fs::write(&secret, "only-known-within-the-lab-that-uses-it")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let mut started = Started {
        processes: Vec::new(),
        logs: Vec::new(),
        endpoints: Vec::new(),
        key: String::new(),
        secret: String::new(),
        region: "us-east-1".into(),
        certificates: Vec::new(),
        durability: if setup.buffered { "buffered" } else { "fsync" }.into(),
        server: [
            Some(super::version(&binary).as_str()),
            setup.engine.as_deref(),
            setup.tls.then_some("TLS"),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", "),
    };
    for node in servers(lab) {
        let home = folder.join(&node.name);
        fs::create_dir(&home)?;
        fs::write(
            home.join("archipel.toml"),
            config(lab, &node, folder, setup)?,
        )?;
        let mut command = lab.command(&node.name, &binary)?;
        command
            .args(["server", "--config"])
            .arg(home.join("archipel.toml"));
        let log = folder.join(format!("{}.log", node.name));
        started.processes.push(spawn(command, &log)?);
        started.logs.push(log);
        let scheme = if setup.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}:{S3_PORT}", lab.address(&node.name)?);
        if setup.tls {
            started.certificates.push(home.join("self-signed.pem"));
        }
        started.endpoints.push((node, url));
    }
    let formed = form(lab, folder, &mut started).await;
    if formed.is_err() {
        started.print_logs();
    }
    formed.map(|()| started)
}

fn config(lab: &Lab, node: &Node, folder: &Path, setup: &Setup) -> Outcome<String> {
    let address = lab.address(&node.name)?;
    let first = servers(lab).into_iter().next().ok_or("no nodes")?;
    let join = if first.name == node.name {
        String::new()
    } else {
        format!("\"{}:{PEER_PORT}\"", lab.address(&first.name)?)
    };
    let mut text = format!("data_dir = {:?}\n", folder.join(&node.name));
    if setup.buffered {
        text += "durability = \"buffered\"\n";
    }
    if let Some(engine) = &setup.engine {
        writeln!(text, "engine = {engine:?}")?;
    }
    write!(
        text,
        "[s3]\nlisten = \"{address}:{S3_PORT}\"\nsse_c_over_http = true\n[k2v]\nlisten = \"{address}:{K2V_PORT}\"\n[cluster]\nlisten = \"{address}:{PEER_PORT}\"\n\
         secret_file = {:?}\njoin = [{join}]\nzone = \"{}\"\n",
        folder.join("secret"),
        node.site
    )?;
    if setup.tls {
        text += "[tls]\nself_signed = true\nlisteners = [\"s3\"]\n";
    }
    Ok(text)
}

/// Joins the nodes to one cluster and makes a key and a bucket in it.
async fn form(lab: &Lab, folder: &Path, started: &mut Started) -> Outcome<()> {
    let nodes = servers(lab);
    let first = folder
        .join(&nodes.first().ok_or("no nodes")?.name)
        .join("admin.sock");
    let first = first.display().to_string();
    let ids = until(async || known(lab, &nodes, &first).await).await?;
    let assign = nodes.iter().zip(ids).map(|(node, id)| {
        let capacity = match node.role {
            Role::Storage => CAPACITY,
            _ => 0,
        };
        json!({"node": id, "zone": node.site, "capacity_bytes": capacity})
    });
    let assign: Vec<Value> = assign.collect();
    let storage = nodes
        .iter()
        .filter(|node| node.role == Role::Storage)
        .count();
    let stage = json!({"assign": assign, "redundancy": {"replicas": storage.min(3)}});
    let staged = post(&first, "/v1/layout/stage", stage).await?;
    let version = staged
        .pointer("/staged/version")
        .ok_or("nothing is staged")?;
    post(&first, "/v1/layout/apply", json!({"version": version})).await?;
    until(async || settled(&first, nodes.len()).await).await?;
    let key = post(
        &first,
        "/v1/keys",
        json!({"name": "bench", "create_bucket": true}),
    )
    .await?;
    let text = |name: &str| key.get(name).and_then(Value::as_str).map(str::to_owned);
    started.key = text("id").ok_or("a key without id")?;
    started.secret = text("secret").ok_or("a key without secret")?;
    post(
        &first,
        "/v1/buckets",
        json!({"name": BUCKET, "owner": started.key}),
    )
    .await?;
    serving(folder, &nodes).await
}

/// Returns the nodes' ids in their order, once the first node knows all of them.
async fn known(lab: &Lab, nodes: &[Node], first: &str) -> Outcome<Vec<String>> {
    let listed = get(first, "/v1/nodes").await?;
    let listed = listed.get("items").and_then(Value::as_array);
    let listed = listed.ok_or("no list of nodes")?;
    let find = |node: &Node| -> Outcome<String> {
        let address = format!("{}:{PEER_PORT}", lab.address(&node.name)?);
        let has = |one: &&Value| {
            let addresses = one.get("addresses").and_then(Value::as_array);
            let state = one.get("state").and_then(Value::as_str);
            let there = matches!(state, Some("alive" | "self"));
            there && addresses.is_some_and(|all| all.iter().any(|a| *a == address.as_str()))
        };
        let id = listed
            .iter()
            .find(has)
            .and_then(|one| one.get("id")?.as_str());
        Ok(id
            .ok_or_else(|| format!("the first node does not know {} yet", node.name))?
            .to_owned())
    };
    nodes.iter().map(find).collect()
}

async fn settled(first: &str, count: usize) -> Outcome<()> {
    let layout = get(first, "/v1/layout").await?;
    let nodes = layout
        .get("nodes")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    if layout.get("progress").is_none_or(Value::is_null) && nodes == count {
        Ok(())
    } else {
        Err("the layout is not in force".into())
    }
}

/// Waits until each node reports that it is healthy.
async fn serving(folder: &Path, nodes: &[Node]) -> Outcome<()> {
    for node in nodes {
        let socket = folder
            .join(&node.name)
            .join("admin.sock")
            .display()
            .to_string();
        until(async || get(&socket, "/health").await.map(drop)).await?;
    }
    Ok(())
}

async fn get(socket: &str, path: &str) -> Outcome<Value> {
    let text = http::call(socket, Method::GET, path, None).await?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn post(socket: &str, path: &str, body: Value) -> Outcome<Value> {
    let text = http::call(socket, Method::POST, path, Some(body.to_string())).await?;
    Ok(serde_json::from_str(&text)?)
}
