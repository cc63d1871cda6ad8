//! The project's own server in a process of its own, so that its costs are apart from the client's.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagewell_load::measure::Usage;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tempfile::TempDir;

use crate::experiment::{Error, Result, system};

/// How long a server may take to stop.
const STOP_TIME: Duration = Duration::from_secs(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The file of its messages.
const MESSAGES: &str = "messages";

/// The last line of a server: the reason of its end.
fn reason(state: &Path) -> String {
    let said = std::fs::read(state.join(MESSAGES)).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or(String::new(), |line| format!(": {}", line.trim()))
}

/// A running server; stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Files of this run alone, such as a key of file handles.
    state: TempDir,
    pub(super) url: String,
}

impl Server {
    /// Starts `program serve` with so many threads for one source.
    pub(super) fn start(program: &Path, threads: u32, source: &str) -> Result<Self> {
        let state = tempfile::tempdir().map_err(system("a scratch directory"))?;
        let path = state.path().join(MESSAGES);
        let messages = File::create(&path).map_err(system(path.display()))?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .args(["--listen", "127.0.0.1:0", "--squash", "none"])
            .args(["--threads", &threads.to_string()])
            .arg("--state-dir")
            .arg(state.path())
            .arg(source)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(messages);
        // Also when this process is killed, which runs no destructor.
        let end_too =
            || set_parent_process_death_signal(Some(Signal::TERM)).map_err(std::io::Error::from);
        // SAFETY: it makes one system call, and allocates nothing, in the child.
        unsafe { command.pre_exec(end_too) };
        let child = command.spawn().map_err(system(program.display()))?;
        let mut server = Self {
            child,
            state,
            url: String::new(),
        };
        let mut line = String::new();
        if let Some(out) = server.child.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .map_err(system("the server's ready line"))?;
        }
        let url = line.strip_prefix("ready ").map(str::trim);
        let url = url.filter(|url| url.starts_with("nfs://"));
        let Some(url) = url else {
            // Its last message comes before its end.
            server.stop();
            let (program, reason) = (program.display(), reason(server.state.path()));
            let what = format!("{program} serve {source} did not start{reason}");
            return Err(Error::Wrong(what));
        };
        url.clone_into(&mut server.url);
        Ok(server)
    }

    /// Its usage so far.
    pub(super) fn sample(&self) -> Option<Usage> {
        Usage::of(self.child.id()).ok()
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_told() {
        let error = Server::start(Path::new("/bin/echo"), 1, "ram:1m").unwrap_err();
        assert!(error.to_string().contains("did not start"), "{error}");
        // It knows no such option, and says so last.
        let error = Server::start(Path::new("/bin/ls"), 1, "ram:1m").unwrap_err();
        assert!(
            error.to_string().ends_with("for more information."),
            "{error}"
        );
        let error = Server::start(Path::new("/nowhere/at all"), 1, "ram:1m").unwrap_err();
        assert!(error.to_string().contains("/nowhere/at all"), "{error}");
    }
}
