//! The service manager (systemd, or one that speaks its protocols): listening sockets from it
//! (sd_listen_fds(3)), and notices on the state of the program to it (sd_notify(3)).
//!
//! The manager keeps the listening sockets while one process ends and the next starts: clients that
//! connect meanwhile wait in the kernel's queue. So no descriptor has to be stored with the manager
//! (`FDSTORE`).
//!
//! The socket for notices is opened at the start: a sandbox may forbid it later.
//!
//! **Known weakness.** UDP sockets are not taken over; those for locks are opened anew.

use std::env;
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{self, UnixDatagram};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use listenfd::ListenFd;
use pagewell_nfsd::pulse::Pulse;
use sd_notify::NotifyState;

use crate::failure::report;

/// More addresses than any server has.
const SOCKETS_MAX: usize = 16;

/// The socket for notices, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Notifier(Option<Arc<UnixDatagram>>);

impl Notifier {
    /// Opens the socket that the environment names. Reports an unusable one, as the manager would
    /// wait in vain.
    pub(crate) fn from_environment() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else {
            return Self::default();
        };
        let bytes = name.as_bytes();
        let opened = match bytes.strip_prefix(b"@") {
            Some(name) => net::SocketAddr::from_abstract_name(name),
            None => net::SocketAddr::from_pathname(&name),
        }
        .and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            // A manager that hangs must not hold up the server.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => Self(Some(Arc::new(socket))),
            Err(error) => {
                let name = name.to_string_lossy();
                report(&format!(
                    "NOTIFY_SOCKET={name}: cannot speak to the service manager: {error}"
                ));
                Self::default()
            }
        }
    }

    /// The service is ready, with this status.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
    }

    /// The service reads its configuration again; [`Self::ready`] ends that.
    pub(crate) fn reloading(&self) {
        // The time tells this notice from an earlier one.
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            self.send(&[NotifyState::Reloading, now]);
        }
    }

    pub(crate) fn stopping(&self) {
        self.send(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if let Some(socket) = &self.0 {
            let text: String = states.iter().map(|state| format!("{state}\n")).collect();
            // The manager does not listen any more.
            let _ = socket.send(text.as_bytes());
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(|letter: char| letter.is_control(), " ")
}

/// Notifies the manager periodically, as long as the server answers and this lives.
pub(crate) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts it, if the manager wants notices (`WatchdogSec=`).
    pub(crate) fn start(notifier: &Notifier, pulse: Pulse) -> anyhow::Result<Option<Self>> {
        let Some(limit) = sd_notify::watchdog_enabled() else {
            return Ok(None);
        };
        // sd_watchdog_enabled(3) advises half of the limit; a look takes up to another quarter.
        let every = limit / 2;
        let (stop, stopped) = channel();
        let (notifier, name) = (notifier.clone(), "watchdog".to_owned());
        let run = move || {
            watch(&notifier, &stopped, every, || {
                pulse.is_felt_within(limit / 4)
            })
        };
        let thread = std::thread::Builder::new().name(name).spawn(run);
        Ok(Some(Self {
            stop: Some(stop),
            thread: Some(thread.context("cannot start a thread")?),
        }))
    }
}

fn watch(notifier: &Notifier, stopped: &Receiver<()>, every: Duration, answers: impl Fn() -> bool) {
    let mut did_answer = true;
    loop {
        let answers = answers();
        if answers {
            notifier.send(&[NotifyState::Watchdog]);
        } else if did_answer {
            report("the server does not answer: the watchdog of the service manager is not fed");
        }
        did_answer = answers;
        if !matches!(stopped.recv_timeout(every), Err(RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic.
            let _ = thread.join();
        }
    }
}

/// The listening sockets that the manager has opened for this process, if any. Call it before any
/// thread starts.
pub(crate) fn inherited_listeners() -> anyhow::Result<Vec<TcpListener>> {
    // A text that is no number was not meant for this process.
    let count = env::var("LISTEN_FDS").map(|text| text.parse::<usize>());
    if let Ok(Ok(count)) = count
        && count > SOCKETS_MAX
    {
        bail!("LISTEN_FDS={count}: at most {SOCKETS_MAX} sockets are taken from a service manager");
    }
    let mut given = ListenFd::from_env();
    let listeners = (0..given.len()).map(|index| take(&mut given, index));
    listeners.collect()
}

fn take(given: &mut ListenFd, index: usize) -> anyhow::Result<TcpListener> {
    const WANTED: &str = "a listening TCP socket (ListenStream=ADDRESS:PORT) is wanted";
    let which = || format!("socket {} of the service manager", index + 1);
    let listener = given.take_tcp_listener(index);
    let listener = listener.with_context(|| format!("{}: {WANTED}", which()))?;
    let Some(listener) = listener else {
        bail!("{}: it is gone", which());
    };
    match rustix::net::sockopt::socket_acceptconn(&listener) {
        Ok(true) => Ok(listener),
        _ => bail!("{}: it does not listen: {WANTED}", which()),
    }
}

/// Where the first of these listens, or `else_at` without one.
pub(crate) fn address_of(listeners: &[TcpListener], else_at: SocketAddr) -> SocketAddr {
    let first = listeners.first().map(TcpListener::local_addr);
    first.and_then(Result::ok).unwrap_or(else_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn notifier() -> (Notifier, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        (Notifier(Some(Arc::new(ours))), theirs)
    }

    fn next(socket: &UnixDatagram) -> String {
        let mut text = [0; 500];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    #[test]
    fn states_are_said_in_the_words_of_the_protocol() {
        let (notifier, manager) = notifier();
        notifier.ready("2 exports\nREADY=0");
        assert_eq!(next(&manager), "READY=1\nSTATUS=2 exports READY=0\n");
        notifier.stopping();
        assert!(next(&manager).starts_with("STOPPING=1\n"));
        Notifier::default().ready("to no manager");
    }

    #[test]
    fn the_watchdog_is_fed_only_while_the_server_answers() {
        let (notifier, manager) = notifier();
        let (stop, stopped) = channel();
        let asked = AtomicUsize::new(0);
        // Answers twice, and not the third time; the fourth time ends it.
        let stop = std::sync::Mutex::new(Some(stop));
        watch(&notifier, &stopped, Duration::ZERO, || {
            match asked.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => true,
                2 => false,
                _ => {
                    drop(stop.lock().unwrap().take());
                    false
                }
            }
        });
        manager.set_nonblocking(true).unwrap();
        assert_eq!(next(&manager), "WATCHDOG=1\n");
        assert_eq!(next(&manager), "WATCHDOG=1\n");
        assert!(manager.recv(&mut [0; 10]).is_err(), "no third one");
    }
}
