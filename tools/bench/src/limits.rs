//! The limits of disk and processor, measured beside the load.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use md5::{Digest, Md5};
use serde::Serialize;
use tokio::time::Instant;

const BUFFER_BYTES: usize = 64 << 20;
const SEQUENTIAL_BYTES: usize = 512 << 20;
const SMALL_SYNCS: Duration = Duration::from_secs(2);

/// The limits of one disk.
#[derive(Clone, Debug, Serialize)]
pub struct Disk {
    /// Sequential write of 512 MiB with one sync at its end, MB/s.
    pub synced_write_mb_per_s: f64,
    /// Appends of 4 KiB, each synced before the next.
    pub synced_appends_per_s: f64,
}

/// The limits of one core.
#[derive(Clone, Debug, Serialize)]
pub struct Core {
    /// MD5, which every S3 ETag needs, in MB/s.
    pub md5_mb_per_s: f64,
    /// Copying memory, MB/s.
    pub copy_mb_per_s: f64,
}

/// Measures the disk that holds `folder`.
pub fn disk(folder: &Path) -> io::Result<Disk> {
    let path = folder.join("bench-limit");
    let measured = sequential(&path).and_then(|synced_write_mb_per_s| {
        Ok(Disk {
            synced_write_mb_per_s,
            synced_appends_per_s: appends(&path)?,
        })
    });
    std::fs::remove_file(&path)?;
    measured
}

fn sequential(path: &Path) -> io::Result<f64> {
    let block: Vec<u8> = (0..1 << 20)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut file = File::create(path)?;
    let started = Instant::now();
    for _ in 0..SEQUENTIAL_BYTES / block.len() {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    Ok(mb_per_s(SEQUENTIAL_BYTES, started.elapsed()))
}

fn appends(path: &Path) -> io::Result<f64> {
    let mut file = File::create(path)?;
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < SMALL_SYNCS {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// Measures one core.
pub fn core() -> Core {
    let source = vec![7_u8; BUFFER_BYTES];
    let started = Instant::now();
    std::hint::black_box(Md5::digest(&source));
    let md5_mb_per_s = mb_per_s(BUFFER_BYTES, started.elapsed());
    let mut target = vec![1_u8; BUFFER_BYTES];
    let started = Instant::now();
    for _ in 0..8 {
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut target);
    }
    Core {
        md5_mb_per_s,
        copy_mb_per_s: mb_per_s(8 * BUFFER_BYTES, started.elapsed()),
    }
}

fn mb_per_s(bytes: usize, elapsed: Duration) -> f64 {
    bytes as f64 / 1e6 / elapsed.as_secs_f64()
}
