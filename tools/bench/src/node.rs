//! One node: group commit under small durable PUTs, and large objects beside the limits of disk and
//! processor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::body::Filler;
use crate::endpoint::{Demo, Endpoint, Existing};
use crate::load::{self, Kind, Load};
use crate::report::{Report, Row};
use crate::{Outcome, limits, process};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    existing: Existing,
    /// Seconds for each load
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// The folder on disk for the data of the started server
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// A folder on tmpfs, which removes the disk from the figures
    #[arg(long, default_value = "/dev/shm")]
    tmpfs: PathBuf,
    /// The server's binary
    #[arg(long, default_value = "target/dist/archipel")]
    binary: PathBuf,
    /// Also write the figures to this file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs all loads and prints the tables.
pub async fn run(args: &Args) -> Outcome<()> {
    let time = Duration::from_secs(args.seconds);
    let filler = Filler::new();
    let existing = args.existing.endpoint()?;
    let durability = match existing {
        Some(_) => "as configured at the given endpoint",
        None => "fsync: every acknowledged PUT was synced before its answer",
    };
    let mut report = Report::new(limits::core(), durability);
    if let Some(endpoint) = existing {
        println!("10 loads of {} s each on a given endpoint", args.seconds);
        small(&endpoint, time, &filler, &mut report).await?;
        large(&endpoint, "endpoint", time, &filler, &mut report).await?;
    } else {
        println!(
            "14 loads of {} s each, durability fsync: about 3 minutes",
            args.seconds
        );
        on_disk(args, time, &filler, &mut report).await?;
        on_tmpfs(args, time, &filler, &mut report).await?;
    }
    report.print();
    match &args.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

async fn on_disk(args: &Args, time: Duration, filler: &Filler, report: &mut Report) -> Outcome<()> {
    std::fs::create_dir_all(&args.disk)?;
    report.disk = Some(measure_disk(&args.disk)?);
    let demo = Demo::start(&args.binary, &args.disk).await?;
    small(&demo.endpoint, time, filler, report).await?;
    large(&demo.endpoint, "disk", time, filler, report).await?;
    report.peak_mib = demo.endpoint.pid.and_then(process::peak_mib);
    demo.stop().await
}

async fn on_tmpfs(
    args: &Args,
    time: Duration,
    filler: &Filler,
    report: &mut Report,
) -> Outcome<()> {
    report.tmpfs = Some(measure_disk(&args.tmpfs)?);
    let demo = Demo::start(&args.binary, &args.tmpfs).await?;
    large(&demo.endpoint, "tmpfs", time, filler, report).await?;
    demo.stop().await
}

fn measure_disk(folder: &Path) -> Outcome<limits::Disk> {
    limits::disk(folder).map_err(|e| format!("{}: {e}", folder.display()).into())
}

/// Measures small PUTs at 1, 16 and 64 clients. With group commit, the syncs per object fall as
/// clients rise.
async fn small(
    endpoint: &Endpoint,
    time: Duration,
    filler: &Filler,
    report: &mut Report,
) -> Outcome<()> {
    for size in [256, 16 * KIB] {
        for clients in [1, 16, 64] {
            let load = Load {
                kind: Kind::Put,
                size,
                clients,
                time,
                keys: 1000,
            };
            report.add(measure(endpoint, "disk", &load, filler).await?);
        }
    }
    Ok(())
}

/// Runs PUT and GET of 1 MiB and 64 MiB.
async fn large(
    endpoint: &Endpoint,
    place: &str,
    time: Duration,
    filler: &Filler,
    report: &mut Report,
) -> Outcome<()> {
    for (size, clients, keys) in [(MIB, 8, 64), (64 * MIB, 2, 4)] {
        let put = Load {
            kind: Kind::Put,
            size,
            clients,
            time,
            keys,
        };
        report.add(measure(endpoint, place, &put, filler).await?);
        let get = Load {
            kind: Kind::Get,
            ..put.clone()
        };
        load::fill(endpoint, &get, filler).await?;
        report.add(measure(endpoint, place, &get, filler).await?);
        load::clean(endpoint, &put).await?;
    }
    Ok(())
}

async fn measure(endpoint: &Endpoint, place: &str, load: &Load, filler: &Filler) -> Outcome<Row> {
    let syncs = endpoint.syncs().await;
    let cpu = endpoint.pid.and_then(process::cpu_seconds);
    let measured = load::run(endpoint, load, filler).await?;
    let cpu = endpoint
        .pid
        .and_then(process::cpu_seconds)
        .zip(cpu)
        .map(|(after, before)| after - before);
    let syncs = endpoint
        .syncs()
        .await
        .zip(syncs)
        .map(|(after, before)| after - before);
    let row = Row::new(place, load, &measured, cpu, syncs);
    println!("  {}", row.line());
    Ok(row)
}
