//! A running server: its threads and what they share.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell_counters::names;
use rustix::event::{EventfdFlags, eventfd};

use crate::accept::acceptor::Door;
use crate::accept::descriptors;
use crate::config::Config;
use crate::connection::latest::Arrivals;
use crate::connection::slots::{Place, Places};
use crate::connection::{Connection, Totals};
use crate::held::parking::Parking;
use crate::receive::reader::{FIRST_TOKEN, Mailbox, Reader, Waker};
use crate::request_memory::budget::{Buffer, Memory, REQUEST_BYTES_MAX};
pub use crate::service::Loss;
use crate::service::{Service, WaitingCall};
use crate::share::Address;
use crate::workers::pool::{Line, Pool};

/// How long a stopping server lets clients fetch the replies to what was begun.
const DRAIN_FOR: Duration = Duration::from_secs(10);

/// The most receiving threads; each serves thousands of calls per millisecond.
const READERS_MAX: usize = 8;

/// Where a thread that lists and another both want a processor, the former gets a quarter of it
/// (`sched(7)`), and waits when the other has something to do again.
const LISTING_NICENESS: i32 = 5;

/// An export has so many times fewer threads for listings than for other calls.
const LISTING_THREADS_PART: usize = 4;

/// Why a server could not start or stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        reason: String,
    },
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// The system refused a resource (a thread, an epoll descriptor).
    #[error("cannot start: {0}")]
    System(String),
}

/// What all threads of a server share.
pub struct Shared {
    /// Answers calls.
    pub service: Service,
    /// Memory for requests.
    pub memory: Arc<Memory>,
    /// Set once, when the server is to stop.
    pub stopping: AtomicBool,
    /// How long stopping may take.
    pub drain_for: Duration,
    /// Connections at once.
    pub places: Arc<Places>,
    /// What all connections have together.
    pub totals: Arc<Totals>,
    mailboxes: Vec<Arc<Mailbox>>,
    next_token: AtomicU64,
    arrivals: Arrivals,
    pool: OnceLock<Arc<Pool<Job>>>,
    /// For listings, see [`LISTING_NICENESS`].
    listings: OnceLock<Arc<Pool<Job>>>,
    parking: Parking<Job>,
}

/// A call for the pool.
pub struct Job {
    /// The connection to answer.
    pub connection: Arc<Connection>,
    /// Holds the call's record.
    pub record: Buffer,
    /// Bytes of the record.
    pub length: usize,
    /// When its last byte arrived.
    pub received_at: Instant,
    /// What the first look at the call has left to remember.
    pub state: WaitingCall,
}

impl Job {
    /// What the connection is charged for: the record, or the reply if that may be larger; and
    /// the memory that the reply may take.
    fn charged_bytes(&self) -> (usize, usize) {
        let state = &self.state;
        (
            self.length.max(state.reply_bytes_max),
            state.listing_bytes_max,
        )
    }
}

impl Shared {
    /// Hands a call to the pool.
    pub fn queue(&self, job: Job) {
        names::CALLS_POOLED.add(1);
        let (bytes, reply_bytes) = job.charged_bytes();
        job.connection.begin_call(bytes, reply_bytes);
        self.line_up(job);
    }

    fn line_up(&self, job: Job) {
        let lists = job.state.listing_bytes_max > 0;
        let pool = if lists { &self.listings } else { &self.pool };
        if let Some(pool) = pool.get() {
            let line = Line {
                export: job.state.place.export,
                address: Address::of(job.connection.peer()),
                token: job.connection.token(),
            };
            pool.queue(&line, job);
        }
    }

    /// Both pools, once they are there.
    fn pools(&self) -> impl Iterator<Item = &Arc<Pool<Job>>> {
        [&self.pool, &self.listings]
            .into_iter()
            .filter_map(OnceLock::get)
    }

