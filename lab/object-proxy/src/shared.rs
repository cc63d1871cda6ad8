//! What the connections of a proxy share: the script, the counts, what came, what waits, and the
//! sockets that are open, so that a proxy that stops leaves no thread behind that waits.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pagewell_base::sync::{Condvar, Mutex};

use crate::head::Head;
use crate::link::{Link, Pace};
use crate::{Counts, Fault, Kind, Script, Seen};

/// The last so many are kept.
const SEEN_MAX: usize = 10_000;

#[derive(Default)]
struct State {
    script: Script,
    counts: Counts,
    seen: VecDeque<Seen>,
    requests: u64,
    /// Sockets by the number of their connection.
    open: HashMap<u64, Vec<TcpStream>>,
    connections: u64,
    /// Replies that were ever held, and how many of them may go on.
    held: u64,
    released: u64,
    is_stopped: bool,
}

pub(crate) struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    down: Pace,
    up: Pace,
}

/// A request that has come.
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fault: Option<Fault>,
    pub(crate) link: Link,
}

impl Shared {
    pub(crate) fn new(upstream: SocketAddr, script: Script) -> Self {
        let state = State {
            script,
            ..State::default()
        };
        Self {
            upstream,
            state: Mutex::new(state),
            changed: Condvar::new(),
            down: Pace::default(),
            up: Pace::default(),
        }
    }

    pub(crate) const fn upstream(&self) -> SocketAddr {
        self.upstream
    }

    /// A connection's number; nothing when the proxy stops or has as many as it may.
    pub(crate) fn open(&self, client: &TcpStream, most: usize) -> Option<u64> {
        let mut state = self.state.lock();
        if state.is_stopped || state.open.len() >= most {
            return None;
        }
        let socket = client.try_clone().ok()?;
        state.connections += 1;
        let number = state.connections;
        state.open.insert(number, vec![socket]);
        state.counts.note_connection();
        Some(number)
    }

    /// One more socket of a connection, in place of those that it had for the same purpose.
    pub(crate) fn set_server(&self, connection: u64, server: &TcpStream) -> io::Result<()> {
        let server = server.try_clone()?;
        let mut state = self.state.lock();
        if state.is_stopped {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let sockets = state.open.entry(connection).or_default();
        sockets.truncate(1);
        sockets.push(server);
        Ok(())
    }

    /// The sockets of a connection are its own from now on.
    pub(crate) fn forget(&self, connection: u64) {
        self.state.lock().open.remove(&connection);
    }

    /// A head came: counts it, and says what happens.
    pub(crate) fn begin(&self, head: &Head) -> io::Result<Request> {
        let (method, target) = head.request()?;
        let sources = ["x-amz-copy-source", "x-ms-copy-source"];
        let copies = sources.iter().any(|name| head.get(name).is_some());
        let kind = Kind::of(&method, &target, copies);
        let bytes = u64::try_from(head.to_bytes().len()).unwrap_or(0);
        let mut state = self.state.lock();
        state.requests += 1;
        let number = state.requests;
        state.counts.note(kind, 1, bytes, 0);
        let fault = state.script.fault_of(kind, &target);
        if state.seen.len() == SEEN_MAX {
            state.seen.pop_front();
        }
        state.seen.push_back(Seen {
            number,
            kind,
            target: target.clone(),
            head: head.lines(),
            status: None,
            body_bytes_up: 0,
            body_bytes_down: 0,
        });
        Ok(Request {
            number,
            kind,
            method,
            target,
            fault,
            link: state.script.link(),
        })
    }

    fn note(&self, request: &Request, up: u64, down: u64, change: impl FnOnce(&mut Seen)) {
        let mut state = self.state.lock();
        state.counts.note(request.kind, 0, up, down);
        let mut seen = state.seen.iter_mut();
        if let Some(seen) = seen.rfind(|seen| seen.number == request.number) {
            change(seen);
        }
    }

    /// Bytes of a body go to the server: counts them, and waits until the line has sent them.
    pub(crate) fn pass_up(&self, request: &Request, bytes: usize) -> io::Result<()> {
        let count = u64::try_from(bytes).unwrap_or(0);
        self.note(request, count, 0, |seen| seen.body_bytes_up += count);
        let rate = request.link.up_bytes_per_second;
        self.pause(self.up.wait_for(bytes, rate, Instant::now()))
    }

    /// Bytes of a body go to the client.
    pub(crate) fn pass_down(&self, request: &Request, bytes: usize) -> io::Result<()> {
        let count = u64::try_from(bytes).unwrap_or(0);
        self.note(request, 0, count, |seen| seen.body_bytes_down += count);
        let rate = request.link.down_bytes_per_second;
        self.pause(self.down.wait_for(bytes, rate, Instant::now()))
    }

    /// The head of a reply goes to the client.
    pub(crate) fn note_reply(&self, request: &Request, status: u16, head_bytes: usize) {
        let count = u64::try_from(head_bytes).unwrap_or(0);
        self.note(request, 0, count, |seen| seen.status = Some(status));
    }

    /// Waits; an error when the proxy stops.
    pub(crate) fn pause(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let state = self.state.lock();
        let state = self
            .changed
            .wait_timeout_while(state, time, |state| !state.is_stopped);
        if state.is_stopped {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Waits until [`Self::release`]; an error when the proxy stops.
    pub(crate) fn hold(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.held += 1;
        let own = state.held;
        self.changed.notify_all();
        while state.released < own {
            if state.is_stopped {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            state = self.changed.wait(state);
        }
        Ok(())
    }

    /// All that are held go on.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.released = state.held;
        self.changed.notify_all();
    }

    /// Whether a reply is held within this time.
    pub(crate) fn wait_until_held(&self, most: Duration) -> bool {
        let state = self.state.lock();
        let state = self
            .changed
            .wait_timeout_while(state, most, |state| state.held == state.released);
        state.held > state.released
    }

    pub(crate) fn set_script(&self, script: Script) {
        self.state.lock().script = script;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().seen.iter().cloned().collect()
    }

    /// Counts from zero. Requests keep their numbers.
    pub(crate) fn reset_counts(&self) {
        let mut state = self.state.lock();
        state.counts = Counts::default();
        state.seen.clear();
    }

    /// Ends all waiting and all connections.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        for socket in state.open.values().flatten() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        state.open.clear();
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }
}
