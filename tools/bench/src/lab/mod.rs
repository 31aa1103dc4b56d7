//! Experiments on servers started here, one in each node of an emulated network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`server`] | a started server |
//! | [`archipel`], [`garage`], [`other`] | the start of each server |
//! | [`scale`] | a series of networks with more and more nodes |
//!
//! The client is a separate process in its own place of the network, beside one node. Everything
//! ends with this process.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use netlab::control::{self, Ends, Request};
use netlab::lab::Lab;
use netlab::topology::{Carrier, LinkSpec, Role, Topology};

use crate::Outcome;
use crate::results::Results;

mod archipel;
mod garage;
mod other;
pub mod scale;
mod server;

use archipel::Setup;
use server::{Kind, Started};

/// Options of `lab`, `engines` and `peers`.
#[derive(clap::Args)]
pub struct Args {
    /// A topology file of netlab, or the name of a preset
    topology: String,
    #[command(flatten)]
    run: Run,
}

/// The experiment and its setup.
#[derive(clap::Args)]
struct Run {
    /// The experiment: lat, ttfb, mixed, billion, list, versioned, expiry, encrypted, k2v or beside
    experiment: String,
    /// Its options
    #[arg(last = true)]
    options: Vec<String>,
    /// The binary of Archipel
    #[arg(long, default_value = "target/dist/archipel")]
    archipel: PathBuf,
    /// The folder of the servers' data
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// A folder for the figures, as JSON
    #[arg(long)]
    results: Option<PathBuf>,
    /// Archipel acknowledges writes before they are on stable storage (durability = "buffered")
    #[arg(long)]
    buffered: bool,
    /// Archipel speaks TLS
    #[arg(long)]
    tls: bool,
}

/// Options of `peers` alone.
#[derive(clap::Args)]
pub struct PeersArgs {
    #[command(flatten)]
    lab: Args,
    /// The binary of Garage: cargo install garage --root target/peers
    #[arg(long)]
    garage: Option<PathBuf>,
    /// Also run Garage with fsync
    #[arg(long, requires = "garage")]
    garage_fsync: bool,
    /// Another server, described by a file
    #[arg(long)]
    server: Vec<PathBuf>,
    /// The number of turns of each server
    #[arg(long, default_value_t = 1)]
    turns: u32,
}

/// Options of `engines` alone.
#[derive(clap::Args)]
pub struct EnginesArgs {
    #[command(flatten)]
    lab: Args,
    /// The engines, as in the setting `engine`
    #[arg(long, value_delimiter = ',', default_value = "lmdb,fjall,sqlite")]
    engines: Vec<String>,
    /// The number of turns of each engine
    #[arg(long, default_value_t = 1)]
    turns: u32,
}

/// Options of `tls` alone.
#[derive(clap::Args)]
pub struct TlsArgs {
    #[command(flatten)]
    lab: Args,
    /// The number of turns of each
    #[arg(long, default_value_t = 2)]
    turns: u32,
}

/// Runs an experiment on Archipel (`bench lab`).
pub async fn run(args: &Args) -> Outcome<()> {
    let lab = enter(args)?;
    one(&args.run, &lab, &archipel(&args.run), 1).await
}

/// Runs an experiment on Archipel with plain HTTP and with TLS in turn, in the same network (`bench
/// tls`).
pub async fn tls(args: &TlsArgs) -> Outcome<()> {
    let (run, lab) = (&args.lab.run, enter(&args.lab)?);
    for turn in 1..=args.turns {
        for tls in [false, true] {
            let setup = Setup { tls, ..setup(run) };
            one(run, &lab, &Kind::Archipel(setup), turn).await?;
        }
    }
    Ok(())
}

/// Runs an experiment on Archipel with each metadata engine in turn, in the same network (`bench
/// engines`).
pub async fn engines(args: &EnginesArgs) -> Outcome<()> {
    let lab = enter(&args.lab)?;
    for turn in 1..=args.turns {
        for engine in &args.engines {
            let setup = Setup {
                engine: Some(engine.clone()),
                ..setup(&args.lab.run)
            };
            one(&args.lab.run, &lab, &Kind::Archipel(setup), turn).await?;
        }
    }
    Ok(())
}

/// Runs an experiment on several servers in turn, in the same network (`bench peers`).
pub async fn peers(args: &PeersArgs) -> Outcome<()> {
    let mut kinds = vec![archipel(&args.lab.run)];
    for fsync in [false, true] {
        let binary = args.garage.clone().filter(|_| !fsync || args.garage_fsync);
        kinds.extend(binary.map(|binary| Kind::Garage { binary, fsync }));
    }
    for file in &args.server {
        kinds.push(Kind::Other(other::Description::read(file)?));
    }
    let lab = enter(&args.lab)?;
    for turn in 1..=args.turns {
        for kind in &kinds {
            one(&args.lab.run, &lab, kind, turn).await?;
        }
    }
    Ok(())
}

