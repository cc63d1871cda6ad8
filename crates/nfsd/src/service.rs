//! What is done for a call: from record to reply.
//!
//! [`Service::answer`] reads the head of a call, checks program, version and procedure, and has
//! the procedure's handler write the reply. On a receiving thread it may find that the call would
//! wait; nothing has happened then, and the call goes to the pool, where
//! [`Service::answer_waiting`] does it to the end.

mod arriving;
pub mod convert;
pub mod cookies;
mod creation;
mod data;
mod directory;
mod ending;
pub mod handle;
mod locks;
mod mount;
pub mod mounts;
mod names;
mod object;
mod once;
mod procedure;
mod pseudo;
mod volume;

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pagewell_counters::names as counters;
use pagewell_fs::identity::SERVED_ID_BYTES_MAX;
use pagewell_fs::{Credentials, FileId};
use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{self, Procedure};
use pagewell_sunrpc::rpc::{self, Call, Credential, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encoder};
use pagewell_sunrpc::{nlm4, nsm};
use siphasher::sip::SipHasher13;

use crate::config::{Config, Export};
use crate::connection::Connection;
use crate::duplicate::{Duplicates, KEPT_BYTES_MAX, Key};
use crate::held::slow::{Kind, Place, SlowCalls};
use crate::locks::Locks;
use crate::reply::batch::Batch;
use crate::reply::pipe::PipePool;
use crate::reply::unsent::Unsent;
use crate::request_memory::budget::Memory;
use crate::server::{Error, Job};
use crate::service::convert::Identity;
use crate::service::cookies::NarrowCookies;
use crate::service::handle::HandleKey;
use crate::service::mounts::Mounts;
use crate::statistics;

pub use ending::Loss;
use procedure::{Caller, Stop};
use pseudo::PseudoRoot;

pub use locks::{DatagramAnswer, Origin};

/// A call as it arrived.
pub struct Request<'a> {
    /// The record.
    pub record: &'a [u8],
    /// From where.
    pub connection: &'a Arc<Connection>,
    /// When its last byte arrived.
    pub received_at: Instant,
}

impl<'a> Request<'a> {
    /// A call in `record`.
    #[must_use]
    pub fn new(record: &'a [u8], connection: &'a Arc<Connection>, received_at: Instant) -> Self {
        Self {
            record,
            connection,
            received_at,
        }
    }
}

/// What became of a call on a receiving thread.
pub enum Answer {
    /// The reply is in the batch, or none is due.
    Done,
    /// The call may wait: hand it to the pool.
    Wait(WaitingCall),
}

/// What is remembered of a call between its first look and the pool.
#[derive(Clone, Copy, Default)]
pub struct WaitingCall {
    duplicate: Option<Key>,
    /// Bytes that the reply may take.
    pub reply_bytes_max: usize,
    /// The same of a listing, which is memory of its own until it has left.
    pub listing_bytes_max: usize,
    /// What it is for; nothing for MOUNT.
    pub place: Place,
    /// What it does.
    pub kind: Kind,
    /// Since when it waits without a thread for storage to let go of its object.
    pub waits_since: Option<Instant>,
}

/// Memory for replies that are copied because they cannot be spliced.
const REPLY_BYTES_MAX: usize = 8 << 20;

/// An export with what belongs to it while it is served.
pub struct ServedExport {
    config: Export,
    number: AtomicU32,
    identity: Identity,
    narrow_cookies: NarrowCookies,
}

impl ServedExport {
    fn new(key: &HandleKey, config: Export) -> Self {
        // clients keep it for as long as a mount lasts: the same whatever is served
        let filesystem_id = u64::from(key.export_number(&config.name, b"")).max(1);
        Self {
            number: AtomicU32::new(number_of(key, &config)),
            identity: Identity {
                filesystem_id,
                narrow: config.cookies_32bit,
            },
            narrow_cookies: NarrowCookies::default(),
            config,
        }
    }

    /// The number in the handles of this export.
    fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }
}

/// What is needed to answer a held call.
pub struct HeldCall {
    connection: Arc<Connection>,
    xid: u32,
    procedure: Procedure,
}

/// Answers calls.
pub struct Service {
    exports: Vec<ServedExport>,
    /// What is above the exports; nothing when one of them is `/`.
    pseudo: Option<PseudoRoot>,
    handle_key: HandleKey,
    object_secret: [u8; 16],
    duplicates: Duplicates<Connection>,
    slow: SlowCalls<HeldCall>,
    mounts: Mounts,
    locks: Arc<Locks>,
    pipes: Arc<PipePool>,
    /// For file data that has to be copied: apart from the requests', which replies that nobody
    /// reads must not use up.
    reply_memory: Arc<Memory>,
    unsent: Arc<Unsent>,
}

