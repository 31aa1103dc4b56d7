//! Garage: a process in each node, joined to one cluster by its own command line.

use std::fs;
use std::path::Path;
use std::process::Command;

use netlab::lab::Lab;
use netlab::topology::{Node, Role};

use super::server::{BUCKET, PEER_PORT, S3_PORT, Started, output, servers, spawn, until};
use crate::Outcome;

const KEY: &str = "GK0123456789abcdef01234567";
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Starts it in each node that is not for clients.
pub async fn start(lab: &Lab, folder: &Path, binary: &Path, fsync: bool) -> Outcome<Started> {
    let binary = std::path::absolute(binary)?;
    let version = super::version(&binary);
    let mut started = Started {
        processes: Vec::new(),
        logs: Vec::new(),
        endpoints: Vec::new(),
        certificates: Vec::new(),
        key: KEY.into(),
        secret: SECRET.into(),
        region: "garage".into(),
        durability: if fsync {
            "fsync of data and metadata"
        } else {
            "no fsync (its default)"
        }
        .into(),
        server: version.split(" [").next().unwrap_or(&version).to_owned(),
    };
    let nodes = servers(lab);
    let storage = nodes
        .iter()
        .filter(|node| node.role == Role::Storage)
        .count();
    for node in &nodes {
        let home = folder.join(&node.name);
        fs::create_dir(&home)?;
        fs::write(
            home.join("garage.toml"),
            config(lab, node, &home, storage.min(3), fsync)?,
        )?;
        let mut command = garage(lab, folder, node, &binary)?;
        command.arg("server").env("RUST_LOG", "warn");
        let log = folder.join(format!("{}.log", node.name));
        started.processes.push(spawn(command, &log)?);
        started.logs.push(log);
        let url = format!("http://{}:{S3_PORT}", lab.address(&node.name)?);
        started.endpoints.push((node.clone(), url));
    }
    let formed = form(lab, folder, &nodes, &binary).await;
    if formed.is_err() {
        started.print_logs();
    }
    formed.map(|()| started)
}

fn config(lab: &Lab, node: &Node, home: &Path, replicas: usize, fsync: bool) -> Outcome<String> {
    let address = lab.address(&node.name)?;
    Ok(format!(
        "metadata_dir = {:?}\ndata_dir = {:?}\ndb_engine = \"lmdb\"\nreplication_factor = {replicas}\n\
         metadata_fsync = {fsync}\ndata_fsync = {fsync}\n\
         rpc_secret = \"{SECRET}\"\nrpc_bind_addr = \"{address}:{PEER_PORT}\"\n\
         rpc_public_addr = \"{address}:{PEER_PORT}\"\n\
         [s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"{address}:{S3_PORT}\"\n",
        home.join("meta"),
        home.join("data"),
    ))
}

fn garage(lab: &Lab, folder: &Path, node: &Node, binary: &Path) -> Outcome<Command> {
    let mut command = lab.command(&node.name, binary)?;
    command
        .arg("-c")
        .arg(folder.join(&node.name).join("garage.toml"));
    Ok(command)
}

async fn form(lab: &Lab, folder: &Path, nodes: &[Node], binary: &Path) -> Outcome<()> {
    let first = nodes.first().ok_or("no nodes")?;
    let on_first = |arguments: &[&str]| -> Outcome<String> {
        output(garage(lab, folder, first, binary)?.args(arguments))
    };
    let mut ids = Vec::new();
    for node in nodes {
        let id = async || output(garage(lab, folder, node, binary)?.args(["node", "id", "-q"]));
        ids.push(until(id).await?);
    }
    join(lab, folder, nodes, binary, &ids).await?;
    for (node, id) in nodes.iter().zip(&ids) {
        let id = id.split('@').next().unwrap_or(id);
        let part: &[&str] = match node.role {
            Role::Storage => &["-c", "100G"],
            _ => &["-g"],
        };
        let assign = [&["layout", "assign", "-z", &node.site, id], part].concat();
        until(async || on_first(&assign)).await?;
    }
    on_first(&["layout", "apply", "--version", "1"])?;
    until(async || on_first(&["key", "import", "--yes", "-n", "bench", KEY, SECRET])).await?;
    until(async || on_first(&["bucket", "create", BUCKET])).await?;
    on_first(&[
        "bucket", "allow", "--read", "--write", "--owner", "--key", KEY, BUCKET,
    ])?;
    Ok(())
}

/// Connects all nodes with each other. Garage would do so by itself, but later than the first
/// requests.
async fn join(
    lab: &Lab,
    folder: &Path,
    nodes: &[Node],
    binary: &Path,
    ids: &[String],
) -> Outcome<()> {
    for (place, node) in nodes.iter().enumerate() {
        let on_node = |arguments: &[&str]| -> Outcome<String> {
            output(garage(lab, folder, node, binary)?.args(arguments))
        };
        for (_, id) in ids.iter().enumerate().filter(|(other, _)| *other != place) {
            until(async || on_node(&["node", "connect", id])).await?;
        }
        let all = format!("\"connectedNodes\": {}", nodes.len());
        let knows_all = async || {
            if on_node(&["json-api", "GetClusterHealth"])?.contains(&all) {
                Ok(())
            } else {
                Err("not all nodes are connected".into())
            }
        };
        until(knows_all).await?;
    }
    Ok(())
}
