//! The machine of a result.

use std::fs;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::usage::field_number;

/// What a result depends on besides the programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Model of the processor.
    pub processor: String,
    /// Processors for this process.
    pub processors: usize,
    /// Caches of the first processor, the nearest first.
    pub caches: String,
    /// Whether the processors are virtual.
    pub is_virtual: bool,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel and its release.
    pub kernel: String,
    /// Runnable processes, on average over the last minute.
    pub load_average: f64,
    /// Command line of this process.
    pub command: String,
    /// When it began, in seconds since 1970.
    pub unix_seconds: u64,
}

impl Environment {
    /// That of this process. What cannot be read is empty or zero.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let load_average = read("/proc/loadavg");
        let load_average = load_average
            .split(' ')
            .next()
            .and_then(|text| text.parse().ok());
        let arguments: Vec<String> = std::env::args().collect();
        let cpuinfo = read("/proc/cpuinfo");
        let flags = field(&cpuinfo, "flags").unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            processor: field(&cpuinfo, "model name").unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            caches: caches(&read).join(", "),
            is_virtual: flags.split(' ').any(|flag| flag == "hypervisor"),
            memory_bytes: memory_bytes("MemTotal").unwrap_or(0),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            load_average: load_average.unwrap_or(0.0),
            command: arguments.join(" "),
            unix_seconds: now.map_or(0, |now| now.as_secs()),
        }
    }

    /// The object `environment` of a result.
    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "processors": self.processors,
            "caches": self.caches,
            "virtual": self.is_virtual,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "load_average": self.load_average,
            "command": self.command,
            "unix_seconds": self.unix_seconds,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

/// `L1d 32K` and so on, from sysfs.
fn caches(read: &impl Fn(&str) -> String) -> Vec<String> {
    let one = |index| {
        let part = |name: &str| {
            let text = read(&format!(
                "/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"
            ));
            text.trim().to_owned()
        };
        let kind = match part("type").as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let (level, size) = (part("level"), part("size"));
        (!level.is_empty()).then(|| format!("L{level}{kind} {size}"))
    };
    (0..8).map_while(one).collect()
}

/// The text after `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Memory of the machine in bytes under a name of the kernel (proc(5)): `MemTotal`, or
/// `MemAvailable`, what is free or can be freed.
pub fn memory_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    field_number(&text, name)?.checked_mul(1024)
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
        let [all, available] = ["MemTotal", "MemAvailable"].map(memory_bytes);
        assert!(all > available && available > Some(0));
        assert_eq!(memory_bytes("Mem"), None);
    }

    #[test]
    fn caches_are_listed_until_there_is_none() {
        let read = |path: &str| {
            let text = match path.rsplit_once("/index").map(|(_, file)| file) {
                Some("0/level") => "1\n",
                Some("0/type") => "Data\n",
                Some("0/size") => "32K\n",
                Some("1/level") => "2\n",
                Some("1/size") => "1024K\n",
                _ => "",
            };
            text.to_owned()
        };
        assert_eq!(caches(&read), ["L1d 32K", "L2 1024K"]);
    }

    #[test]
    fn this_machine_has_processors_and_memory() {
        let environment = Environment::here();
        assert!(environment.processors > 0 && environment.memory_bytes > 0);
        assert!(environment.json()["kernel"].as_str().unwrap().len() > 5);
    }
}
