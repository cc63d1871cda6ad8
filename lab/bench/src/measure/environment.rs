//! The machine a result is from.

use std::fs;
use std::time::SystemTime;

use serde_json::{Value, json};

/// What a result depends on besides the programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel and its release.
    pub kernel: String,
    /// Processes that wanted to run, on average over the last minute.
    pub load_average: f64,
    /// Command line of this process.
    pub command: String,
    /// When it began, in seconds since 1970.
    pub unix_seconds: u64,
}

impl Environment {
    /// That of this process. What cannot be read is empty or zero.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let load_average = read("/proc/loadavg");
        let load_average = load_average
            .split(' ')
            .next()
            .and_then(|text| text.parse().ok());
        let arguments: Vec<String> = std::env::args().collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            load_average: load_average.unwrap_or(0.0),
            command: arguments.join(" "),
            unix_seconds: now.map_or(0, |now| now.as_secs()),
        }
    }

    /// The object `environment` of a result.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "processors": self.processors,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "load_average": self.load_average,
            "command": self.command,
            "unix_seconds": self.unix_seconds,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

/// The text after `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes(text: &str) -> u64 {
    let total = field(text, "MemTotal").unwrap_or_default();
    let kilobytes = total
        .split(' ')
        .next()
        .and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(
            field(text, "model name").as_deref(),
            Some("Some CPU @ 2 GHz")
        );
        assert_eq!(
            memory_bytes("MemTotal:       24683132 kB\nMemFree: 1 kB\n"),
            25_275_527_168
        );
        assert_eq!(memory_bytes(""), 0);
    }

    #[test]
    fn this_machine_has_processors_and_memory() {
        let environment = Environment::here();
        assert!(environment.processors > 0 && environment.memory_bytes > 0);
        assert!(environment.json()["kernel"].as_str().unwrap().len() > 5);
    }
}