/// The number that stands for an export, as it is now, in its handles.
fn number_of(key: &HandleKey, export: &Export) -> u32 {
    key.export_number(&export.name, &export.filesystem.tree_id())
}

impl Service {
    /// A service for the exports of `config`.
    pub fn new(config: Config) -> Result<Self, Error> {
        let handle_key = HandleKey::new(config.handle_key);
        let mut exports: Vec<ServedExport> = Vec::new();
        for export in config.exports {
            if !export.name.starts_with('/') {
                return Err(Error::Config(format!(
                    "export '{}': no leading /",
                    export.name
                )));
            }
            let root = export.filesystem.root();
            let export = ServedExport::new(&handle_key, export);
            let name = &export.config.name;
            let is_same = |other: &ServedExport| {
                other.number() == export.number() || other.config.name == *name
            };
            if exports.iter().any(is_same) {
                return Err(Error::Config(format!("export '{name}' is there twice")));
            }
            let id_bytes = root.as_bytes().len();
            if id_bytes > SERVED_ID_BYTES_MAX {
                return Err(Error::Config(format!(
                    "export '{name}': its server's handles have {id_bytes} bytes, and only those \
                     of up to {SERVED_ID_BYTES_MAX} can be served again"
                )));
            }
            exports.push(export);
        }
        if exports.is_empty() {
            return Err(Error::Config("nothing to serve".to_owned()));
        }
        let locks = Locks::open(&config.locks, Instant::now())
            .map_err(|error| Error::System(format!("the list of clients with locks: {error}")))?;
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::System(errno.to_string()))?;
        Ok(Self {
            pseudo: PseudoRoot::above(&handle_key, &exports),
            exports,
            handle_key,
            object_secret: secret,
            duplicates: Duplicates::new(secret, KEPT_BYTES_MAX),
            slow: SlowCalls::new(config.slow_after, config.threads.saturating_mul(2)),
            mounts: Mounts::default(),
            locks,
            pipes: PipePool::new(),
            reply_memory: Memory::new(REPLY_BYTES_MAX),
            unsent: Unsent::new(),
        })
    }

    /// The root of an export, which may have been made anew since it was last asked for.
    fn root_of(&self, export: &ServedExport) -> FileId {
        let root = export.config.filesystem.root();
        let number = number_of(&self.handle_key, &export.config);
        export.number.store(number, Ordering::Relaxed);
        root
    }

    /// Looks at a call and answers it, unless it would have to wait and may not.
    pub fn answer(&self, request: &Request<'_>, may_block: bool, batch: &mut Batch) -> Answer {
        let (call, arguments) = match rpc::parse_call(request.record) {
            Ok(parsed) => parsed,
            Err(error) => {
                let mark = batch.begin();
                if error.encode_reply(&mut Encoder::new(batch.bytes())) {
                    batch.end(mark);
                } else {
                    batch.roll_back(mark);
                }
                return Answer::Done;
            }
        };
        match (call.program, call.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let Some(procedure) = Procedure::from_number(call.procedure) else {
                    return refuse(batch, call.xid, Refusal::ProcedureUnavailable);
                };
                if !may_block {
                    return self.first_look(request, &call, procedure, arguments, batch);
                }
                self.nfs(request, &call, procedure, arguments, true, batch)
            }
            (mount3::PROGRAM, mount3::VERSION) => {
                self.mount(request, &call, arguments, may_block, batch)
            }
            (nlm4::PROGRAM | nsm::PROGRAM, _) => {
                self.locks_call(request, &call, arguments, may_block, batch)
            }
            (nfs3::PROGRAM | mount3::PROGRAM, _) => refuse(
                batch,
                call.xid,
                Refusal::ProgramMismatch { low: 3, high: 3 },
            ),
            _ => refuse(batch, call.xid, Refusal::ProgramUnavailable),
        }
    }

    fn nfs(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        procedure: Procedure,
        arguments: Decoder<'_>,
        may_block: bool,
        batch: &mut Batch,
    ) -> Answer {
        let caller = Caller::new(call, request.connection, may_block);
        let mark = batch.begin();
        rpc::encode_success(&mut Encoder::new(batch.bytes()), call.xid);
        let result = self.run_nfs(procedure, arguments, &caller, mark, batch);
        let (failed, sent) = match result {
            Ok(done) => (
                done.failed,
                done.sent_bytes.unwrap_or_else(|| batch.end(mark)),
            ),
            Err(Stop::WouldBlock) => {
                batch.roll_back(mark);
                return Answer::Wait(WaitingCall::default());
            }
            Err(Stop::Garbage) => {
                batch.roll_back(mark);
                return refuse(batch, call.xid, Refusal::GarbageArguments);
            }
            Err(Stop::Status(status)) => {
                batch.roll_back(mark);
                let mark = batch.begin();
                procedure::encode_bare_failure(batch.bytes(), call.xid, procedure, status);
                (true, batch.end(mark))
            }
        };
        let statistics = &statistics::NFS[procedure.number() as usize];
        statistics.record(
            failed,
            request.record.len(),
            sent,
            request.received_at.elapsed(),
        );
        Answer::Done
    }

    /// Does a call of the pool to its end. If storage holds its object and the call may wait it is
    /// given back, and nothing has happened.
    pub fn answer_waiting(&self, job: Job, may_wait: bool) -> Option<Job> {
        let (connection, state) = (&job.connection, &job.state);
        if self.is_abandoned(connection, state.duplicate.as_ref()) {
            return None;
        }
        if may_wait && state.place != Place::default() && self.slow.is_held(state.place, state.kind)
        {
            return Some(job);
        }
        let request = Request::new(&job.record[..job.length], connection, job.received_at);
        let mut batch = Batch::default();
        let mark = batch.begin();
        batch.roll_back(mark);
        let was_done = self.run_watched(&request, state, &mut batch);
        if let Some(key) = &state.duplicate {
            self.finish_change(key, batch.body(mark), was_done);
        }
        batch.send(connection);
        None
    }

    /// Answers a call under the eyes of the watcher; returns whether it was done. The batch stays
    /// empty when the watcher has answered in the meantime.
    fn run_watched(&self, request: &Request<'_>, state: &WaitingCall, batch: &mut Batch) -> bool {
        let Ok((call, _)) = rpc::parse_call(request.record) else {
            return false;
        };
        let nfs = |_: &Procedure| call.program == nfs3::PROGRAM;
        let procedure = Procedure::from_number(call.procedure).filter(nfs);
        // MOUNT: nothing is answered in its stead, but a thread that it holds is replaced.
        let procedure = procedure.unwrap_or(Procedure::Null);
        let (place, kind) = (state.place, state.kind);
        if place != Place::default() && self.slow.is_held(place, kind) {
            counters::JUKEBOX_REPLIES.add(1);
            push_jukebox(batch, call.xid, procedure);
            return false;
        }
        let held = HeldCall {
            connection: request.connection.clone(),
            xid: call.xid,
            procedure,
        };
        let watched = self.slow.begin(place, kind, held, Instant::now());
        self.answer(request, true, batch);
        if !watched.claim() {
            *batch = Batch::default();
        }
        true
    }

    /// Answers every call that storage holds for too long; returns how many threads are held, by
    /// export.
    pub fn answer_held(&self, now: Instant) -> HashMap<u32, usize> {
        let found = self.slow.watch(now);
        for running in found.due {
            if running.claim() {
                counters::JUKEBOX_REPLIES.add(1);
                let call = &running.context;
                let mut batch = Batch::default();
                push_jukebox(&mut batch, call.xid, call.procedure);
                batch.send(&call.connection);
            }
        }
        found.long
    }

    /// The locks of the server.
    #[must_use]
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// The calls that run in the pool.
    #[must_use]
    pub fn slow_calls(&self) -> &SlowCalls<HeldCall> {
        &self.slow
    }

    /// Whether calls of the pool are under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slow.is_idle()
    }

    /// What an NFS call is for.
    fn place(&self, mut arguments: Decoder<'_>) -> Place {
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).unwrap_or(&[]);
        let mut hasher = SipHasher13::new_with_key(&self.object_secret);
        hasher.write(handle);
        let decoded = self.handle_key.decode(handle);
        Place {
            object: hasher.finish(),
            export: decoded.map_or(0, |(number, _)| number),
        }
    }
}

fn push_jukebox(batch: &mut Batch, xid: u32, procedure: Procedure) {
    let mark = batch.begin();
    procedure::encode_bare_failure(batch.bytes(), xid, procedure, nfs3::Status::Jukebox);
    batch.end(mark);
}

fn refuse(batch: &mut Batch, xid: u32, refusal: Refusal) -> Answer {
    let mark = batch.begin();
    rpc::encode_refusal(&mut Encoder::new(batch.bytes()), xid, refusal);
    batch.end(mark);
    Answer::Done
}

/// The AUTH_SYS identity of a call; `None` for AUTH_NONE.
fn identity(credential: &Credential<'_>) -> Option<Credentials> {
    match credential {
        Credential::None => None,
        Credential::System(system) => Some(Credentials::new(system.uid, system.gid, system.gids())),
    }
}

/// How long a client may trust FSSTAT's numbers: not at all, others write too.
const STABLE_FOR: Duration = Duration::ZERO;
