//! Ends the wait of programs that are killed.
//!
//! Problem: a request that was received keeps its program until it is answered, whatever signal
//! comes. The kernel says when a program was interrupted, but the crate `fuser` does not pass it
//! on.
//!
//! Rule: a register has what waits, with its caller's thread. Every [`PERIOD`] a thread asks
//! `/proc` whether the caller of an entry that is as old is being killed: a SIGKILL is pending
//! (Linux turns every signal that ends a program into one), or it is ending because of a signal.
//! Its request is answered "interrupted"; the storage's result is dropped, and so are reads and
//! writes that wait for their turn.
//!
//! Weaknesses: a caller in another process namespace cannot be seen, and waits. A call that changes
//! names may happen although its dead program got "interrupted".

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::Errno;
use pagewell_base::sync::{Condvar, Mutex};

use crate::dispatch::Wanted;
use crate::reply::Refuse;

/// The age at which a caller is first looked at, and the time between two looks.
const PERIOD: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct Blocked {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, Waiting>,
    next: u64,
    /// The thread sleeps until a request comes.
    parked: bool,
    stopping: bool,
}

struct Waiting {
    thread: u32,
    since: Instant,
    interrupt: Arc<Interrupt>,
}

/// Answers "interrupted"; false if the answer was given before.
type Interrupt = dyn Fn() -> bool + Send + Sync;

pub(crate) struct Ticket<R: Refuse> {
    register: Arc<Blocked>,
    number: u64,
    reply: Arc<Mutex<Option<R>>>,
}

impl<R: Refuse> Ticket<R> {
    /// The reply, unless the caller was killed.
    pub(crate) fn finish(self) -> Option<R> {
        self.reply.lock().take()
    }

    /// Says at any time whether the caller still waits.
    pub(crate) fn wanted(&self) -> Wanted {
        let reply = Arc::clone(&self.reply);
        Box::new(move || reply.lock().is_some())
    }
}

impl<R: Refuse> Drop for Ticket<R> {
    fn drop(&mut self) {
        self.register.state.lock().waiting.remove(&self.number);
    }
}

impl Blocked {
    /// Starts the thread that looks, which calls `on_kill` after it has answered a killed caller.
    pub(crate) fn start(
        self: &Arc<Self>,
        on_kill: impl Fn() + Send + 'static,
    ) -> std::io::Result<()> {
        let register = Arc::clone(self);
        std::thread::Builder::new()
            .name("fuse-interrupts".to_owned())
            .spawn(move || register.watch(on_kill))
            .map(drop)
    }

    pub(crate) fn enter<R: Refuse>(self: &Arc<Self>, thread: u32, reply: R) -> Ticket<R> {
        let reply = Arc::new(Mutex::new(Some(reply)));
        let waiting = Arc::clone(&reply);
        let interrupt = move || {
            let reply = waiting.lock().take();
            reply.map(|reply| reply.refuse(Errno::EINTR)).is_some()
        };
        let waiting = Waiting {
            thread,
            since: Instant::now(),
            interrupt: Arc::new(interrupt),
        };
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, waiting);
        if state.parked {
            state.parked = false;
            self.wake.notify_one();
        }
        drop(state);
        Ticket {
            register: Arc::clone(self),
            number,
            reply,
        }
    }

    fn watch(&self, on_kill: impl Fn()) {
        let mut state = self.state.lock();
        while !state.stopping {
            if state.waiting.is_empty() {
                state.parked = true;
                state = self.wake.wait(state);
                continue;
            }
            state = self.wake.wait_timeout(state, PERIOD);
            let now = Instant::now();
            let waiting = state.waiting.values();
            let long = waiting.filter(|waiting| now.duration_since(waiting.since) >= PERIOD);
            let long = long.map(|waiting| (waiting.thread, Arc::clone(&waiting.interrupt)));
            let long: Vec<(u32, Arc<Interrupt>)> = long.collect();
            drop(state);
            let mut interrupted = false;
            for (thread, interrupt) in long {
                interrupted |= is_being_killed(thread) && interrupt();
            }
            if interrupted {
                on_kill();
            }
            state = self.state.lock();
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake.notify_one();
    }
}

/// Linux' number of SIGKILL, as a bit of a set of signals.
const KILL: u64 = 1 << 8;
/// Linux' flag of a task that a signal ends (`PF_SIGNALED`).
const SIGNALED: u64 = 0x400;

fn is_being_killed(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    let read = |file| std::fs::read(format!("/proc/{thread}/{file}")).unwrap_or_default();
    has_kill_pending(&read("status")) || is_signaled(&read("stat"))
}

fn has_kill_pending(status: &[u8]) -> bool {
    status.split(|byte| *byte == b'\n').any(|line| {
        let set = line
            .strip_prefix(b"SigPnd:")
            .or_else(|| line.strip_prefix(b"ShdPnd:"));
        set.and_then(|set| std::str::from_utf8(set).ok())
            .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .is_some_and(|set| set & KILL != 0)
    })
}

/// The flags in a stat file: the seventh word after the name, which may hold anything.
fn is_signaled(stat: &[u8]) -> bool {
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else {
        return false;
    };
    std::str::from_utf8(&stat[end + 1..])
        .ok()
        .and_then(|rest| rest.split_whitespace().nth(6)?.parse::<u64>().ok())
        .is_some_and(|flags| flags & SIGNALED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Answers(Sender<bool>);

    impl Refuse for Answers {
        fn refuse(self, errno: Errno) {
            self.0.send(errno.code() == libc::EINTR).unwrap();
        }
    }

    #[test]
    fn kills_are_seen_in_proc() {
        assert!(has_kill_pending(b"SigPnd:\t0000000000000100\nShdPnd:\t0\n"));
        assert!(has_kill_pending(b"SigPnd:\t0\nShdPnd:\t0000000000004100\n"));
        assert!(!has_kill_pending(
            b"SigPnd:\t0000000000000200\nSigBlk:\t100\n"
        ));
        let stat = |flags: u64| format!("7 (a) b c) S 1 2 3 4 5 {flags} 7 8\n");
        assert!(is_signaled(stat(0x400_400).as_bytes()));
        assert!(!is_signaled(stat(0x400_000).as_bytes()));
        assert!(!is_signaled(b"") && !is_signaled(b"7 (x)"));
        assert!(!is_being_killed(0) && !is_being_killed(std::process::id()));
    }

    #[test]
    fn a_killed_caller_gets_interrupted_and_the_answer_is_dropped() {
        let register = Arc::new(Blocked::default());
        let (freed, was_freed) = channel();
        register.start(move || freed.send(()).unwrap()).unwrap();
        let (answer, answers) = channel();
        // A process that ended by a signal and was not waited for is still in /proc.
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let ticket = register.enter(child.id(), Answers(answer.clone()));
        let wanted = ticket.wanted();
        assert!(wanted());
        let other = register.enter(std::process::id(), Answers(answer));
        child.kill().unwrap();
        assert_eq!(answers.recv(), Ok(true));
        was_freed.recv().unwrap();
        assert!(!wanted());
        assert!(ticket.finish().is_none());
        assert!(other.finish().is_some());
        assert!(register.state.lock().waiting.is_empty());
        child.wait().unwrap();
        register.stop();
    }
}
