//! A started server: processes, endpoints, a key and a bucket.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netlab::lab::Lab;
use netlab::topology::{Node, Role};

use super::{archipel, garage, other};
use crate::results::Usage;
use crate::{Outcome, process};

/// The port for S3 on all servers.
pub const S3_PORT: u16 = 3900;
/// The port for K2V on all servers.
pub const K2V_PORT: u16 = 3904;
/// The port between nodes on all servers.
pub const PEER_PORT: u16 = 3901;
/// The bucket of the experiments.
pub const BUCKET: &str = "bench";

/// A kind of server.
pub enum Kind {
    /// Archipel.
    Archipel(archipel::Setup),
    /// Garage.
    Garage {
        /// The program.
        binary: PathBuf,
        /// True for Garage's two fsync settings.
        fsync: bool,
    },
    /// A server that a file describes.
    Other(other::Description),
}

/// Running servers. They end with this process if the value is leaked.
pub struct Started {
    /// All processes.
    pub processes: Vec<Child>,
    /// Their logs.
    pub logs: Vec<PathBuf>,
    /// The nodes and URLs of storage nodes and gateways.
    pub endpoints: Vec<(Node, String)>,
    /// The files with the certificates of endpoints that speak TLS.
    pub certificates: Vec<PathBuf>,
    /// The access key.
    pub key: String,
    /// Its secret.
    pub secret: String,
    /// The region to sign for.
    pub region: String,
    /// The durability of an acknowledged write.
    pub durability: String,
    /// Name and version.
    pub server: String,
}

impl Kind {
    /// Returns its name for file names.
    pub fn name(&self) -> String {
        match self {
            Self::Archipel(setup) => setup.name(),
            Self::Garage { fsync: false, .. } => "garage".into(),
            Self::Garage { fsync: true, .. } => "garage-fsync".into(),
            Self::Other(description) => description.name.clone(),
        }
    }

    /// Starts a node in each place that is not for clients, with a key and a bucket.
    pub async fn start(&self, lab: &Lab, folder: &Path) -> Outcome<Started> {
        match self {
            Self::Archipel(setup) => setup.start(lab, folder).await,
            Self::Garage { binary, fsync } => garage::start(lab, folder, binary, *fsync).await,
            Self::Other(description) => description.start(lab, folder).await,
        }
    }
}

impl Started {
    /// Returns the arguments of an experiment at this site. A gateway at the site comes first,
    /// otherwise a storage node. With `k2v`, the endpoints are those of K2V.
    pub fn arguments(&self, site: &str, k2v: bool) -> Vec<String> {
        let of_k2v = |url: &str| url.replace(&format!(":{S3_PORT}"), &format!(":{K2V_PORT}"));
        let numbered = self.endpoints.iter().enumerate();
        let mut endpoints: Vec<(&Node, String, usize)> = numbered
            .map(|(number, (node, url))| {
                let url = if k2v { of_k2v(url) } else { url.clone() };
                (node, url, number)
            })
            .collect();
        endpoints.sort_by_key(|(node, ..)| (node.site != site, node.role != Role::Gateway));
        let first = endpoints.first().filter(|_| k2v);
        let pid = first.and_then(|(.., number)| Some(self.processes.get(*number)?.id()));
        let pid = pid.map(|pid| ("--pid", pid.to_string()));
        let storage = endpoints
            .iter()
            .skip(1)
            .filter(|(node, ..)| node.role == Role::Storage);
        let urls: Vec<&str> = endpoints
            .iter()
            .take(1)
            .chain(storage)
            .map(|(_, url, _)| url.as_str())
            .collect();
        let pairs = [
            ("--endpoint", urls.join(",")),
            ("--access-key", self.key.clone()),
            ("--secret-key", self.secret.clone()),
            ("--region", self.region.clone()),
            ("--bucket", BUCKET.to_owned()),
            ("--durability", self.durability.clone()),
            ("--server", self.server.clone()),
        ];
        let trusted = self
            .certificates
            .iter()
            .map(|file| file.display().to_string());
        let trust = trusted.map(|file| ("--trust", file));
        pairs
            .into_iter()
            .chain(pid)
            .chain(trust)
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    /// Returns the processor time of all processes so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let times = self
            .processes
            .iter()
            .filter_map(|p| process::cpu_seconds(p.id()));
        times.sum()
    }

    /// Returns the usage since the processor time was `before`.
    pub fn usage(&self, before: f64) -> Usage {
        let sizes = self
            .processes
            .iter()
            .filter_map(|p| process::anonymous_mib(p.id()));
        let sizes: Vec<f64> = sizes.collect();
        Usage {
            nodes: self.processes.len(),
            cpu_s: self.cpu_seconds() - before,
            memory_mib: sizes.iter().sum::<f64>() / sizes.len().max(1) as f64,
            most_memory_mib: sizes.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Prints the ends of all logs.
    pub fn print_logs(&self) {
        for log in &self.logs {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = lines
                .get(lines.len().saturating_sub(15)..)
                .unwrap_or_default();
            eprintln!("--- {}\n{}", log.display(), end.join("\n"));
        }
    }

    /// Ends all processes.
    pub async fn stop(mut self) {
        for process in &mut self.processes {
            // A process that has ended cannot be killed.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns the storage nodes and gateways in the network's order.
pub fn servers(lab: &Lab) -> Vec<Node> {
    let nodes = lab.topology.nodes().into_iter();
    nodes.filter(|node| node.role != Role::Client).collect()
}

/// Starts a program that runs until it is stopped. Its output goes to a log.
pub fn spawn(mut command: Command, log: &Path) -> Outcome<Child> {
    let file = File::create(log)?;
    let command = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let program = command.get_program().to_string_lossy().into_owned();
    Ok(command
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?)
}

/// Runs a program to its end. Returns its output.
pub fn output(command: &mut Command) -> Outcome<String> {
    let done = command.stdin(Stdio::null()).output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{command:?}: {}: {said}", done.status).into());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Repeats `what` every 200 ms until it succeeds. Returns the last error after 40 seconds.
pub async fn until<T>(mut what: impl AsyncFnMut() -> Outcome<T>) -> Outcome<T> {
    for _ in 0..200 {
        if let Ok(done) = what().await {
            return Ok(done);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    what().await
}
