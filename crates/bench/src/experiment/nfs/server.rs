//! The project's own server in a process of its own, so that what it costs can be told from what
//! the client costs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::experiment::{Error, Result, system};
use crate::measure::ProcessSample;

/// A server that was asked to stop has so long.
const STOP_TIME: Duration = Duration::from_secs(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A running server; stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Where it keeps what only this run needs.
    state: PathBuf,
    /// What it exports.
    pub(super) url: String,
}

impl Server {
    /// Starts `program serve` with so many threads for one source.
    pub(super) fn start(program: &Path, threads: u32, source: &str) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pagewell-bench-{}-{number}", std::process::id());
        let state = std::env::temp_dir().join(name);
        let mut command = Command::new(program);
        command
            .arg("serve")
            .args(["--listen", "127.0.0.1:0", "--squash", "none"])
            .args(["--threads", &threads.to_string()])
            .arg("--state-dir")
            .arg(&state)
            .arg(source)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| system(&program.display().to_string(), error))?;
        let mut server = Self {
            child,
            state,
            url: String::new(),
        };
        let mut line = String::new();
        if let Some(out) = server.child.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .map_err(|error| system("the server's ready line", error))?;
        }
        let url = line.strip_prefix("ready ").map(str::trim);
        let url = url.filter(|url| url.starts_with("nfs://"));
        let url = url.ok_or_else(|| {
            Error::Wrong(format!(
                "{} serve {source} did not start",
                program.display()
            ))
        })?;
        url.clone_into(&mut server.url);
        Ok(server)
    }

    /// What it has used so far.
    pub(super) fn sample(&self) -> Option<ProcessSample> {
        ProcessSample::of(self.child.id()).ok()
    }

    fn stop(&mut self) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            // It may have ended already.
            let _ = kill_process(process, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIME;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        // A key of file handles that nobody has any more.
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_told() {
        let error = Server::start(Path::new("/bin/echo"), 1, "ram:1m").unwrap_err();
        assert!(error.to_string().contains("did not start"), "{error}");
        let error = Server::start(Path::new("/nowhere/at all"), 1, "ram:1m").unwrap_err();
        assert!(error.to_string().contains("/nowhere/at all"), "{error}");
    }
}
