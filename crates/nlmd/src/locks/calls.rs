//! Calls to clients: granted locks, results of one-way calls, restart notices.
//!
//! A called client may be slow, even on purpose. A few threads serve addresses in turns; each call
//! has a deadline, each address at most [`QUEUED_PER_ADDRESS_MAX`] queued calls, all together
//! [`QUEUED_MAX`]. Calls over the bound are dropped: clients repeat requests, and notices are
//! repeated.
//!
//! Only requesting addresses are called, from the address that they called, by which clients know
//! their server. Their port mapper gives the port. All calls use TCP, where lock managers and
//! status monitors listen, too.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::sync::Mutex;
use pagewell_locks::file::Kind;
use pagewell_locks::records::Listed;
use pagewell_locks::table::{Answer, Offer};
use pagewell_sunrpc::caller::{self, Caller, Target};
use pagewell_sunrpc::nlm4::{self, Reply, Status, TestArguments};
use pagewell_sunrpc::nsm::{self, NotifyArguments};
use pagewell_sunrpc::portmap;
use pagewell_sunrpc::xdr::{Decode, Encode, Encoder};

use pagewell_rpcd::pool::{Flow, Pool};
use pagewell_rpcd::share::{Address, Shares};

/// Calling threads.
const THREADS_MAX: usize = 4;
/// Queued calls.
const QUEUED_MAX: usize = 1024;
/// Queued calls of one address.
const QUEUED_PER_ADDRESS_MAX: usize = 64;
/// Longest wait for a connection, and for a reply; a call has two of each.
const PATIENCE: Duration = Duration::from_secs(3);

/// The context for calling back a waiter.
#[derive(Clone, Debug)]
pub struct Context {
    /// The server address that the client knows.
    pub local: Option<IpAddr>,
    /// The handle as the client has it.
    pub handle: Arc<[u8]>,
}

/// A task of the calling threads.
pub enum Job {
    /// A waiting request is granted.
    Granted(Offer<Context>),
    /// The result of a one-way call.
    Result {
        /// The client, and the server address that it called.
        to: (IpAddr, Option<IpAddr>),
        /// The NLM procedure.
        procedure: u32,
        /// Its arguments.
        body: Vec<u8>,
    },
    /// The server has restarted.
    Restarted(Listed),
    /// Clean the list of clients.
    Clean,
}

impl Job {
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Granted(offer) => Some(offer.wish.owner.client.address),
            Self::Result { to, .. } => Some(to.0),
            Self::Restarted(listed) => Some(listed.client.address),
            Self::Clean => None,
        }
    }
}

/// The calling threads and their queue.
pub struct Calls {
    /// Threads end when it is stopped and empty.
    pub pool: Arc<Pool<Job>>,
    /// Queued calls, by address.
    queued: Arc<Mutex<Shares<Option<IpAddr>>>>,
}

impl Calls {
    /// `run` makes each call, on a thread that may block.
    pub fn new(run: impl Fn(Job) + Send + Sync + 'static) -> Self {
        let queued = Arc::new(Mutex::new(Shares::new(QUEUED_MAX)));
        let counts = queued.clone();
        let pool = Pool::new(THREADS_MAX, move |job: Job| {
            counts.lock().subtract(job.address(), 1);
            run(job);
        });
        Self { pool, queued }
    }

    /// Queues a call; false over the bound.
    pub fn queue(&self, job: Job) -> bool {
        let address = job.address();
        if !begin(&mut self.queued.lock(), address) {
            return false;
        }
        let flow = Flow {
            export: 0,
            address: address.map_or(Address::NONE, Address::of),
            token: 0,
        };
        self.pool.queue(&flow, job);
        true
    }
}

/// Counts a queued call, if allowed.
fn begin(queued: &mut Shares<Option<IpAddr>>, address: Option<IpAddr>) -> bool {
    let may_wait = queued.left() > 0 && queued.of(address) < QUEUED_PER_ADDRESS_MAX;
    if may_wait {
        queued.add(address, 1);
    }
    may_wait
}

/// Encoded bytes.
struct Wire<'a>(&'a [u8]);

impl Encode for Wire<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.raw(self.0);
    }
}

