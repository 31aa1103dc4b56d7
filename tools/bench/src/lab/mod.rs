//! Experiments on servers that are started here, one in each node of an emulated network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`server`] | what a started server is |
//! | [`archipel`], [`garage`], [`other`] | how each is started |
//! | [`scale`] | one network after another, each with more nodes |
//!
//! The client has a place of its own in the network, beside one node, and is a process of its own. All of it ends with
//! this process.

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

use server::{Kind, Started};

/// Options of `lab`, `engines` and `peers`.
#[derive(clap::Args)]
pub struct Args {
    /// A topology file of netlab, or the name of a preset
    topology: String,
    #[command(flatten)]
    run: Run,
}

/// What is run, and on what.
#[derive(clap::Args)]
struct Run {
    /// The experiment: lat, ttfb, mixed, billion, list or beside
    experiment: String,
    /// Its options
    #[arg(last = true)]
    options: Vec<String>,
    /// The binary of Archipel
    #[arg(long, default_value = "target/release/archipel")]
    archipel: PathBuf,
    /// Where the servers keep their data
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// A folder for the figures, as JSON
    #[arg(long)]
    results: Option<PathBuf>,
    /// Archipel acknowledges before writes are on stable storage (durability = "buffered")
    #[arg(long)]
    buffered: bool,
}

/// Options of `peers` alone.
#[derive(clap::Args)]
pub struct PeersArgs {
    #[command(flatten)]
    lab: Args,
    /// The binary of Garage: cargo install garage --root target/peers
    #[arg(long)]
    garage: Option<PathBuf>,
    /// Garage once more, with fsync
    #[arg(long, requires = "garage")]
    garage_fsync: bool,
    /// Another server, by a file that says how it is started
    #[arg(long)]
    server: Vec<PathBuf>,
    /// How often all take their turn
    #[arg(long, default_value_t = 1)]
    turns: u32,
}

/// Options of `engines` alone.
#[derive(clap::Args)]
pub struct EnginesArgs {
    #[command(flatten)]
    lab: Args,
    /// Which: names as the setting `engine` takes them
    #[arg(long, value_delimiter = ',', default_value = "lmdb,fjall,sqlite")]
    engines: Vec<String>,
    /// How often all take their turn
    #[arg(long, default_value_t = 1)]
    turns: u32,
}

/// `bench lab`: an experiment on Archipel.
pub async fn run(args: &Args) -> Outcome<()> {
    let lab = enter(args)?;
    one(&args.run, &lab, &archipel(&args.run, None), 1).await
}

/// `bench engines`: the same experiment on Archipel with each metadata engine in turn, in the same network.
pub async fn engines(args: &EnginesArgs) -> Outcome<()> {
    let lab = enter(&args.lab)?;
    for turn in 1..=args.turns {
        for engine in &args.engines {
            let kind = archipel(&args.lab.run, Some(engine));
            one(&args.lab.run, &lab, &kind, turn).await?;
        }
    }
    Ok(())
}

/// `bench peers`: the same experiment on several servers in turn, in the same network.
pub async fn peers(args: &PeersArgs) -> Outcome<()> {
    let mut kinds = vec![archipel(&args.lab.run, None)];
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

fn archipel(run: &Run, engine: Option<&String>) -> Kind {
    Kind::Archipel {
        binary: run.archipel.clone(),
        buffered: run.buffered,
        engine: engine.cloned(),
    }
}

/// Goes into namespaces of its own, and brings the network up there.
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

/// One experiment on one kind of server.
async fn one(run: &Run, lab: &Lab, kind: &Kind, turn: u32) -> Outcome<()> {
    std::fs::create_dir_all(&run.dir)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-lab-")
        .tempdir_in(std::path::absolute(&run.dir)?)?;
    eprintln!("{}: starting {}", lab.topology.name, kind.name());
    // While a store comes into being, and is filled for `ttfb`, thin links would only cost time.
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
        .args(server.arguments(&client.site));
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
    // What is inside stays inside: the client is no lab of its own.
    let status = command
        .args(more)
        .args(&run.options)
        .stdin(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the experiment ended with {status}").into()),
    }
}

/// A version, as a program tells it.
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
    match line.is_empty() {
        true => binary.display().to_string(),
        false => line,
    }
}
