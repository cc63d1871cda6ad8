//! Going to the background: the command returns when what it started works.
//!
//! From then on each line on standard error goes to the system log, also of libraries and panics: a
//! pipe replaces the descriptor. syslogd and the journal listen at `/dev/log` (syslog(3)); where
//! none does, or it does not read, the lines are lost.

use std::io::{BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::failure::FAILED;

pub(crate) enum Side {
    /// The process that was started, and its exit code.
    Parent(i32),
    /// The process that does the work.
    Child(Child),
}

pub(crate) struct Child {
    ready: PipeWriter,
}

/// Splits the process; the parent waits until the child is ready or has ended. Call it before any
/// thread starts.
pub(crate) fn detach() -> std::io::Result<Side> {
    let (reader, writer) = std::io::pipe()?;
    // SAFETY: this process has one thread, so no lock of the child is held by a thread that it
    // lacks.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            drop(reader);
            Ok(Side::Child(Child { ready: writer }))
        }
        child => {
            drop(writer);
            Ok(Side::Parent(wait(reader, child)))
        }
    }
}

fn wait(mut ready: PipeReader, child: i32) -> i32 {
    let failed = i32::from(FAILED);
    if ready.read_exact(&mut [0]).is_ok() {
        return 0;
    }
    // The child has said why, on the standard error of both.
    let Some(child) = rustix::process::Pid::from_raw(child) else {
        return failed;
    };
    let options = rustix::process::WaitOptions::empty();
    match rustix::process::waitpid(Some(child), options) {
        Ok(Some((_, status))) => status.exit_status().unwrap_or(failed),
        _ => failed,
    }
}

impl Child {
    /// Lets go of the terminal, the current directory and the parent.
    ///
    /// Not earlier: while autofs has a mount made, the kernel lets only the process group of
    /// systemd or automount pass there.
    pub(crate) fn ready(mut self) -> std::io::Result<SystemLog> {
        rustix::process::setsid()?;
        rustix::process::chdir(Path::new("/"))?;
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        let log = SystemLog::start()?;
        self.ready.write_all(&[1])?;
        Ok(log)
    }
}

/// Whether a system log takes lines of a process in the background.
pub(crate) fn is_heard() -> bool {
    connect(Path::new(SOCKET)).is_some()
}

/// Facility daemon, level notice.
const PRIORITY: u8 = 3 << 3 | 5;
/// Longer lines are sent in pieces.
const LINE_BYTES_MAX: u64 = 1024;
const SOCKET: &str = "/dev/log";
const LOG_WAIT: Duration = Duration::from_secs(1);

/// Forwards the lines, until it is closed.
pub(crate) struct SystemLog {
    thread: JoinHandle<()>,
}

impl SystemLog {
    /// Takes standard error over.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let thread = std::thread::Builder::new()
            .name("system log".to_owned())
            .spawn(move || forward(reader, Path::new(SOCKET)))?;
        rustix::stdio::dup2_stderr(&writer)?;
        Ok(Self { thread })
    }

    /// Sends the lines so far; later ones are lost.
    pub(crate) fn close(self) {
        let null = std::fs::File::options().write(true).open("/dev/null");
        if null.is_ok_and(|null| rustix::stdio::dup2_stderr(&null).is_ok()) {
            let _ = self.thread.join();
        }
    }
}

/// Reads to the end, so that no thread waits to write a line.
fn forward(lines: impl Read, socket: &Path) {
    let mut lines = BufReader::new(lines);
    let mut log: Option<UnixDatagram> = None;
    let mut is_deaf = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if !matches!(read, Ok(count) if count > 0) {
            return;
        }
        let said = line.trim_ascii();
        if said.is_empty() {
            continue;
        }
        let text = said.strip_prefix(b"pagewell: ").unwrap_or(said);
        let mut message = format!("<{PRIORITY}>pagewell[{}]: ", std::process::id()).into_bytes();
        message.extend(text);
        // A log that was started again has another socket.
        for _ in 0..2 {
            log = log.or_else(|| connect(socket));
            match &log {
                Some(log) if send(log, &message, &mut is_deaf).is_ok() => break,
                _ => log = None,
            }
        }
    }
}

/// Sends a line. A log that takes none for [`LOG_WAIT`] is deaf: no line waits until it takes one
/// again.
fn send(log: &UnixDatagram, message: &[u8], is_deaf: &mut bool) -> std::io::Result<()> {
    log.set_nonblocking(*is_deaf)?;
    let sent = log.send(message);
    *is_deaf = matches!(&sent, Err(error) if error.kind() == ErrorKind::WouldBlock);
    match *is_deaf {
        true => Ok(()),
        false => sent.map(drop),
    }
}

fn connect(socket: &Path) -> Option<UnixDatagram> {
    let log = UnixDatagram::unbound().ok()?;
    log.connect(socket).ok()?;
    log.set_write_timeout(Some(LOG_WAIT)).ok()?;
    Some(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let long = "x".repeat(1500);
        let said = format!("pagewell: one\n\nthread panicked\n{long}\nlast");
        forward(said.as_bytes(), &path);
        log.set_nonblocking(true).unwrap();
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length) = log.recv(&mut buffer) {
            heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        let begin = format!("<29>pagewell[{}]: ", std::process::id());
        assert_eq!(heard.len(), 5, "{heard:?}");
        assert_eq!(heard[0], format!("{begin}one"));
        assert_eq!(heard[1], format!("{begin}thread panicked"));
        assert_eq!(heard[2].len(), begin.len() + 1024);
        assert_eq!(heard[4], format!("{begin}last"));
    }

    #[test]
    fn a_log_that_does_not_read_is_waited_for_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        // More than any queue has places for.
        let said = "a line\n".repeat(2000);
        std::thread::spawn(move || {
            forward(said.as_bytes(), &path);
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(log);
    }

    #[test]
    fn a_log_that_is_not_there_is_no_reason_to_wait() {
        forward(&b"one\ntwo\n"[..], Path::new("/nonexistent/log"));
    }
}
