//! Standard error, or the journal's socket.
//!
//! A reader of the log may stop, and serving threads must not. The first line that is not taken
//! waits for [`WAIT`]; then lines are lost and counted, until one is taken at once.
//!
//! Weakness: a line longer than a page may block on a pipe with one free page.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest wait for a stalled log.
pub const WAIT: Duration = Duration::from_secs(1);

const JOURNAL: &str = "/run/systemd/journal/socket";

/// A destination.
#[derive(Debug)]
pub enum Output {
    /// Standard error.
    StandardError,
    /// The journal; the path is resolved for each line, as the journal may restart.
    Journal(UnixDatagram, PathBuf),
}

/// Recent losses.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    is_deaf: AtomicBool,
    lines: AtomicU64,
}

impl Losses {
    /// The number of lost lines, once lines are taken again.
    pub(crate) fn over(&self) -> Option<u64> {
        let is_over = !self.is_deaf.load(Ordering::Relaxed);
        let lost = || self.lines.swap(0, Ordering::Relaxed);
        (is_over && self.lines.load(Ordering::Relaxed) > 0).then(lost)
    }
}

impl Output {
    /// The journal of this machine.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn journal() -> std::io::Result<Self> {
        Self::journal_at(Path::new(JOURNAL))
    }

    fn journal_at(path: &Path) -> std::io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(WAIT))?;
        // The journal ignores empty messages.
        socket.send_to(&[], path).map_err(|error| {
            let text = format!("no journal at {}: {error}", path.display());
            std::io::Error::new(error.kind(), text)
        })?;
        Ok(Self::Journal(socket, path.to_owned()))
    }

    /// Writes a line, unless the destination stalls.
    pub(crate) fn write(&self, line: &[u8], losses: &Losses) {
        let is_deaf = losses.is_deaf.load(Ordering::Relaxed);
        let written = match self {
            Self::StandardError => write_error(line, is_deaf),
            Self::Journal(socket, path) => send(socket, path, line, is_deaf),
        };
        losses.is_deaf.store(!written, Ordering::Relaxed);
        if !written {
            losses.lines.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether the destination takes data, or cannot make a writer wait.
fn is_ready(file: impl AsFd, patience: Duration) -> bool {
    let mut asked = [PollFd::new(&file, PollFlags::OUT)];
    let patience = Timespec::try_from(patience).ok();
    poll(&mut asked, patience.as_ref()) != Ok(0)
}

fn write_error(line: &[u8], is_deaf: bool) -> bool {
    let patience = if is_deaf { Duration::ZERO } else { WAIT };
    let mut file = std::io::stderr();
    if !is_ready(&file, patience) {
        return false;
    }
    // Failing to log is no reason to stop serving.
    let _ = file.write_all(line);
    true
}

fn send(socket: &UnixDatagram, path: &Path, line: &[u8], is_deaf: bool) -> bool {
    if is_deaf && !is_ready(socket, Duration::ZERO) {
        return false;
    }
    let flags = rustix::net::SendFlags::DONTWAIT;
    let flags = if is_deaf {
        flags
    } else {
        rustix::net::SendFlags::empty()
    };
    let Ok(address) = rustix::net::SocketAddrUnix::new(path) else {
        return false;
    };
    let sent = rustix::net::sendto(socket, line, flags, &address);
    let sent = sent.map_err(|errno| std::io::Error::from(errno).kind());
    !matches!(
        sent,
        Err(ErrorKind::WouldBlock | ErrorKind::ConnectionRefused | ErrorKind::NotFound)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_does_not_read_is_waited_for_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let output = Output::journal_at(&path).unwrap();
        let losses = Losses::default();
        // More than any queue has places for: each would take a second if it were waited for.
        for _ in 0..5000 {
            output.write(b"MESSAGE=a line\n", &losses);
        }
        let lost = losses.lines.load(Ordering::Relaxed);
        assert!((1..5000).contains(&lost), "{lost}");
        assert_eq!(losses.over(), None, "it is still deaf");
        journal.set_nonblocking(true).unwrap();
        let mut buffer = [0; 64];
        while journal.recv(&mut buffer).is_ok() {}
        output.write(b"MESSAGE=last\n", &losses);
        assert_eq!(journal.recv(&mut buffer).unwrap(), 13);
        assert_eq!((losses.over(), losses.over()), (Some(lost), None));
    }

    #[test]
    fn a_journal_may_start_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let first = UnixDatagram::bind(&path).unwrap();
        let output = Output::journal_at(&path).unwrap();
        let losses = Losses::default();
        drop(first);
        output.write(b"lost", &losses);
        std::fs::remove_file(&path).unwrap();
        let second = UnixDatagram::bind(&path).unwrap();
        output.write(b"kept", &losses);
        assert_eq!(losses.over(), Some(1));
        let mut buffer = [0; 64];
        assert_eq!(second.recv(&mut buffer).unwrap(), 4);
    }

    #[test]
    fn where_there_is_no_journal_it_is_said() {
        let error = Output::journal_at(Path::new("/nonexistent/socket")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no journal at /nonexistent/socket")
        );
    }
}
