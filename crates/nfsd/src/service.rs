//! The programs of a server, and the one for each call.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use pagewell_export::exports::{Caller, InForce};
use pagewell_fs::BatchCache;
use pagewell_nfs3d::duplicate::Pending;
use pagewell_nfs3d::mount::MountProgram;
use pagewell_nfs3d::nfs3::Nfs3;
use pagewell_nlmd::locks::Locks;
use pagewell_nlmd::program as lock_manager;
use pagewell_rpcd::bounds::Bounds;
use pagewell_rpcd::call::{Answer, CallName, Request, credentials_of, refuse, refuse_version};
use pagewell_rpcd::clients::{CLIENTS, CountsLocks};
use pagewell_rpcd::connection::Connection;
use pagewell_rpcd::program::{Decision, Later, Program};
use pagewell_rpcd::reply::Batch;
use pagewell_rpcd::usage::ExportLabel;
use pagewell_sunrpc::rpc::{self, Refusal};
use pagewell_sunrpc::{mount3, nfs3, nlm4, nsm, portmap};

use crate::config::{Config, Error};
use crate::port_mapper;

/// Answers calls.
pub struct Service {
    /// The exports.
    pub exports: Arc<InForce>,
    nfs: Nfs3,
    mount: MountProgram,
    locks: Arc<Locks>,
}

impl Service {
    /// A service for the exports of `config`.
    pub fn new(config: Config, bounds: Arc<Bounds>) -> Result<Self, Error> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::System(errno.to_string()))?;
        let exports = InForce::new(config.exports, config.handle_key, bounds)?;
        let exports = Arc::new(exports);
        let locks = Locks::open(&config.locks, Instant::now())
            .map_err(|error| Error::System(format!("the list of clients with locks: {error}")))?;
        let counted: Arc<dyn CountsLocks> = locks.clone();
        CLIENTS.add_locks(Arc::downgrade(&counted));
        crate::served::register();
        Ok(Self {
            nfs: Nfs3::new(exports.clone(), secret),
            exports,
            mount: MountProgram::default(),
            locks,
        })
    }
}

impl Program for Service {
    type Received = BatchCache;
    type Pending = Pending;

    fn allows(&self, address: IpAddr) -> bool {
        self.exports.allows(address)
    }

    fn begin_receive(&self) -> BatchCache {
        BatchCache::new()
    }

    fn export_of_record(&self, beginning: &[u8], peer: IpAddr) -> Option<u32> {
        self.nfs.export_of_record(beginning, peer)
    }

    fn label_of(&self, export: u32, address: IpAddr) -> ExportLabel {
        self.exports.now().label_of(export, address)
    }

    fn answer(
        &self,
        request: &Request<'_>,
        received: Option<&BatchCache>,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        let may_block = received.is_none();
        let (call, arguments) = match rpc::parse_call(request.record) {
            Ok(parsed) => parsed,
            Err(refused) => {
                let refuse = |(xid, refusal)| refuse(batch, xid, refusal);
                return refused.map_or(Answer::Done, refuse);
            }
        };
        let connection = request.connection;
        let served = self.exports.now();
        let caller = || {
            let identity = credentials_of(&call);
            Caller::new(&served, identity, connection.peer, (may_block, received))
        };
        match (call.program, call.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let call = (request, call, arguments);
                self.nfs.answer(call, &served, received, batch)
            }
            (mount3::PROGRAM, mount3::FIRST_VERSION..=mount3::VERSION) => {
                self.mount
                    .answer(request, &call, arguments, &caller(), batch)
            }
            (nlm4::PROGRAM | nsm::PROGRAM, _) => {
                let asked = (caller(), &*self.locks, &*self.exports.bounds);
                lock_manager::answer(asked, connection, &call, arguments, batch)
            }
            (portmap::PROGRAM, _) => port_mapper::answer(connection, &call, arguments, batch),
            (nfs3::PROGRAM, _) => refuse_version(batch, call.xid, nfs3::VERSION..=nfs3::VERSION),
            (mount3::PROGRAM, _) => {
                let served = mount3::FIRST_VERSION..=mount3::VERSION;
                refuse_version(batch, call.xid, served)
            }
            _ => refuse(batch, call.xid, Refusal::ProgramUnavailable),
        }
    }

    fn shorten(&self, beginning: &mut [u8]) -> Option<usize> {
        pagewell_nfs3d::long_write::shorten(beginning)
    }

    fn later(&self, call: CallName, batch: &mut Batch) -> Later {
        match call.program {
            nfs3::PROGRAM => self.nfs.later(call, batch),
            // MOUNT cannot say "later" (RFC 1813 appendix I), and clients take MNT3ERR_SERVERFAULT
            // as final.
            mount3::PROGRAM => Later::Unsayable,
            _ => Later::Answered,
        }
    }

    fn note_stalled(&self, call: CallName, export: u32, peer: IpAddr, now: Instant) {
        self.nfs.note_stalled(call, export, peer, now);
    }

    fn is_undecided(pending: &Pending) -> bool {
        matches!(pending, Pending::Undecided(_))
    }

    fn is_change(pending: &Pending) -> bool {
        pending.change().is_some()
    }

    fn decide(&self, pending: &mut Pending, connection: &Connection) -> Decision {
        self.nfs.decide(pending, connection)
    }

    fn finish(&self, pending: &Pending, reply: Option<&[u8]>) {
        self.nfs.finish(pending, reply);
    }

    fn sent(&self, pending: &Pending, connection: &Connection) {
        self.nfs.sent(pending, connection);
    }

    fn tick(&self, now: Instant) {
        self.locks.tick(now);
    }

    fn stop(&self) {
        self.locks.stop();
    }

    fn answer_datagram(
        &self,
        record: &[u8],
        ends: (SocketAddr, Option<IpAddr>),
        may_block: bool,
    ) -> Result<Option<Vec<u8>>, u32> {
        let served = self.exports.now();
        let with = (&**served, &*self.locks, &*self.exports.bounds);
        lock_manager::answer_datagram(with, record, ends, may_block)
    }
}
