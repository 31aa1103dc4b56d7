//! The configuration that `archipel init` writes, and what it says afterwards.

use std::fmt::Write as _;
use std::path::Path;

use super::Written;
use super::questions::{Answers, Together};
use crate::cli::init::InitArgs;

/// Returns the configuration.
pub(super) fn configuration(
    answers: &Answers,
    access_key: &str,
    key_file: &Path,
    secret_file: Option<&Path>,
) -> String {
    let mut text = format!(
        "# Made by archipel init. All settings with their defaults: archipel config example\n\n\
         # The folder for everything: metadata, blocks, the node's identity, the admin socket.\n\
         data_dir = {}\n\n\
         [s3]\n\
         # The address for S3 clients. It is plain HTTP without [tls]: on other than loopback addresses use\n\
         # certificates, here or in a proxy.\n\
         listen = {}\n",
        quoted(&answers.data_dir),
        quoted(&answers.s3_listen)
    );
    if let Some(console) = &answers.console_listen {
        let _ = write!(
            text,
            "\n[console]\n\
             # The address of the web console. `archipel console` prints a link that logs in.\n\
             listen = {}\n",
            quoted(console)
        );
    }
    if let (Some(together), Some(secret_file)) = (&answers.together, secret_file) {
        text.push_str(&cluster(together, secret_file));
    }
    text.push_str(
        "\n[first_start]\n\
         # The first start of the cluster makes this access key and bucket. Later starts do not look at it.\n",
    );
    if let Some(bucket) = &answers.bucket {
        let _ = writeln!(text, "bucket = {}", quoted(bucket));
    }
    let _ = write!(
        text,
        "access_key = {}\nsecret_key_file = {}\n",
        quoted(access_key),
        quoted(&key_file.display().to_string())
    );
    text
}

fn cluster(together: &Together, secret_file: &Path) -> String {
    let port = together
        .address
        .rsplit_once(':')
        .map_or("3901", |(_, port)| port);
    let (join, discover): (Vec<&String>, Vec<&String>) =
        together.others.iter().partition(|other| is_address(other));
    let mut text = format!(
        "\n[cluster]\n\
         # The address for other nodes: UDP and TCP. Open the port between the machines.\n\
         listen = {}\n\
         # The address at which the others reach this node.\n\
         advertise = [{}]\n\
         # The secret that all nodes know, and nobody else.\n\
         secret_file = {}\n\
         # The site of this node. Copies of an object are in different zones.\n\
         zone = {}\n\
         # The number of nodes that form the cluster once all are there: the same on all of them.\n\
         first_nodes = {}\n",
        quoted(&format!("[::]:{port}")),
        quoted(&together.address),
        quoted(&secret_file.display().to_string()),
        quoted(&together.zone),
        together.nodes
    );
    if !join.is_empty() {
        let _ = writeln!(text, "# The other nodes.\njoin = {}", list(&join));
    }
    if !discover.is_empty() {
        let _ = writeln!(
            text,
            "# Where nodes are looked up.\ndiscover = {}",
            list(&discover)
        );
    }
    text
}

/// Returns true for an address of a node, and false for a source that tells addresses.
fn is_address(text: &str) -> bool {
    !text.contains("://") || text.starts_with("tcp://")
}

fn list(texts: &[&String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Returns what to do next.
pub(super) fn next_steps(args: &InitArgs, answers: &Answers, written: &Written) -> String {
    let (config, key_file) = (written.config.display(), written.key_file.display());
    let access_key = &written.access_key;
    let mut said = format!(
        "wrote {config}\n\
         access key  {access_key}\n\
         its secret  in {key_file}\n\
         start with  archipel server --config {config}\n"
    );
    if let (Some(together), Some(secret_file), None) =
        (&answers.together, &written.secret_file, &args.access_key)
    {
        let (nodes, bucket) = (together.nodes, answers.bucket.as_deref().unwrap_or("none"));
        let _ = write!(
            said,
            "\nThe cluster forms once {nodes} nodes run. On each other machine:\n\
             1. copy {} and {key_file} there (mode 600)\n\
             2. archipel init --nodes {nodes} --bucket {bucket} --access-key {access_key}\n",
            secret_file.display()
        );
    }
    let files: Vec<String> = written
        .without_owner
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if !files.is_empty() {
        let files = files.join(" ");
        let _ = write!(
            said,
            "\n{} is missing, so root has the files. Make it for the server's user, and then:\n\
             chown USER {files}\n",
            answers.data_dir
        );
    }
    said
}
