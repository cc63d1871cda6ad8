//! The connections of one host, bounded for bodies and for small replies by themselves, and kept
//! for the next request; and the pause that the host has asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use pagewell_base::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::activity::Counts;
use crate::error::Error;
use crate::location::Origin;
use crate::transport::connect::Connect;
use crate::transport::failure::{Failure, reason};
use crate::transport::payload::Payload;

/// How long a connection may be unused: servers were seen to close after half a minute.
const IDLE_MAX: Duration = Duration::from_secs(25);
/// The longest pause of other requests that a server gets.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Bytes that hyper reads at once, and of the head of a reply.
const BUFFER_BYTES_MAX: usize = 256 * 1024;
const HEADERS_MAX: usize = 128;

/// How long a kept connection may take to be ready before it counts as closed.
const READY_MAX: Duration = Duration::from_secs(1);

/// The task that moves the bytes of a connection, and closes it when dropped.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Idle {
    sender: SendRequest<Payload>,
    driver: Driver,
    since: Instant,
}

/// A connection for one request, and the right to have it.
pub(crate) struct Connection {
    sender: SendRequest<Payload>,
    driver: Driver,
    is_reused: bool,
    host: Arc<Host>,
    slot: OwnedSemaphorePermit,
}

impl Connection {
    pub(crate) fn sender(&mut self) -> &mut SendRequest<Payload> {
        &mut self.sender
    }

    /// Whether it has served a request: the server may have closed it since.
    pub(crate) fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Keeps it for the next request; the reply was read to its end.
    pub(crate) fn keep(self) {
        if !self.sender.is_closed() {
            let idle = Idle {
                sender: self.sender,
                driver: self.driver,
                since: Instant::now(),
            };
            self.host.idle.lock().push(idle);
        }
        drop(self.slot);
    }

    pub(crate) fn close(self) -> OwnedSemaphorePermit {
        self.slot
    }
}

pub(crate) struct Host {
    origin: Origin,
    /// For bodies, and for small replies: a listing should not wait until all that is read ahead
    /// has come.
    slots: [Arc<Semaphore>; 2],
    was_reached: AtomicBool,
    idle: Mutex<Vec<Idle>>,
    paused_until: Mutex<Option<Instant>>,
}

impl Host {
    pub(crate) fn new(origin: Origin, connections_max: usize) -> Arc<Self> {
        Arc::new(Self {
            origin,
            slots: [connections_max, connections_max.div_ceil(4)]
                .map(|slots| Arc::new(Semaphore::new(slots.max(1)))),
            was_reached: AtomicBool::new(false),
            idle: Mutex::new(Vec::new()),
            paused_until: Mutex::new(None),
        })
    }

    pub(crate) fn pause(&self, pause: Duration) {
        let end = Instant::now() + pause.min(PAUSE_MAX);
        let mut until = self.paused_until.lock();
        *until = Some(until.map_or(end, |until| until.max(end)));
    }

    pub(crate) async fn wait_pause(&self) {
        loop {
            let until = *self.paused_until.lock();
            match until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => return,
            }
        }
    }

    pub(crate) fn was_reached(&self) -> bool {
        self.was_reached.load(Ordering::Relaxed)
    }

    pub(crate) async fn slot(&self, is_body: bool) -> Result<OwnedSemaphorePermit, Failure> {
        let slots = &self.slots[usize::from(!is_body)];
        let slot = Arc::clone(slots).acquire_owned().await;
        slot.map_err(|_| Failure::lasting(Error::Unreachable("the client ends".to_owned())))
    }

    /// A kept connection, the youngest first, or a new one.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        slot: OwnedSemaphorePermit,
        connect: &dyn Connect,
        counts: &Counts,
    ) -> Result<Connection, Failure> {
        while let Some(mut idle) = self.next_idle() {
            // The connection may have an end of the last reply to see.
            let ready = tokio::time::timeout(READY_MAX, idle.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                return Ok(Connection {
                    sender: idle.sender,
                    driver: idle.driver,
                    is_reused: true,
                    host: Arc::clone(self),
                    slot,
                });
            }
        }
        let stream = connect.connect(&self.origin).await?;
        self.was_reached.store(true, Ordering::Relaxed);
        counts.connection();
        let handshake = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, driver) = handshake.map_err(|error| {
            Failure::not_sent(format!("{}: {}", self.origin.url(), reason(&error)))
        })?;
        // The request that it carries gets its error.
        let task = tokio::spawn(async move { driver.await.unwrap_or_default() });
        Ok(Connection {
            sender,
            driver: Driver(task.abort_handle()),
            is_reused: false,
            host: Arc::clone(self),
            slot,
        })
    }

    fn next_idle(&self) -> Option<Idle> {
        let mut idle = self.idle.lock();
        let last = idle.pop()?;
        if last.since.elapsed() > IDLE_MAX {
            // It was the youngest: the others are too old as well.
            idle.clear();
            return None;
        }
        Some(last)
    }
}
