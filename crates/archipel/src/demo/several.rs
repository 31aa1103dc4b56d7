//! A demo of several nodes, each a process of its own in a zone of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archipel_api::admin::types::{
    Apply, Assign, BucketInfo, BucketSummary, ChangeGrant, CreateBucket, CreateKey, KeyInfo,
    KeyWithSecret, LayoutInfo, NodeInfo, NodeStatus, Redundancy, Stage,
};
use archipel_base::random::{Random, SystemRandom};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::process::Child;

use super::{NAME, Ready, ReadyNode, children, ports};
use crate::cli::DemoArgs;
use crate::client::{Client, Failure, path};
use crate::config::ADMIN_SOCKET;
use crate::identity::replace;
use crate::process::StopSignals;
use crate::{logs, node};

/// In the demo's folder: its nodes.
const PLAN: &str = "demo.json";
/// The time that the nodes may take until they serve together, and the time to add for each node:
/// all share one machine.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
const READY_TIMEOUT_EACH: Duration = Duration::from_secs(5);
/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// The pause before what a busy node refused is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The capacity that each node announces.
const CAPACITY_BYTES: u64 = 100_000_000_000;
/// The most copies that a demo makes.
const MAX_REPLICAS: usize = 3;

/// The state that stays the same from one start to the next.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    nodes: Vec<Member>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    dir: PathBuf,
    zone: String,
    /// The address at which it listens for other nodes.
    cluster: SocketAddr,
}

/// Refuses to run one node where several are kept.
pub fn refuse_in(dir: &Path) -> Result<(), Failure> {
    match dir.join(PLAN).exists() {
        false => Ok(()),
        true => Err(Failure::new(format!(
            "--dir {}: a demo of several nodes is kept there; fix: give --nodes as before, or another folder",
            dir.display()
        ))),
    }
}

/// Runs them until a signal.
pub fn run(args: &DemoArgs, dir: &Path) -> Result<(), Failure> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = crate::config::for_demo(dir.to_owned(), any, any, any, any);
    logs::start(&settings.log).map_err(Failure::new)?;
    let plan = plan(dir, args.nodes as usize)?;
    node::runtime()?.block_on(async {
        let mut signals =
            StopSignals::new().map_err(|error| Failure::new(format!("signals: {error}")))?;
        let mut running = Vec::new();
        for (place, member) in plan.nodes.iter().enumerate() {
            let port = match args.port {
                0 => 0,
                port => port + place as u16,
            };
            running.push(start(dir, &plan, member, port)?);
        }
        let time = READY_TIMEOUT + READY_TIMEOUT_EACH * args.nodes;
        let formed = tokio::select! {
            ready = tokio::time::timeout(time, form(&plan, &mut running)) => {
                Some(ready.unwrap_or_else(|_| Err(late(&plan))))
            }
            _ = signals.next() => None,
        };
        let served = match formed {
            Some(ready) => {
                let announced = ready.and_then(|ready| {
                    let dir = dir.to_owned();
                    Ready { dir, ..ready }.announce(args.json)
                });
                if announced.is_ok() {
                    signals.next().await;
                }
                announced
            }
            None => Ok(()),
        };
        children::stop(&mut running).await;
        served
    })
}

fn late(plan: &Plan) -> Failure {
    let logs: Vec<String> = plan
        .nodes
        .iter()
        .map(|m| log_of(m).display().to_string())
        .collect();
    Failure::new(format!(
        "the nodes do not serve together; their logs: {}",
        logs.join(", ")
    ))
}

fn log_of(member: &Member) -> PathBuf {
    member.dir.join("log")
}

