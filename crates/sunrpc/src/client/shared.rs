//! What all threads of a client share.

use super::options::Options;
use super::statistics::{Counted, Statistics};
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_base::timer::Timer;
use pagewell_counters::names;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A server that answers garbage all the time is reported no more often than this.
const GARBAGE_REPORTED_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) counted: Counted,
    /// Keeps replies until the injected delay is over, which makes a local server look remote.
    /// Calls in flight overlap, as on a long line. What it does not imitate: bandwidth, loss, and
    /// that a remote server learns of a call later.
    pub(super) delay: Option<(Duration, Timer)>,
    pub(super) started: Instant,
    next_xid: AtomicU32,
    in_flight: AtomicI64,
    stopped: AtomicBool,
    /// A message has said that the server does not respond.
    silent: AtomicBool,
    garbage_reported: Mutex<Option<Instant>>,
    /// True when stopped; for the watcher, which sleeps on it.
    watch: Mutex<bool>,
    stopping: Condvar,
}

impl Shared {
    pub(super) fn new(program: u32, version: u32, options: Options) -> std::io::Result<Self> {
        let panicked = || names::CLIENT_COMPLETION_PANICS.add(1);
        let timer = |_| Timer::new("rpc-delay", Duration::ZERO, panicked);
        let timer = options.delay.map(timer).transpose()?;
        let delay = options.delay.zip(timer);
        let first_xid = super::dial::scatter();
        Ok(Self {
            program,
            version,
            counted: Counted::new(program),
            delay,
            started: Instant::now(),
            // A server remembers calls by xid: those of the last run of this program must not
            // be taken for ours.
            next_xid: AtomicU32::new(first_xid),
            in_flight: AtomicI64::new(0),
            stopped: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            garbage_reported: Mutex::new(None),
            watch: Mutex::new(false),
            stopping: Condvar::new(),
            options,
        })
    }

    /// Since the client was made.
    pub(super) fn milliseconds(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn next_xid(&self) -> u32 {
        self.next_xid.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        names::CLIENT_CALLS_IN_FLIGHT.add(1);
    }

    pub(super) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        names::CLIENT_CALLS_IN_FLIGHT.add(-1);
    }

    pub(super) fn statistics(&self) -> Statistics {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        self.counted.snapshot(u64::try_from(in_flight).unwrap_or(0))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        *self.watch.lock() = true;
        self.stopping.notify_all();
        if let Some((_, timer)) = &self.delay {
            timer.handle().stop();
        }
    }

    /// Sleeps; true when the client was stopped.
    pub(super) fn sleep(&self, duration: Duration) -> bool {
        let stopped = self.watch.lock();
        if *stopped {
            return true;
        }
        *self.stopping.wait_timeout(stopped, duration)
    }

    /// Says once that the server does not respond, until it does.
    pub(super) fn report_silence(&self) {
        if !self.silent.swap(true, Ordering::Relaxed) {
            let server = &self.options.server;
            let text = format!("server {server} not responding, still trying");
            self.options.log.write(&text);
        }
    }

    /// A good reply has come.
    pub(super) fn heard(&self) {
        if self.silent.load(Ordering::Relaxed) && self.silent.swap(false, Ordering::Relaxed) {
            let text = format!("server {} OK", self.options.server);
            self.options.log.write(&text);
        }
    }

    pub(super) fn report_garbage(&self, reason: &str) {
        self.counted.invalid_replies.add(1);
        let mut reported = self.garbage_reported.lock();
        if reported.is_some_and(|reported| reported.elapsed() < GARBAGE_REPORTED_EVERY) {
            return;
        }
        *reported = Some(Instant::now());
        drop(reported);
        let server = &self.options.server;
        let text = format!("server {server} answers garbage ({reason}); connection given up");
        self.options.log.write(&text);
    }
}
