//! The table and the JSON of `bench node`.

use std::path::Path;

use serde::Serialize;

use crate::Outcome;
use crate::limits::{Core, Disk};
use crate::load::{Kind, Load, Measured};

/// The measurements of one run.
#[derive(Serialize)]
pub struct Report {
    durability: String,
    core: Core,
    /// The limits of the disk.
    pub disk: Option<Disk>,
    /// The limits of tmpfs.
    pub tmpfs: Option<Disk>,
    /// The server's largest resident size on disk, in MiB.
    pub peak_mib: Option<f64>,
    rows: Vec<Row>,
}

/// The figures of one load.
#[derive(Serialize)]
pub struct Row {
    place: String,
    operation: &'static str,
    size_bytes: usize,
    clients: usize,
    requests: u64,
    requests_per_s: f64,
    mb_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    syncs_per_object: Option<f64>,
    cpu_seconds_per_gb: Option<f64>,
}

impl Row {
    /// Creates the figures of one load. `cpu` (seconds) and `syncs` are the server's usage for it.
    pub fn new(
        place: &str,
        load: &Load,
        measured: &Measured,
        cpu: Option<f64>,
        syncs: Option<f64>,
    ) -> Self {
        let seconds = measured.elapsed.as_secs_f64();
        let put = load.kind == Kind::Put;
        Self {
            place: place.to_owned(),
            operation: if put { "PUT" } else { "GET" },
            size_bytes: load.size,
            clients: load.clients,
            requests: measured.requests,
            requests_per_s: measured.requests as f64 / seconds,
            mb_per_s: measured.bytes as f64 / 1e6 / seconds,
            p50_ms: measured.latencies.value_at_quantile(0.5) as f64 / 1e3,
            p99_ms: measured.latencies.value_at_quantile(0.99) as f64 / 1e3,
            syncs_per_object: syncs
                .filter(|_| put)
                .map(|syncs| syncs / measured.requests as f64),
            cpu_seconds_per_gb: cpu.map(|cpu| cpu / (measured.bytes as f64 / 1e9)),
        }
    }

    /// Returns the row as a line of the table.
    pub fn line(&self) -> String {
        format!(
            "{:<8} {} {:>8} {:>3} clients {:>9.1}/s {:>8.1} MB/s  p50 {:>8.2} ms  p99 {:>8.2} ms  {:>9}  {:>11}",
            self.place,
            self.operation,
            size(self.size_bytes),
            self.clients,
            self.requests_per_s,
            self.mb_per_s,
            self.p50_ms,
            self.p99_ms,
            self.syncs_per_object
                .map_or_else(String::new, |s| format!("{s:.2} syncs")),
            self.cpu_seconds_per_gb
                .filter(|_| self.size_bytes >= 1 << 20)
                .map_or_else(String::new, |c| format!("{c:.2} CPU s/GB")),
        )
    }

    fn limit(&self, core: &Core, disk: Option<&Disk>) -> String {
        let md5 = if self.operation == "PUT" {
            core.md5_mb_per_s
        } else {
            core.copy_mb_per_s
        };
        let name = if self.operation == "PUT" {
            "MD5 of a core"
        } else {
            "copy of a core"
        };
        match disk {
            Some(disk) if self.size_bytes < 1 << 20 => {
                format!(
                    "one synced append at a time: {:.0}/s",
                    disk.synced_appends_per_s
                )
            }
            Some(disk) if self.operation == "PUT" => {
                format!(
                    "synced write {:.0} MB/s, {name} {md5:.0} MB/s",
                    disk.synced_write_mb_per_s
                )
            }
            _ => format!("{name} {md5:.0} MB/s"),
        }
    }
}

impl Report {
    /// Creates an empty report.
    pub fn new(core: Core, durability: &str) -> Self {
        Self {
            durability: durability.to_owned(),
            core,
            disk: None,
            tmpfs: None,
            peak_mib: None,
            rows: Vec::new(),
        }
    }

    /// Adds a load.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints all rows, each with its limit.
    pub fn print(&self) {
        println!("\ndurability: {}", self.durability);
        println!(
            "limits of one core: MD5 {:.0} MB/s, copy {:.0} MB/s",
            self.core.md5_mb_per_s, self.core.copy_mb_per_s
        );
        for row in &self.rows {
            let disk = if row.place == "tmpfs" {
                self.tmpfs.as_ref()
            } else {
                self.disk.as_ref()
            };
            println!("{}  | limit: {}", row.line(), row.limit(&self.core, disk));
        }
        if let Some(peak) = self.peak_mib {
            println!("largest resident size of the server: {peak:.0} MiB");
        }
    }

    /// Writes the report as JSON.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        Ok(std::fs::write(path, serde_json::to_string_pretty(self)?)?)
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