    /// The number of the next connection.
    pub fn new_token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next connection will have.
    #[must_use]
    pub fn next_token(&self) -> u64 {
        self.next_token.load(Ordering::Relaxed)
    }

    /// Gives a new connection to the next reader.
    pub fn assign(&self, socket: OwnedFd, peer: (IpAddr, u16), place: Place) {
        let token = place.token();
        #[allow(clippy::cast_possible_truncation)] // only the remainder matters
        let mailbox = &self.mailboxes[token as usize % self.mailboxes.len()];
        let waker = Waker::new(mailbox.clone(), token);
        let latest = self.arrivals.of(peer.0);
        let totals = self.totals.clone();
        let connection = Connection::new(socket, peer, waker, totals, latest, place);
        let connection = Arc::new(connection);
        self.places.seat(&connection);
        mailbox.adopt(connection);
    }

    fn run(&self, job: Job) {
        names::CALLS_RUNNING.add(1);
        let (connection, state) = (job.connection.clone(), job.state);
        let (bytes, reply_bytes) = job.charged_bytes();
        let may_wait = !self.stopping.load(Ordering::Acquire)
            && !self.parking.is_over(state.waits_since, Instant::now());
        // Nothing panics by intention. If something does, it costs its client the connection and
        // nobody else anything.
        let work = AssertUnwindSafe(|| self.service.answer_waiting(job, may_wait));
        let left = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            self.service.give_up(&state);
            connection.close();
            None
        });
        names::CALLS_RUNNING.add(-1);
        match left {
            None => connection.end_call(bytes, reply_bytes),
            Some(job) => self.park(job),
        }
    }

    /// Has a call wait without a thread, because storage holds others for its object.
    fn park(&self, mut job: Job) {
        let since = *job.state.waits_since.get_or_insert_with(|| {
            names::CALLS_PARKED.add(1);
            Instant::now()
        });
        let (place, kind) = (job.state.place, job.state.kind);
        self.parking.park(job, (place, kind), since);
        if self.stopping.load(Ordering::Acquire) {
            self.unpark_all();
        }
    }

    fn unpark_all(&self) {
        for job in self.parking.all() {
            self.line_up(job);
        }
    }

    /// Answers calls that storage holds, until the server stops.
    fn watch(&self) {
        let period = self.service.slow_calls().period();
        while !self.stopping.load(Ordering::Acquire) {
            std::thread::park_timeout(period);
            let now = Instant::now();
            self.service.locks().tick(now);
            let held = self.service.answer_held(now);
            self.pools().for_each(|pool| pool.set_held(&held));
            let slow = self.service.slow_calls();
            for job in self
                .parking
                .due(now, |place, kind| slow.is_held(place, kind))
            {
                self.line_up(job);
            }
        }
        self.unpark_all();
    }
}