/// Reads the plan of an earlier start, or makes one.
fn plan(dir: &Path, nodes: usize) -> Result<Plan, Failure> {
    let cannot = |error: std::io::Error| Failure::new(format!("--dir {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    let file = dir.join(PLAN);
    if let Ok(text) = std::fs::read(&file) {
        let plan: Plan = serde_json::from_slice(&text)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        if plan.nodes.len() != nodes {
            let (there, asked) = (plan.nodes.len(), nodes);
            return Err(Failure::new(format!(
                "--nodes {asked}: a demo of {there} nodes is kept in {}; fix: --nodes {there}, or another folder",
                dir.display()
            )));
        }
        return Ok(plan);
    }
    if dir.join("node.key").exists() {
        return Err(Failure::new(format!(
            "--dir {}: a demo of one node is kept there; fix: --nodes 1, or another folder",
            dir.display()
        )));
    }
    let mut secret = [0; 32];
    SystemRandom.fill(&mut secret);
    replace(&dir.join("secret"), hex::encode(secret).as_bytes()).map_err(cannot)?;
    let mut members = Vec::new();
    for number in 1..=nodes {
        members.push(Member {
            dir: dir.join(format!("node{number}")),
            zone: format!("zone{number}"),
            cluster: ports::free_address(&taken(&members)).map_err(cannot)?,
        });
    }
    let plan = Plan { nodes: members };
    let text = serde_json::to_vec_pretty(&plan).map_err(|error| Failure::new(error.to_string()))?;
    replace(&file, &text).map_err(cannot)?;
    Ok(plan)
}

fn taken(members: &[Member]) -> Vec<SocketAddr> {
    members.iter().map(|member| member.cluster).collect()
}

fn start(dir: &Path, plan: &Plan, member: &Member, port: u16) -> Result<Child, Failure> {
    let cannot = |error: std::io::Error| Failure::new(format!("{}: {error}", member.dir.display()));
    std::fs::create_dir_all(&member.dir).map_err(cannot)?;
    let first = plan.nodes.first().map(|node| node.cluster);
    let join: Vec<String> = first
        .filter(|first| *first != member.cluster)
        .map(|first| first.to_string())
        .into_iter()
        .collect();
    let (web, k2v) = (ports::web(port), ports::k2v(port));
    let console = ports::console(port);
    let config = format!(
        "data_dir = {:?}\n\n[s3]\nlisten = \"127.0.0.1:{port}\"\nbase_domains = [\"localhost\"]\n\n\
         [web]\nlisten = \"127.0.0.1:{web}\"\nroot_domain = \"localhost\"\n\n\
         [k2v]\nlisten = \"127.0.0.1:{k2v}\"\n\n\
         [console]\nlisten = \"127.0.0.1:{console}\"\n\n\
         [cluster]\nlisten = \"{}\"\nsecret_file = {:?}\njoin = {join:?}\nzone = {:?}\n\n\
         [limits]\nshutdown_seconds = 10\n",
        member.dir,
        member.cluster,
        dir.join("secret"),
        member.zone,
    );
    let file = config_of(member);
    replace(&file, config.as_bytes()).map_err(cannot)?;
    children::start(&file, &log_of(member))
}

fn config_of(member: &Member) -> PathBuf {
    member.dir.join("archipel.toml")
}

fn admin_of(member: &Member) -> Client {
    Client::socket(member.dir.join(ADMIN_SOCKET))
}

/// Waits until the nodes are there, makes them one cluster, and prepares bucket and key.
async fn form(plan: &Plan, running: &mut [Child]) -> Result<Ready, Failure> {
    let mut nodes = Vec::new();
    for (member, child) in plan.nodes.iter().zip(running) {
        nodes.push(node_ready(member, child).await?);
    }
    let first = plan.nodes.first().ok_or_else(|| late(plan))?;
    let admin = admin_of(first);
    let known = all_known(plan, &admin).await?;
    let (status, key) = loop {
        let prepared = async {
            assign(plan, &admin, &known).await?;
            prepare(&admin).await
        };
        match prepared.await {
            // Nodes that all start at once may be too busy. Each step looks first whether it was
            // done.
            Err(Failure::Refused(problem)) if problem.status == StatusCode::SERVICE_UNAVAILABLE => {
                tracing::debug!(problem.detail, "the nodes are busy; next try soon");
                tokio::time::sleep(PAUSE).await;
            }
            done => break done?,
        }
    };
    everywhere(plan, &key).await?;
    let console_login = super::link(&admin).await;
    Ok(Ready {
        endpoint: status.s3_endpoint,
        web: status.web_endpoint.unwrap_or_default(),
        k2v: status.k2v_endpoint.unwrap_or_default(),
        console: status.console_endpoint.unwrap_or_default(),
        console_login,
        region: status.region,
        access_key: key.key.id,
        secret_key: key.secret,
        bucket: NAME,
        nodes,
        dir: PathBuf::new(),
    })
}

async fn node_ready(member: &Member, child: &mut Child) -> Result<ReadyNode, Failure> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            let log = log_of(member);
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let last = text.lines().last().unwrap_or_default().to_owned();
            return Err(Failure::new(format!(
                "a node ended ({status}): {last} (log: {})",
                log.display()
            )));
        }
        if let Ok(status) = admin_of(member).get::<NodeStatus>("/v1/status").await {
            return Ok(ReadyNode {
                pid: child.id().unwrap_or_default(),
                zone: member.zone.clone(),
                dir: member.dir.display().to_string(),
                s3: without_scheme(&status.s3_endpoint),
                web: without_scheme(&status.web_endpoint.unwrap_or_default()),
                k2v: without_scheme(&status.k2v_endpoint.unwrap_or_default()),
                console: without_scheme(&status.console_endpoint.unwrap_or_default()),
                admin: member.dir.join(ADMIN_SOCKET).display().to_string(),
                cluster: Some(member.cluster.to_string()),
                config: Some(config_of(member).display().to_string()),
            });
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn without_scheme(endpoint: &str) -> String {
    let address = endpoint.split_once("://").map(|(_, address)| address);
    address.unwrap_or(endpoint).to_owned()
}

/// Returns the nodes as the first knows them, in the plan's order, once it knows all.
async fn all_known(plan: &Plan, admin: &Client) -> Result<Vec<NodeInfo>, Failure> {
    loop {
        let nodes: Vec<NodeInfo> = admin.list("/v1/nodes").await?;
        let find = |member: &Member| {
            let address = member.cluster.to_string();
            let mut there = nodes.iter().filter(|node| node.state.answers());
            there
                .find(|node| node.addresses.contains(&address))
                .cloned()
        };
        let known: Option<Vec<NodeInfo>> = plan.nodes.iter().map(find).collect();
        if let Some(known) = known {
            return Ok(known);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Makes a layout of all nodes, unless there is one, and waits until it is in force alone.
async fn assign(plan: &Plan, admin: &Client, nodes: &[NodeInfo]) -> Result<(), Failure> {
    let layout: LayoutInfo = admin.get("/v1/layout").await?;
    let replicas = nodes.len().min(MAX_REPLICAS) as u8;
    if layout.nodes.len() != nodes.len() || layout.redundancy.replicas != replicas {
        let roles = plan.nodes.iter().zip(nodes).map(|(member, node)| Assign {
            node: node.id.clone(),
            zone: Some(member.zone.clone()),
            capacity_bytes: Some(CAPACITY_BYTES),
        });
        let stage = Stage {
            assign: roles.collect(),
            redundancy: Some(Redundancy {
                replicas,
                zones: None,
            }),
            ..Stage::default()
        };
        let staged: LayoutInfo = admin.post("/v1/layout/stage", &stage).await?;
        let apply = staged.staged.map(|staged| Apply {
            version: staged.version,
            revision: Some(staged.revision),
        });
        if let Some(apply) = apply {
            let _: LayoutInfo = admin.post("/v1/layout/apply", &apply).await?;
        }
    }
    loop {
        let layout: LayoutInfo = admin.get("/v1/layout").await?;
        if layout.progress.is_none() && layout.nodes.len() == nodes.len() {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Finds the key of an earlier run, or makes one; and the bucket, which it may use for everything.
async fn prepare(admin: &Client) -> Result<(NodeStatus, KeyWithSecret), Failure> {
    let (keys, buckets) = known(admin).await?;
    let key: KeyWithSecret = match keys.into_iter().find(|key| key.name == NAME) {
        Some(key) => {
            let shown = path(&["v1", "keys", &key.id, "secret"]);
            admin.get(&shown).await?
        }
        None => {
            let ask = CreateKey {
                name: NAME.into(),
                create_bucket: true,
                ..CreateKey::default()
            };
            admin.post("/v1/keys", &ask).await?
        }
    };
    if buckets.iter().all(|bucket| bucket.name != NAME) {
        let ask = CreateBucket {
            name: NAME.into(),
            owner: Some(key.key.id.clone()),
        };
        let _: BucketInfo = admin.post("/v1/buckets", &ask).await?;
    } else {
        let all = ChangeGrant {
            read: Some(true),
            write: Some(true),
            owner: Some(true),
        };
        let grant = path(&["v1", "buckets", NAME, "grants", &key.key.id]);
        let _: serde_json::Value = admin.patch(&grant, &all).await?;
    }
    Ok((admin.get("/v1/status").await?, key))
}

/// Returns all keys and buckets, once the node knows them: what an earlier run made must not be
/// made again.
async fn known(admin: &Client) -> Result<(Vec<KeyInfo>, Vec<BucketSummary>), Failure> {
    loop {
        let status: NodeStatus = admin.get("/v1/status").await?;
        if status.access_keys.is_some() && status.buckets.is_some() {
            let keys = admin.list("/v1/keys").await?;
            return Ok((keys, admin.list("/v1/buckets").await?));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits until every node knows the key and the layout: then each serves.
async fn everywhere(plan: &Plan, key: &KeyWithSecret) -> Result<(), Failure> {
    for member in &plan.nodes {
        let admin = admin_of(member);
        while admin
            .get::<KeyInfo>(&path(&["v1", "keys", &key.key.id]))
            .await
            .is_err()
        {
            tokio::time::sleep(INTERVAL).await;
        }
    }
    Ok(())
}
