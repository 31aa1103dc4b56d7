//! What an experiment found: the same shape for all, as JSON and as a table.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::machine::Machine;

#[cfg(test)]
pub mod tests;

/// One experiment on one server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// Its name.
    pub experiment: String,
    /// How it was asked for.
    pub options: String,
    /// Which server, with its version.
    pub server: String,
    /// What an acknowledged write has survived there.
    pub durability: String,
    /// The network.
    pub network: String,
    /// The round trip between sites, as the network was asked for it, milliseconds.
    pub rtt_ms: Option<f64>,
    /// When it began.
    pub began: String,
    /// Where.
    pub machine: Machine,
    /// What all nodes used of processors and memory, if they were started for it.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Its figures.
    pub rows: Vec<Row>,
    /// Its curves.
    pub series: Vec<Series>,
}

/// What the servers of an experiment used. On a busy machine it tells more than rates do.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Usage {
    /// Nodes.
    pub nodes: usize,
    /// Processor time of all while the experiment ran, with its preparations, seconds.
    pub cpu_s: f64,
    /// Memory of a node that is no file's, at the end, on average, MiB.
    pub memory_mib: f64,
    /// The same of the node that has most.
    pub most_memory_mib: f64,
}

impl Usage {
    /// In a line.
    pub fn line(&self) -> String {
        format!(
            "{} nodes: {:.1} s of processor time in all, {:.1} MiB of memory on average, {:.1} at most",
            self.nodes, self.cpu_s, self.memory_mib, self.most_memory_mib
        )
    }
}

/// One line of figures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// How many good answers.
    pub count: u64,
    /// How many bad ones.
    pub errors: u64,
    /// The first bad one.
    pub error: Option<String>,
    /// Average time.
    pub mean_ms: f64,
    /// Half took no longer.
    pub p50_ms: f64,
    /// One in a hundred took longer.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Requests a second, where many ran at once.
    pub per_s: Option<f64>,
    /// Content, megabytes a second.
    pub mb_per_s: Option<f64>,
    /// Average time as a multiple of the round trip.
    pub rtts: Option<f64>,
}

/// A curve.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Series {
    /// What it shows.
    pub name: String,
    /// Names of the axes.
    pub axes: [String; 2],
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Times of many requests of one kind.
pub struct Times {
    histogram: Histogram<u64>,
    total: Duration,
    errors: u64,
    error: Option<String>,
    /// Bytes of content.
    pub bytes: u64,
}

impl Times {
    /// None yet.
    pub fn new() -> Outcome<Self> {
        Ok(Self {
            histogram: Histogram::new_with_bounds(1, 3_600_000_000, 3)?,
            total: Duration::ZERO,
            errors: 0,
            error: None,
            bytes: 0,
        })
    }

    /// A good answer took this long.
    pub fn good(&mut self, time: Duration) {
        self.total += time;
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(micros.max(1));
    }

    /// A bad answer.
    pub fn bad(&mut self, error: &dyn std::fmt::Display) {
        self.errors += 1;
        self.error.get_or_insert_with(|| error.to_string());
    }

    /// Good or bad.
    pub fn add<T>(&mut self, answer: &Outcome<T>, time: Duration) {
        match answer {
            Ok(_) => self.good(time),
            Err(error) => self.bad(error),
        }
    }

    /// Takes those of another client in.
    pub fn merge(&mut self, other: Self) -> Outcome<()> {
        self.histogram.add(&other.histogram)?;
        self.total += other.total;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.error = self.error.take().or(other.error);
        Ok(())
    }

    /// How many good answers.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// How many bad ones.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// As a line of figures.
    pub fn row(&self, name: &str) -> Row {
        let count = self.histogram.len();
        let quantile = |q| self.histogram.value_at_quantile(q) as f64 / 1e3;
        Row {
            name: name.to_owned(),
            count,
            errors: self.errors,
            error: self.error.clone(),
            mean_ms: self.total.as_secs_f64() * 1e3 / count.max(1) as f64,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            max_ms: quantile(1.0),
            ..Row::default()
        }
    }

    /// The same, of requests that ran at once for this long.
    pub fn row_over(&self, name: &str, elapsed: Duration) -> Row {
        let seconds = elapsed.as_secs_f64();
        Row {
            per_s: Some(self.histogram.len() as f64 / seconds),
            mb_per_s: (self.bytes > 0).then_some(self.bytes as f64 / 1e6 / seconds),
            ..self.row(name)
        }
    }
}

impl Results {
    /// Tells average times as multiples of the round trip, too.
    pub fn compare_with_rtt(&mut self) {
        for row in &mut self.rows {
            let rtt = self.rtt_ms.filter(|rtt| *rtt > 0.0 && row.count > 0);
            row.rtts = rtt.map(|rtt| row.mean_ms / rtt);
        }
    }

    /// Prints the table.
    pub fn print(&self) {
        println!(
            "\n{} on {} ({}), network {}",
            self.experiment, self.server, self.durability, self.network
        );
        for row in &self.rows {
            println!("  {}", row.line());
        }
    }

    /// Writes everything as JSON.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(())
    }

    /// Reads what [`Self::write`] wrote.
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }
}

impl Row {
    /// As a line of the table.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{:<28} {:>7} ok  mean {:>9.2} ms  p50 {:>9.2}  p99 {:>9.2}  max {:>9.2}",
            self.name, self.count, self.mean_ms, self.p50_ms, self.p99_ms, self.max_ms
        );
        if let Some(rtts) = self.rtts {
            line += &format!("  {rtts:>6.3} RTT");
        }
        if let Some(per_s) = self.per_s {
            line += &format!("  {per_s:>9.1}/s");
        }
        if let Some(mb) = self.mb_per_s {
            line += &format!("  {mb:>8.2} MB/s");
        }
        if let Some(error) = &self.error {
            let error: String = error.chars().take(160).collect();
            line += &format!("  {} failed: {error}", self.errors);
        }
        line
    }
}
