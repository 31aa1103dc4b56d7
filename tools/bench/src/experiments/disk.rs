//! `disk`: flushes and bytes that reach the disk for a PUT, by the kernel's count.
//!
//! The server's folder lies on a file system of its own on a loop device, so that the counts of the
//! device are those of the server. The image lies in memory by default: the counts are the same,
//! and the rates show processor time rather than the disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Outcome;
use crate::body::Filler;
use crate::endpoint::{Demo, Endpoint};
use crate::experiments::first_serial;
use crate::http::Client;
use crate::process;

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
            let volume = Volume::make(args)?;
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
    let cpu = demo.cpu();
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
    row("one client", args.lone, seconds, used, demo.cpu() - cpu);
    for (what, first, keys) in [
        ("new keys", 1 << 32, u64::MAX),
        ("replaced keys", 1 << 33, args.keys),
    ] {
        if keys < u64::MAX {
            load.clone().run(args.clients, first, keys, keys).await?;
        }
        let (counts, cpu, started) = (volume.counts()?, demo.cpu(), Instant::now());
        load.clone()
            .run(args.clients, first, args.count, keys)
            .await?;
        let seconds = started.elapsed().as_secs_f64();
        let used = volume.counts()?.since(counts);
        row(what, args.count, seconds, used, demo.cpu() - cpu);
    }
    demo.stop().await
}

impl Demo {
    fn cpu(&self) -> f64 {
        let pid = self.endpoint.pid;
        pid.and_then(process::cpu_seconds).unwrap_or_default()
    }
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

/// The counts of a block device since it was made.
#[derive(Clone, Copy)]
struct Counts {
    bytes: u64,
    flushes: u64,
}

impl Counts {
    fn since(self, before: Counts) -> Counts {
        Counts {
            bytes: self.bytes - before.bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

/// A file system on a loop device.
struct Volume {
    image: PathBuf,
    device: String,
    mount_point: PathBuf,
}

impl Volume {
    fn make(args: &Args) -> Outcome<Volume> {
        let image = args
            .folder
            .join(format!("bench-disk-{}.image", std::process::id()));
        std::fs::File::create(&image)?.set_len(args.gib << 30)?;
        let mount_point = image.with_extension("mounted");
        std::fs::create_dir_all(&mount_point)?;
        let mut volume = Volume {
            device: String::new(),
            image,
            mount_point,
        };
        let image = volume.image.display().to_string();
        // Nothing is written in the background, which would count.
        call(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                &image,
            ],
        )?;
        volume.device = call("losetup", &["--find", "--show", &image])?;
        let mounted = volume.mount_point.display().to_string();
        call("mount", &[&volume.device, &mounted])?;
        Ok(volume)
    }

    /// Returns the counts of the device, after all that was written has reached it.
    fn counts(&self) -> Outcome<Counts> {
        let name = self.device.trim_start_matches("/dev/");
        let table = std::fs::read_to_string("/proc/diskstats")?;
        let line = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|fields| fields.get(2) == Some(&name))
            .ok_or("the kernel has no counts of the loop device")?;
        // Documentation/admin-guide/iostats.rst of the kernel: fields 7 and 16 after the name.
        let field = |at: usize| -> Outcome<u64> {
            Ok(line
                .get(at + 2)
                .ok_or("the kernel counts no flushes")?
                .parse()?)
        };
        Ok(Counts {
            bytes: field(7)? * 512,
            flushes: field(16)?,
        })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let mounted = self.mount_point.display().to_string();
        let ends: [(&str, &[&str]); 2] = [
            ("umount", &["-l", &mounted]),
            ("losetup", &["-d", &self.device]),
        ];
        for (program, arguments) in ends {
            if let Err(error) = call(program, arguments) {
                eprintln!("{error}");
            }
        }
        let _ = std::fs::remove_dir(&self.mount_point);
        let _ = std::fs::remove_file(&self.image);
    }
}

fn call(program: &str, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} failed (it needs root): {text}").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
