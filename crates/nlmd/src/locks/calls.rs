//! Calls to clients: a lock that was waited for is granted, the result of a one-way call, and the
//! notice that we have restarted.
//!
//! Problem: a client that is called may be slow, or wait on purpose. Rule: a few threads of their
//! own, turn and turn about between addresses; each call has a deadline; each address may have
//! [`QUEUED_PER_ADDRESS_MAX`] waiting, and all together [`QUEUED_MAX`]. A call that would be one
//! more is not made: clients ask again, and notices are repeated.
//!
//! Only the address that asked is ever called, from the address that it had called: clients know
//! their server by that. The port is asked of the port mapper there. All calls go over TCP; lock
//! managers and status monitors listen there as well as for datagrams.

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

/// Threads that call.
const THREADS_MAX: usize = 4;
/// Calls that wait for a thread.
const QUEUED_MAX: usize = 1024;
/// Those of one address.
const QUEUED_PER_ADDRESS_MAX: usize = 64;
/// The longest wait for a connection, and for an answer. There are two of each in a call.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is needed to call back a client that waits for a lock.
#[derive(Clone, Debug)]
pub struct Context {
    /// The address of ours that the client knows.
    pub local: Option<IpAddr>,
    /// The handle as the client has it.
    pub handle: Arc<[u8]>,
}

/// What is to be done.
pub enum Job {
    /// A lock that was waited for can be had.
    Granted(Offer<Context>),
    /// The result of a one-way call.
    Result {
        /// The client, and the address of ours that it called.
        to: (IpAddr, Option<IpAddr>),
        /// Procedure of NLM.
        procedure: u32,
        /// Its arguments.
        body: Vec<u8>,
    },
    /// We have restarted.
    Restarted(Listed),
    /// The list of clients is to be cleaned.
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

/// The threads that call, and what they have to do.
pub struct Calls {
    /// Its threads end when it is stopped and nothing is left to do.
    pub pool: Arc<Pool<Job>>,
    /// Those that wait for a thread, by address.
    queued: Arc<Mutex<Shares<Option<IpAddr>>>>,
}

impl Calls {
    /// Each is made by `run`, on a thread that may wait.
    pub fn new(run: impl Fn(Job) + Send + Sync + 'static) -> Self {
        let queued = Arc::new(Mutex::new(Shares::new(QUEUED_MAX)));
        let counts = queued.clone();
        let pool = Pool::new(THREADS_MAX, move |job: Job| {
            counts.lock().subtract(job.address(), 1);
            run(job);
        });
        Self { pool, queued }
    }

    /// Has a call made; false when too many wait.
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

/// One more call to an address waits, if it may.
fn begin(queued: &mut Shares<Option<IpAddr>>, address: Option<IpAddr>) -> bool {
    let may_wait = queued.left() > 0 && queued.of(address) < QUEUED_PER_ADDRESS_MAX;
    if may_wait {
        queued.add(address, 1);
    }
    may_wait
}

/// Bytes that are encoded already.
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
    /// Where it is.
    pub address: IpAddr,
    /// The address of ours that it knows.
    pub local: Option<IpAddr>,
    /// The port of its port mapper.
    pub port_mapper: u16,
}

impl Peer {
    /// A connection to a program there; `None` when it is not to be had.
    fn connect(&self, program: u32, version: u32) -> Option<Caller> {
        let mapper = SocketAddr::new(self.address, self.port_mapper);
        let mut mapper = portmap::Client::connect(&mapper, self.local, PATIENCE).ok()?;
        let port = mapper.port_of(program, version).ok()??;
        let address = SocketAddr::new(self.address, port);
        Caller::connect("the client", &address, self.local, PATIENCE).ok()
    }

    /// Says that a lock which was waited for can be had.
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
            // Also when no such procedure is there: then nothing was done.
            Ok(_) | Err(caller::Error::Reply { .. }) => Answer::Refused,
            Err(_) => Answer::Unknown,
        }
    }

    /// Sends the result of a one-way call; says whether it arrived.
    #[must_use]
    pub fn send_result(&self, procedure: u32, body: &[u8]) -> bool {
        let connected = self.connect(nlm4::PROGRAM, nlm4::VERSION);
        connected.is_some_and(|mut caller| {
            let target = manager(procedure);
            // Nothing is done with the answer to a result.
            caller.call(target, &Wire(body), |_| Ok(())).is_ok()
        })
    }

    /// Notifies under both names that the client may know us by: the address that it calls, and our
    /// name. Says whether it heard of both.
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
