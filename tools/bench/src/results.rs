//! The results of an experiment: the same form for all, as JSON and as a table.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::machine::Machine;

#[cfg(test)]
pub mod tests;

/// The results of one experiment on one server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// The name of the experiment.
    pub experiment: String,
    /// The options of the experiment.
    pub options: String,
    /// The server with its version.
    pub server: String,
    /// The durability of an acknowledged write.
    pub durability: String,
    /// The network.
    pub network: String,
    /// The requested round trip between sites, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// The start time.
    pub began: String,
    /// The machine.
    pub machine: Machine,
    /// The usage of processors and memory by all nodes, if they were started for the experiment.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Its figures.
    pub rows: Vec<Row>,
    /// Its curves.
    pub series: Vec<Series>,
}

/// The resource usage of the servers in an experiment. On a busy machine it says more than rates
/// do.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Usage {
    /// The number of nodes.
    pub nodes: usize,
    /// The processor time of all nodes during the experiment and its preparations, in seconds.
    pub cpu_s: f64,
    /// The average memory of a node at the end that is not backed by files, in MiB.
    pub memory_mib: f64,
    /// The same memory of the node with the most, in MiB.
    pub most_memory_mib: f64,
}

impl Usage {
    /// Returns a line of text.
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
    /// The name of the measured operation.
    pub name: String,
    /// The number of good answers.
    pub count: u64,
    /// The number of bad answers.
    pub errors: u64,
    /// The first bad answer.
    pub error: Option<String>,
    /// The average time.
    pub mean_ms: f64,
    /// The median time.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The longest time.
    pub max_ms: f64,
    /// Requests a second, for concurrent requests.
    pub per_s: Option<f64>,
    /// Megabytes of content a second.
    pub mb_per_s: Option<f64>,
    /// The average time as a multiple of the round trip.
    pub rtts: Option<f64>,
}

/// A curve.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Series {
    /// The name of the curve.
    pub name: String,
    /// The names of the axes.
    pub axes: [String; 2],
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// The times of many requests of one kind.
pub struct Times {
    histogram: Histogram<u64>,
    total: Duration,
    errors: u64,
    error: Option<String>,
    /// The bytes of content.
    pub bytes: u64,
}

impl Times {
    /// Creates an empty set.
    pub fn new() -> Outcome<Self> {
        Ok(Self {
            histogram: Histogram::new_with_bounds(1, 3_600_000_000, 3)?,
            total: Duration::ZERO,
            errors: 0,
            error: None,
            bytes: 0,
        })
    }

    /// Records a good answer with its time.
    pub fn good(&mut self, time: Duration) {
        self.total += time;
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(micros.max(1));
    }

    /// Records a bad answer.
    pub fn bad(&mut self, error: &dyn std::fmt::Display) {
        self.errors += 1;
        self.error.get_or_insert_with(|| error.to_string());
    }

    /// Records an answer, good or bad.
    pub fn add<T>(&mut self, answer: &Outcome<T>, time: Duration) {
        match answer {
            Ok(_) => self.good(time),
            Err(error) => self.bad(error),
        }
    }

    /// Adds the times of another client.
    pub fn merge(&mut self, other: Self) -> Outcome<()> {
        self.histogram.add(&other.histogram)?;
        self.total += other.total;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.error = self.error.take().or(other.error);
        Ok(())
    }

    /// Returns the number of good answers.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the number of bad answers.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns a row of figures.
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

    /// Returns a row of requests that ran concurrently for `elapsed`.
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
    /// Adds the average times as multiples of the round trip.
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

    /// Writes the results as JSON.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(())
    }

    /// Reads the results that [`Self::write`] wrote.
    pub fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }
}

impl Row {
    /// Returns the row as a line of the table.
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
