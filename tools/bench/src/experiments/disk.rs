//! `disk`: flushes and bytes that reach the disk for a PUT, by the kernel's count.
//!
//! The server's folder lies on a file system of its own on a loop device, so that the counts of the
//! device are those of the server. The image lies in memory by default: the counts are the same,
//! and the rates show processor time rather than the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::{Demo, Endpoint};
use crate::experiments::first_serial;
use crate::http::Client;
use crate::volume::{Counts, Volume};

/// The first loads of a server touch parts of the disk that it has not used before.
const WARM_UP: u64 = 200;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    /// The server's binary. Give several to compare them, in turn
    #[arg(long = "binary", default_values_os_t = [PathBuf::from("target/dist/archipel")])]
    binaries: Vec<PathBuf>,
    /// The folder for the image of the file system
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// The size of the file system, in GiB. Only what is used takes room
    #[arg(long, default_value_t = 8)]
    gib: u64,
    /// The sizes of the objects, in bytes
    #[arg(long, value_delimiter = ',', default_value = "256,4096,16384,65536")]
    sizes: Vec<usize>,
    /// The clients of the load at steady state
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// The objects that are stored first and then replaced, in no order
    #[arg(long, default_value_t = 20_000)]
    keys: u64,
    /// The PUTs at steady state, and the PUTs of new keys
    #[arg(long, default_value_t = 20_000)]
    count: u64,
    /// The lone PUTs, one after another
    #[arg(long, default_value_t = 300)]
    lone: u64,
}

/// Runs the experiment.
pub async fn run(args: &Args) -> Outcome<()> {
    println!("{HEADER}");
    for size in &args.sizes {
        for binary in &args.binaries {
            let volume = Volume::make(&args.folder, args.gib)?;
            let outcome = measure(args, binary, *size, &volume).await;
            drop(volume);
            outcome?;
        }
    }
    Ok(())
}

const HEADER: &str = "size | server | load | PUTs/s | flushes a PUT | bytes written a PUT | multiple of the body | CPU ms a PUT";

async fn measure(args: &Args, binary: &Path, size: usize, volume: &Volume) -> Outcome<()> {
    let demo = Demo::start(binary, &volume.mount_point).await?;
    let load = Load {
        endpoint: demo.endpoint.clone(),
        size,
        filler: Filler::new(),
        serial: Arc::new(AtomicU64::new(first_serial())),
    };
    let lone = |first: u64, count: u64| load.clone().run(1, first, count, u64::MAX);
    lone(0, WARM_UP).await?;
    let counts = volume.counts()?;
    let cpu = demo.endpoint.cpu();
    let started = Instant::now();
    lone(WARM_UP, args.lone).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = volume.counts()?.since(counts);
    let row = |what: &str, puts: u64, seconds: f64, used: Counts, cpu: f64| {
        let puts = puts as f64;
        println!(
            "{size} | {} | {what} | {:.0} | {:.2} | {:.0} | {:.1} | {:.3}",
            binary.display(),
            puts / seconds,
            used.flushes as f64 / puts,
            used.bytes as f64 / puts,
            used.bytes as f64 / puts / size as f64,
            1000.0 * cpu / puts
        );
    };
    row(
        "one client",
        args.lone,
        seconds,
        used,
        demo.endpoint.cpu() - cpu,
    );
    for (what, first, keys) in [
        ("new keys", 1 << 32, u64::MAX),
        ("replaced keys", 1 << 33, args.keys),
    ] {
        if keys < u64::MAX {
            load.clone().run(args.clients, first, keys, keys).await?;
        }
        let (counts, cpu, started) = (volume.counts()?, demo.endpoint.cpu(), Instant::now());
        load.clone()
            .run(args.clients, first, args.count, keys)
            .await?;
        let seconds = started.elapsed().as_secs_f64();
        let used = volume.counts()?.since(counts);
        row(what, args.count, seconds, used, demo.endpoint.cpu() - cpu);
    }
    demo.stop().await
}

#[derive(Clone)]
struct Load {
    endpoint: Endpoint,
    size: usize,
    filler: Filler,
    /// No content repeats.
    serial: Arc<AtomicU64>,
}

impl Load {
    /// Stores `count` objects under `keys` names from `first` on, in no order.
    async fn run(self, clients: u64, first: u64, count: u64, keys: u64) -> Outcome<()> {
        let mut running = JoinSet::new();
        for number in 0..clients {
            let load = self.clone();
            running.spawn(async move {
                let mut client = Client::connect(&load.endpoint).await?;
                for index in (number..count).step_by(clients as usize) {
                    // A large prime: each name is met once before any is met again.
                    let name = first + index.wrapping_mul(2_654_435_761) % keys;
                    let serial = load.serial.fetch_add(1, Ordering::Relaxed);
                    client
                        .put(
                            &format!("disk/{name:x}"),
                            load.filler.body(load.size, serial),
                        )
                        .await?;
                }
                Outcome::Ok(())
            });
        }
        while let Some(one) = running.join_next().await {
            one??;
        }
        Ok(())
    }
}