fn archipel(run: &Run) -> Kind {
    Kind::Archipel(setup(run))
}

fn setup(run: &Run) -> Setup {
    Setup {
        binary: run.archipel.clone(),
        buffered: run.buffered,
        engine: None,
        tls: run.tls,
    }
}

/// Enters new namespaces and brings up the network there.
fn enter(args: &Args) -> Outcome<Lab> {
    netlab::private::enter()?;
    let topology = Topology::load(&args.topology)?;
    if !topology
        .nodes()
        .iter()
        .any(|node| node.role == Role::Client)
    {
        return Err(
            "the topology has no place for a client: add clients = [\"client\"] to a site".into(),
        );
    }
    Lab::up(&topology)
}

/// Runs one experiment on one kind of server.
async fn one(run: &Run, lab: &Lab, kind: &Kind, turn: u32) -> Outcome<()> {
    std::fs::create_dir_all(&run.dir)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-lab-")
        .tempdir_in(std::path::absolute(&run.dir)?)?;
    eprintln!("{}: starting {}", lab.topology.name, kind.name());
    // While a store starts, and is filled for `ttfb`, slow links would only cost time.
    let thin = run.experiment == "ttfb" && lab.topology.carrier == Carrier::Relay;
    if thin {
        set_rate(lab, Some(0.0))?;
    }
    let server = kind.start(lab, folder.path()).await?;
    let json = results_file(run, lab, kind, turn)?;
    let cpu = server.cpu_seconds();
    let done = if thin {
        experiment(run, lab, &server, &json, &["--only-write"])?;
        set_rate(lab, lab.topology.between.rate_mbit)?;
        experiment(run, lab, &server, &json, &["--only-read"])
    } else {
        experiment(run, lab, &server, &json, &[])
    };
    if done.is_err() {
        server.print_logs();
    }
    let usage = server.usage(cpu);
    println!("  {}", usage.line());
    server.stop().await;
    done?;
    let Some(json) = json else {
        return Ok(());
    };
    let mut results = Results::read(&json)?;
    results.usage = Some(usage);
    results.write(&json)
}

fn set_rate(lab: &Lab, rate_mbit: Option<f64>) -> Outcome<()> {
    let spec = LinkSpec {
        rate_mbit: Some(rate_mbit.unwrap_or(0.0)),
        ..LinkSpec::default()
    };
    let sites = &lab.topology.sites;
    for (number, from) in sites.iter().enumerate() {
        for to in sites.iter().skip(number + 1) {
            let ends = Ends {
                from: from.name.clone(),
                to: to.name.clone(),
                one_way: false,
            };
            control::ask(lab.names(), &Request::Set(ends, spec))?;
        }
    }
    Ok(())
}

fn results_file(run: &Run, lab: &Lab, kind: &Kind, turn: u32) -> Outcome<Option<PathBuf>> {
    let Some(folder) = &run.results else {
        return Ok(None);
    };
    std::fs::create_dir_all(folder)?;
    let name = format!(
        "{}-{}-{}-{turn}.json",
        run.experiment,
        lab.topology.name,
        kind.name()
    );
    Ok(Some(folder.join(name)))
}

/// Runs an experiment as a process at the client's place.
fn experiment(
    run: &Run,
    lab: &Lab,
    server: &Started,
    json: &Option<PathBuf>,
    more: &[&str],
) -> Outcome<()> {
    let nodes = lab.topology.nodes();
    let client = nodes
        .iter()
        .find(|node| node.role == Role::Client)
        .ok_or("no client")?;
    let mut command = lab.command(&client.name, std::env::current_exe()?)?;
    command
        .arg(&run.experiment)
        .args(server.arguments(&client.site, run.experiment == "k2v"));
    command.args(["--network", &lab.topology.name]);
    if let Some(rtt) = lab.topology.between.rtt_ms {
        command.args(["--rtt-ms", &rtt.to_string()]);
    }
    if let Some(rate) = lab
        .topology
        .between
        .rate_mbit
        .filter(|_| run.experiment == "beside")
    {
        command.args(["--rate-mbit", &rate.to_string()]);
    }
    if let Some(json) = json {
        command.arg("--json").arg(json);
    }
    // The variable must not reach the client, which is no lab of its own.
    let status = command
        .args(more)
        .args(&run.options)
        .stdin(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the experiment ended with {status}").into())
    }
}

/// Returns a program's own version text.
fn version(binary: &Path) -> String {
    let done = std::process::Command::new(binary).arg("--version").output();
    let text = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let line = text
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    if line.is_empty() {
        binary.display().to_string()
    } else {
        line
    }
}
