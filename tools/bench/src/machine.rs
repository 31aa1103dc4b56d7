//! The machine of a measurement.

use std::fs;

use serde::{Deserialize, Serialize};

/// The properties that figures depend on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The number of processors.
    pub cores: usize,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The load average of the last minute at the start of the experiment.
    pub load: f64,
}

impl Machine {
    /// Describes this machine now.
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| -> Option<String> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let first = |text: &str| {
            text.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let kib = field(&memory, "MemTotal").map(|text| first(&text));
        Self {
            processor: field(&cpu, "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: first(&read("/proc/loadavg")).parse().unwrap_or(0.0),
        }
    }

    /// Returns a line of text.
    pub fn line(&self) -> String {
        format!(
            "{} × {}, {} MiB, Linux {}, load average {:.1} at the start",
            self.cores, self.processor, self.memory_mib, self.kernel, self.load
        )
    }
}
