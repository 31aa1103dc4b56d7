//! The answers of `archipel init`.

use std::io::{self, BufRead, Write};

use crate::cli::init::InitArgs;
use crate::client::Failure;
use crate::config;

/// The answers from which the configuration is made.
pub(super) struct Answers {
    pub data_dir: String,
    pub s3_listen: String,
    pub console_listen: Option<String>,
    pub bucket: Option<String>,
    /// The settings of nodes that begin together, if several do.
    pub together: Option<Together>,
}

/// The settings of nodes that begin together.
pub(super) struct Together {
    pub nodes: u16,
    /// The address of this node.
    pub address: String,
    /// The addresses of the others, and the sources that tell them.
    pub others: Vec<String>,
    pub zone: String,
}

/// Collects the answers: from flags, then from standard input, then the defaults.
pub(super) fn ask(args: &InitArgs) -> Result<Answers, Failure> {
    let asked = |given: &Option<String>, flag, question, usual| match given {
        Some(given) => Ok(given.clone()),
        None => answer(args, flag, question, usual),
    };
    let usual_data = "/var/lib/archipel";
    let data_dir = asked(
        &args.data_dir,
        "--data-dir",
        "Folder for the data",
        usual_data,
    )?;
    let question = "Address for S3 clients (plain HTTP: keep it local, or see docs/tls.md)";
    let s3_listen = asked(&args.s3_listen, "--s3-listen", question, "127.0.0.1:3900")?;
    let question = "Address of the web console, or none";
    let console = asked(
        &args.console_listen,
        "--console-listen",
        question,
        "127.0.0.1:3905",
    )?;
    let bucket = asked(&args.bucket, "--bucket", "First bucket, or none", "none")?;
    let nodes = match args.nodes {
        Some(nodes) => nodes.to_string(),
        None => answer(args, "--nodes", "Number of nodes that begin together", "1")?,
    };
    let wrong = |_| Failure::new(format!("{nodes:?} is not a number of nodes"));
    let nodes: u16 = nodes.parse().map_err(wrong)?;
    let together = match nodes {
        1 => None,
        nodes => Some(Together {
            nodes,
            address: reachable(asked(
                &args.address,
                "--address",
                "Address at which the other nodes reach this one, as host:port",
                "",
            )?)?,
            others: others(args)?,
            zone: asked(
                &args.zone,
                "--zone",
                "Zone (the site) of this node",
                "local",
            )?,
        }),
    };
    let some = |text: String| Some(text).filter(|text| text != "none");
    Ok(Answers {
        data_dir,
        s3_listen,
        console_listen: some(console),
        bucket: some(bucket),
        together,
    })
}

/// Returns the address of this node, unless it stands for all interfaces: nobody can dial that.
fn reachable(address: String) -> Result<String, Failure> {
    match config::is_unspecified(&address) {
        false => Ok(address),
        true => Err(Failure::new(format!(
            "{address:?} stands for all interfaces of this machine: no other node can dial it; fix: give --address a \
             name or an address at which the others reach this machine, such as nas.example.org:3901"
        ))),
    }
}

fn others(args: &InitArgs) -> Result<Vec<String>, Failure> {
    if !args.others.is_empty() {
        return Ok(args.others.clone());
    }
    let question = "Addresses of the other nodes (host:port, with commas), or dns://NAME:PORT";
    let text = answer(args, "--others", question, "")?;
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    Ok(parts.map(str::to_owned).collect())
}

/// Returns the answer of the person, or the default. An empty default means that there is none.
fn answer(args: &InitArgs, flag: &str, question: &str, usual: &str) -> Result<String, Failure> {
    let missing = || Failure::new(format!("{question}: no answer; fix: give {flag}"));
    let default = || Some(usual.to_owned()).filter(|usual| !usual.is_empty());
    if args.non_interactive {
        return default().ok_or_else(missing);
    }
    let cannot = |error: io::Error| Failure::new(format!("cannot ask: {error}"));
    let shown = default().map_or(String::new(), |usual| format!(" [{usual}]"));
    let mut out = io::stderr().lock();
    write!(out, "{question}{shown}: ").map_err(cannot)?;
    out.flush().map_err(cannot)?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line).map_err(cannot)? == 0 {
        return Err(missing());
    }
    match line.trim() {
        "" => default().ok_or_else(missing),
        said => Ok(said.to_owned()),
    }
}