/// A running server; stops when told to, or when dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Calls the thread that accepts.
    bell: Arc<OwnedFd>,
    door: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    watcher: Option<JoinHandle<()>>,
    datagrams: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens and serves on threads of its own.
    pub fn start(config: Config) -> Result<Self, Error> {
        let listen = config.listen;
        let threads = config.threads;
        let places = descriptors::connections_max(config.connections_max);
        let parking = Parking::new(config.slow_after / 2);
        let datagrams = config.locks.datagrams;
        let refused = |error: std::io::Error| Error::Listen {
            address: listen,
            reason: error.to_string(),
        };
        let system = |error: std::io::Error| Error::System(error.to_string());
        let memory = Memory::new(REQUEST_BYTES_MAX);
        let service = Service::new(config)?;
        let listener = TcpListener::bind(listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let count = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(READERS_MAX);
        let mailboxes: Result<Vec<_>, _> = (0..count).map(|_| Mailbox::new()).collect();
        let totals = Totals {
            unsent: service.unsent().clone(),
            ..Totals::default()
        };
        let shared = Arc::new(Shared {
            service,
            memory,
            stopping: AtomicBool::new(false),
            drain_for: DRAIN_FOR,
            places: Places::new(places),
            totals: Arc::new(totals),
            mailboxes: mailboxes.map_err(|errno| system(errno.into()))?,
            next_token: AtomicU64::new(FIRST_TOKEN),
            arrivals: Arrivals::default(),
            pool: OnceLock::new(),
            listings: OnceLock::new(),
            parking,
        });
        let weak = Arc::downgrade(&shared);
        let run = move |job: Job| {
            if let Some(shared) = weak.upgrade() {
                shared.run(job);
            }
        };
        let listing_threads = threads.div_ceil(LISTING_THREADS_PART);
        let listings = Pool::polite(listing_threads, LISTING_NICENESS, run.clone());
        let _ = shared.listings.set(listings);
        let _ = shared.pool.set(Pool::new(threads, run));
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).map_err(|errno| system(errno.into()))?;
        let mut server = Self {
            address,
            shared,
            bell: Arc::new(bell),
            door: None,
            readers: Vec::new(),
            watcher: None,
            datagrams: None,
        };
        server.start_threads(listener).map_err(system)?;
        if datagrams {
            server.receive_datagrams().map_err(system)?;
        }
        Ok(server)
    }

    fn start_threads(&mut self, listener: TcpListener) -> std::io::Result<()> {
        for mailbox in self.shared.mailboxes.clone() {
            let reader = Reader::new(self.shared.clone(), mailbox)?;
            let builder = std::thread::Builder::new().name("pagewell-reader".into());
            self.readers.push(builder.spawn(move || reader.run())?);
        }
        let shared = self.shared.clone();
        let builder = std::thread::Builder::new().name("pagewell-watcher".into());
        self.watcher = Some(builder.spawn(move || shared.watch())?);
        let door = Door::new(listener, self.bell.clone(), self.shared.clone());
        let builder = std::thread::Builder::new().name("pagewell-door".into());
        self.door = Some(builder.spawn(move || door.run())?);
        Ok(())
    }

    /// Answers calls about locks at the same port of UDP.
    fn receive_datagrams(&mut self) -> std::io::Result<()> {
        let socket = UdpSocket::bind(self.address)?;
        let shared = self.shared.clone();
        let builder = std::thread::Builder::new().name("pagewell-datagrams".into());
        let serve = move || crate::datagrams::serve(&shared, socket);
        self.datagrams = Some(builder.spawn(serve)?);
        Ok(())
    }

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, finishes what was begun, brings dirty data to the device.
    pub fn stop(mut self) -> Result<(), pagewell_fs::Error> {
        self.halt();
        self.shared.service.sync()
    }

    /// The same, but does not wait for a source that takes nothing of what was written for so long,
    /// such as a server that is gone. What is lost then is said.
    pub fn stop_within(mut self, patience: Duration) -> Vec<Loss> {
        self.halt();
        let losses = self.shared.service.finish(patience);
        if !self.shared.service.is_idle() {
            // Calls that are still waited for would keep what they are made of.
            self.shared.service.abandon();
        }
        losses
    }

    fn halt(&mut self) {
        if self.shared.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        let deadline = Instant::now() + self.shared.drain_for;
        // It can only fail when the count is full, and then the thread is being called already.
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        if let Some(door) = self.door.take() {
            let _ = door.join();
        }
        for mailbox in &self.shared.mailboxes {
            mailbox.ring();
        }
        for reader in self.readers.drain(..) {
            // A reader that panicked has been reported by the panic hook.
            let _ = reader.join();
        }
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
        if let Some(datagrams) = self.datagrams.take() {
            let _ = datagrams.join();
        }
        self.shared.service.locks().stop();
        self.shared.pools().for_each(|pool| pool.stop());
        // Running calls have nobody to answer any more, but what they change is to be on the device
        // with the rest.
        while !self.shared.service.is_idle() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.halt();
    }
}
