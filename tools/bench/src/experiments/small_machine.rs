//! `small-machine`: many objects on one node with little memory or a slow disk.
//!
//! The server's folder lies on a loop device. Control groups of the kernel (version 1 or 2) limit
//! its memory, which includes its share of the page cache, and the operations of that device. The
//! objects' names are in no order, so that each PUT changes another page of the index.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::puts::{Puts, Serial, keys};
use crate::Outcome;
use crate::endpoint::Demo;
use crate::experiments::first_serial;
use crate::http::Client;
use crate::volume::Volume;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    /// The server's binary. Give several to compare them, in turn
    #[arg(long = "binary", default_values_os_t = [PathBuf::from("target/dist/archipel")])]
    binaries: Vec<PathBuf>,
    /// The folder for the image of the file system: on a disk
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// The size of the file system, in GiB. Only what is used takes room
    #[arg(long, default_value_t = 60)]
    gib: u64,
    /// The memory of the server and its page cache, in MiB (default: unlimited)
    #[arg(long)]
    memory_mib: Option<u64>,
    /// The operations a second of the disk, reads and writes each (default: unlimited)
    #[arg(long)]
    iops: Option<u64>,
    /// The objects
    #[arg(long, default_value_t = 10_000_000)]
    objects: u64,
    /// A rate is shown after so many objects
    #[arg(long, default_value_t = 1_000_000)]
    step: u64,
    /// The bytes of an object
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// The clients that store objects
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// The objects that are then read, one after another
    #[arg(long, default_value_t = 10_000)]
    reads: u64,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    for binary in &args.binaries {
        println!("{}", binary.display());
        let volume = Volume::make(&args.folder, args.gib)?;
        let outcome = measure(args, binary, &volume).await;
        drop(volume);
        outcome?;
    }
    Ok(())
}

async fn measure(args: &Args, binary: &Path, volume: &Volume) -> Outcome<()> {
    let demo = Demo::start(binary, &volume.mount_point).await?;
    let pid = demo.endpoint.pid.ok_or("the server names no process")?;
    let _groups = Groups::make(&limits(args, volume)?, pid)?;
    let outcome = load(args, &demo, volume).await;
    demo.stop().await?;
    outcome
}

/// A limit: its controller, its files in version 1 of control groups, its file in version 2.
struct Limit {
    controller: &'static str,
    old: Vec<(&'static str, String)>,
    new: (&'static str, String),
}

fn limits(args: &Args, volume: &Volume) -> Outcome<Vec<Limit>> {
    let mut limits = Vec::new();
    if let Some(mib) = args.memory_mib {
        let bytes = (mib << 20).to_string();
        limits.push(Limit {
            controller: "memory",
            old: vec![("memory.limit_in_bytes", bytes.clone())],
            new: ("memory.max", bytes),
        });
    }
    if let Some(iops) = args.iops {
        let device = volume.number()?;
        let old = format!("{device} {iops}");
        limits.push(Limit {
            controller: "blkio",
            old: vec![
                ("blkio.throttle.read_iops_device", old.clone()),
                ("blkio.throttle.write_iops_device", old),
            ],
            new: ("io.max", format!("{device} riops={iops} wiops={iops}")),
        });
    }
    Ok(limits)
}

async fn load(args: &Args, demo: &Demo, volume: &Volume) -> Outcome<()> {
    let serial = Serial::from(first_serial());
    let puts = Puts {
        size: args.size,
        clients: args.clients,
    };
    println!(
        "objects | PUTs/s | p50 ms | p99 ms | errors | CPU ms | disk reads a PUT | bytes written a PUT"
    );
    let mut stored = 0;
    while stored < args.objects {
        let step = args.step.min(args.objects - stored);
        let (counts, cpu, began) = (volume.counts()?, demo.endpoint.cpu(), Instant::now());
        let first = stored;
        let next = keys(step, move |number| name(first + number));
        let times = puts
            .send(std::slice::from_ref(&demo.endpoint), &serial, next)
            .await?;
        let used = volume.counts()?.since(counts);
        let row = times.row_over("PUT", began.elapsed());
        stored += step;
        let each = |of: f64| of / step as f64;
        println!(
            "{stored} | {:.0} | {:.1} | {:.1} | {} | {:.3} | {:.2} | {:.0}",
            row.per_s.unwrap_or_default(),
            row.p50_ms,
            row.p99_ms,
            row.errors,
            1000.0 * each(demo.endpoint.cpu() - cpu),
            each(used.reads as f64),
            each(used.bytes as f64),
        );
        if let Some(error) = row.error {
            println!("the first error: {error}");
        }
    }
    read(args, demo, volume).await
}

/// Reads objects one by one, and counts the reads of the disk for each.
async fn read(args: &Args, demo: &Demo, volume: &Volume) -> Outcome<()> {
    let mut client = Client::connect(&demo.endpoint).await?;
    let mut reads = Histogram::<u64>::new(3)?;
    let mut micros = Histogram::<u64>::new(3)?;
    for index in 0..args.reads {
        let key = name(index.wrapping_mul(2_654_435_761) % args.objects);
        let (before, began) = (volume.counts()?, Instant::now());
        client.get(&key).await?;
        micros.record(u64::try_from(began.elapsed().as_micros())?)?;
        reads.record(volume.counts()?.since(before).reads)?;
    }
    println!(
        "{} GETs: disk reads: mean {:.2}, p50 {}, p99 {}, most {}; ms: p50 {:.2}, p99 {:.2}",
        args.reads,
        reads.mean(),
        reads.value_at_quantile(0.5),
        reads.value_at_quantile(0.99),
        reads.max(),
        micros.value_at_quantile(0.5) as f64 / 1e3,
        micros.value_at_quantile(0.99) as f64 / 1e3,
    );
    Ok(())
}

/// Returns the key of an object. Neighbouring numbers have keys that are far apart.
fn name(number: u64) -> String {
    let hash = blake3::hash(&number.to_be_bytes());
    let prefix = hex::encode(&hash.as_bytes()[..8]);
    format!("small/{prefix}-{number}")
}

/// Control groups with one process. They are removed when the value is dropped.
struct Groups {
    pid: u32,
    folders: Vec<PathBuf>,
}

impl Groups {
    fn make(limits: &[Limit], pid: u32) -> Outcome<Groups> {
        let root = Path::new("/sys/fs/cgroup");
        let mut groups = Groups {
            pid,
            folders: Vec::new(),
        };
        for limit in limits {
            let old = root.join(limit.controller);
            let (parent, files) = if old.is_dir() {
                (old, limit.old.as_slice())
            } else {
                (root.to_path_buf(), std::slice::from_ref(&limit.new))
            };
            let folder = parent.join(format!("bench-{pid}"));
            let failed = |error| format!("{} (it needs root): {error}", folder.display());
            if !groups.folders.contains(&folder) {
                std::fs::create_dir(&folder).map_err(failed)?;
                groups.folders.push(folder.clone());
                std::fs::write(folder.join("cgroup.procs"), pid.to_string()).map_err(failed)?;
            }
            for (file, text) in files {
                std::fs::write(folder.join(file), text).map_err(failed)?;
            }
        }
        Ok(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            // A group with a process cannot be removed. Most often the process has ended.
            let above = folder.join("../cgroup.procs");
            let _ = std::fs::write(above, self.pid.to_string());
            if let Err(error) = std::fs::remove_dir(folder) {
                eprintln!("{}: {error}", folder.display());
            }
        }
    }
}