fn manager(procedure: u32) -> Target {
    Target {
        program: nlm4::PROGRAM,
        version: nlm4::VERSION,
        procedure,
    }
}

/// A client's machine.
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// The server address that it knows.
    pub local: Option<IpAddr>,
    /// The port of its port mapper.
    pub port_mapper: u16,
}

impl Peer {
    /// A connection to a program there, if possible.
    fn connect(&self, program: u32, version: u32) -> Option<Caller> {
        let mapper = SocketAddr::new(self.address, self.port_mapper);
        let mut mapper = portmap::Client::connect(&mapper, self.local, PATIENCE).ok()?;
        let port = mapper.port_of(program, version).ok()??;
        let address = SocketAddr::new(self.address, port);
        Caller::connect("the client", &address, self.local, PATIENCE).ok()
    }

    /// Reports a granted lock.
    #[must_use]
    pub fn grant(&self, offer: &Offer<Context>) -> Answer {
        let Some(mut caller) = self.connect(nlm4::PROGRAM, nlm4::VERSION) else {
            return Answer::Refused;
        };
        let wish = &offer.wish;
        let arguments = TestArguments {
            cookie: &offer.number.to_be_bytes(),
            exclusive: wish.kind == Kind::Write,
            lock: nlm4::Lock {
                caller_name: &wish.owner.client.name,
                handle: &offer.context.handle,
                owner: &wish.owner.handle,
                process: wish.owner.process,
                offset: wish.range.start(),
                length: wish.range.length(),
            },
        };
        let target = manager(nlm4::Procedure::Granted.number());
        let answer = caller.call(target, &arguments, |results| {
            Ok(Reply::decode(results)?.status)
        });
        match answer {
            Ok(Status::Granted) => Answer::Taken,
            // Even without such a procedure: nothing was done.
            Ok(_) | Err(caller::Error::Reply { .. }) => Answer::Refused,
            Err(_) => Answer::Unknown,
        }
    }

    /// Sends the result of a one-way call; returns whether it arrived.
    #[must_use]
    pub fn send_result(&self, procedure: u32, body: &[u8]) -> bool {
        let connected = self.connect(nlm4::PROGRAM, nlm4::VERSION);
        connected.is_some_and(|mut caller| {
            let target = manager(procedure);
            // Results have no meaningful reply.
            caller.call(target, &Wire(body), |_| Ok(())).is_ok()
        })
    }

    /// Sends restart notices under both names that the client may know: the address that it called
    /// and the host name. Returns whether both arrived.
    #[must_use]
    pub fn notify_restart(&self, state: i32) -> bool {
        let Some(mut caller) = self.connect(nsm::PROGRAM, nsm::VERSION) else {
            return false;
        };
        let address = self.local.map(|local| local.to_string());
        let uname = rustix::system::uname();
        let names = address
            .as_ref()
            .map(String::as_bytes)
            .into_iter()
            .chain([uname.nodename().to_bytes()]);
        let target = Target {
            program: nsm::PROGRAM,
            version: nsm::VERSION,
            procedure: nsm::Procedure::Notify.number(),
        };
        let mut heard = true;
        for name in names {
            let arguments = NotifyArguments { name, state };
            heard &= caller.call(target, &arguments, |_| Ok(())).is_ok();
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_meets_a_defect_does_not_wait_for_ever() {
        let (begun, begin) = std::sync::mpsc::channel();
        let calls = Calls::new(move |_| {
            begun.send(()).unwrap();
            panic!("a defect");
        });
        assert!(calls.queue(Job::Clean));
        begin.recv().unwrap();
        assert_eq!(calls.queued.lock().used(), 0);
        calls.pool.stop();
    }

    #[test]
    fn one_address_cannot_fill_the_queue() {
        let queued = &mut Shares::new(QUEUED_MAX);
        let address = |number: u8| Some(IpAddr::from([10, 0, 0, number]));
        let taken = (0..1000).filter(|_| begin(queued, address(1))).count();
        assert_eq!(taken, QUEUED_PER_ADDRESS_MAX);
        for number in 2..=255 {
            while begin(queued, address(number)) {}
        }
        assert_eq!(queued.used(), QUEUED_MAX);
        queued.subtract(address(1), 1);
        assert!(begin(queued, address(1)) && !begin(queued, address(1)));
    }
}
