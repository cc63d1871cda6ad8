//! The answering end.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_counters::{names, served};

use super::{Ended, PREFIX, other_end};
use crate::acceptor::Acceptor;
use crate::metrics::Snapshot;

/// Further askers are closed.
const ASKERS_MAX: usize = 16;
const QUESTION_BYTES_MAX: u64 = 64;
/// For a question, and for each line of an answer.
const ASKER_TIME: Duration = Duration::from_secs(5);
/// The period of lines about bytes left.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// How long the process waits for askers to get their last line.
const FAREWELL: Duration = Duration::from_secs(2);

/// A listener; dropping it ends it.
pub struct Control {
    shared: Arc<Shared>,
    _acceptor: Acceptor,
}

/// Reads the configuration again; the result in a line.
pub type Reload = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The kernel still has users of the mount.
    is_used: Box<dyn Fn() -> bool + Send + Sync>,
    /// Servers only.
    reload: Option<Reload>,
}

#[derive(Default)]
struct State {
    /// The last line, once known.
    ending: Option<String>,
    askers: usize,
}

impl Control {
    /// Listens for the process of a mount, of the kind `mount/MAJOR:MINOR`.
    pub fn start(
        kind: &str,
        is_used: impl Fn() -> bool + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::listen(kind, Box::new(is_used), None)
    }

    /// Listens for the process of a server.
    pub fn start_server(reload: Reload) -> std::io::Result<Self> {
        Self::listen("serve", Box::new(|| false), Some(reload))
    }

    fn listen(
        kind: &str,
        is_used: Box<dyn Fn() -> bool + Send + Sync>,
        reload: Option<Reload>,
    ) -> std::io::Result<Self> {
        let name = format!("{PREFIX}{}/{kind}", std::process::id());
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = UnixListener::bind_addr(&address)?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            is_used,
            reload,
        });
        let (stopped, asked) = (listener.try_clone()?.into(), Arc::clone(&shared));
        let acceptor = Acceptor::start("control", stopped, move || {
            let (stream, _) = listener.accept()?;
            if may_ask(&stream) {
                begin(stream, &asked);
            }
            Ok(())
        })?;
        Ok(Self {
            shared,
            _acceptor: acceptor,
        })
    }

    /// Reports the ending to all askers: what was written where, or the loss.
    pub fn finish(&self, ended: Result<Ended, &str>) {
        let line = match ended {
            Ok(Ended::Kept(bytes)) => format!("kept {bytes}\n"),
            Ok(Ended::Written | Ended::UsedElsewhere) => "done\n".to_owned(),
            Err(reason) => format!("lost {}\n", reason.replace('\n', " ")),
        };
        let mut state = self.shared.state.lock();
        state.ending = Some(line);
        self.shared.changed.notify_all();
        let wait = |state: &mut State| state.askers > 0;
        drop(
            self.shared
                .changed
                .wait_timeout_while(state, FAREWELL, wait),
        );
    }
}

/// Whether the other end is the same user, or root.
fn may_ask(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    other_end(stream).is_ok_and(|asker| asker.user.is_root() || asker.user == own)
}

fn begin(stream: UnixStream, shared: &Arc<Shared>) {
    {
        let mut state = shared.state.lock();
        if state.askers >= ASKERS_MAX {
            return;
        }
        state.askers += 1;
    }
    let asker = Asker(Arc::clone(shared));
    // Without a thread the connection closes, which the other end sees.
    let _ = thread::Builder::new()
        .name("control asker".to_owned())
        .spawn(move || {
            // An asker that is gone or too slow gets no error.
            let _ = answer(&stream, &asker.0);
        });
}

/// Counts an asker until it is answered.
struct Asker(Arc<Shared>);

impl Drop for Asker {
    fn drop(&mut self) {
        self.0.state.lock().askers -= 1;
        self.0.changed.notify_all();
    }
}

fn answer(mut stream: &UnixStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(ASKER_TIME))?;
    stream.set_write_timeout(Some(ASKER_TIME))?;
    let mut question = String::new();
    BufReader::new(stream.take(QUESTION_BYTES_MAX)).read_line(&mut question)?;
    match question.as_str() {
        "stat\n" => stream.write_all(&serde_json::to_vec(&Snapshot::take())?),
        "end\n" => tell_ending(stream, shared),
        "reload\n" => match &shared.reload {
            Some(reload) => stream.write_all(outcome_line(reload()).as_bytes()),
            None => Ok(()),
        },
        other => match disconnected(other) {
            Some(ended) => stream.write_all(format!("{ended}\n").as_bytes()),
            None => Ok(()),
        },
    }
}

fn outcome_line(outcome: Result<String, String>) -> String {
    let (word, line) = match outcome {
        Ok(line) => ("done", line),
        Err(line) => ("refused", line),
    };
    format!("{word} {}\n", line.replace('\n', " "))
}

/// Ends the connections of a client; returns their number.
fn disconnected(question: &str) -> Option<usize> {
    let address = question.strip_prefix("disconnect ")?.strip_suffix('\n')?;
    let address = address.parse().ok()?;
    let fronts = served::fronts().into_iter();
    Some(fronts.map(|front| front.disconnect(address)).sum())
}

fn tell_ending(mut stream: &UnixStream, shared: &Shared) -> std::io::Result<()> {
    let mut state = shared.state.lock();
    loop {
        if let Some(line) = state.ending.clone() {
            drop(state);
            return stream.write_all(line.as_bytes());
        }
        drop(state);
        let line = match (shared.is_used)() {
            true => "used\n".to_owned(),
            false => format!("left {}\n", names::CACHE_DIRTY_BYTES.get()),
        };
        stream.write_all(line.as_bytes())?;
        state = shared.state.lock();
        if state.ending.is_none() {
            state = shared.changed.wait_timeout(state, TELL_EVERY);
        }
    }
}
