//! From the description of a run to its result.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_sunrpc::nfs3::{Status, Verifier};

use super::client::{self, Client, OwnedHandle};
use super::slots::DEPTH_MAX;
use super::worker::{Tally, Worker};
use super::{LoadError, Workload};
use crate::measure::{Latency, PeakMemory, SystemCalls, Usage};

/// The longest block; no server takes more.
const BLOCK_BYTES_MAX: u32 = 16 << 20;
/// A thread each.
const CONNECTIONS_MAX: usize = 1024;

/// Where a server listens and what it exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of NFS.
    pub nfs: SocketAddr,
    /// Of MOUNT; often the same.
    pub mount: SocketAddr,
    /// Path to mount.
    pub export: String,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// What to do.
    pub workload: Workload,
    /// Path below the export: the file, or for READDIRPLUS the directory (empty: the root).
    pub path: String,
    /// Bytes of one READ or WRITE; for READDIRPLUS the most of one reply.
    pub block_bytes: u32,
    /// Bytes of the file to use; `None`: all. WRITE, and RANDWRITE without the file, make a file of
    /// this length.
    pub file_bytes: Option<u64>,
    /// Calls in flight on each connection, at most [`DEPTH_MAX`].
    pub depth: usize,
    /// Connections, a thread each.
    pub connections: usize,
    /// When to stop; `None`: when the file was read or written once.
    pub duration: Option<Duration>,
    /// Write data that can be checked, and check all that is read; not for timing.
    pub verify: bool,
    /// Count the system calls of the server's process. Slows all system calls: not for timing.
    pub count_system_calls: bool,
    /// Watch the memory of the server's process.
    pub watch_memory: bool,
}

impl Load {
    /// One connection and one call at a time, 128 KiB blocks, 3 seconds.
    pub fn new(workload: Workload, path: &str) -> Self {
        Self {
            workload,
            path: path.to_owned(),
            block_bytes: 128 << 10,
            file_bytes: None,
            depth: 1,
            connections: 1,
            duration: Some(Duration::from_secs(3)),
            verify: false,
            count_system_calls: false,
            watch_memory: false,
        }
    }

    fn is_once(&self) -> bool {
        self.duration.is_none() || self.workload == Workload::Write
    }

    fn check(&self) -> Result<(), LoadError> {
        let wrong = |what: String| Err(LoadError::Settings(what));
        let sequential = matches!(self.workload, Workload::Read | Workload::Write);
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return wrong(format!("depth must be 1 to {DEPTH_MAX}"));
        }
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            return wrong(format!("connections must be 1 to {CONNECTIONS_MAX}"));
        }
        if self.block_bytes == 0 || self.block_bytes > BLOCK_BYTES_MAX {
            return wrong(format!("a block must have 1 to {BLOCK_BYTES_MAX} bytes"));
        }
        if self.duration.is_none() && !sequential {
            return wrong(format!("{} needs a duration", self.workload));
        }
        if self.workload == Workload::Write && self.file_bytes.is_none() {
            return wrong("write needs the size of the file".to_owned());
        }
        Ok(())
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// From the first call to the last reply, of COMMIT if any.
    pub elapsed: Duration,
    /// Blocks read or written, other calls, whole listings.
    pub operations: u64,
    /// Calls answered; an operation may take several.
    pub calls: u64,
    /// Bytes of file data.
    pub bytes: u64,
    /// Replies of READ that were too short; the rest was asked for again.
    pub short_replies: u64,
    /// Entries of one listing.
    pub entries: Option<u64>,
    /// How long COMMIT took.
    pub commit: Option<Duration>,
    /// From an operation's first call to its last reply.
    pub latency: Latency,
    /// What the server's process used, if named.
    pub server: Option<Usage>,
    /// System calls of the server's process, if counted.
    pub system_calls: Option<u64>,
    /// The most memory of its own that it had, in bytes, if watched.
    pub own_bytes_high: Option<u64>,
    /// What this process used.
    pub client: Usage,
}

/// What all connections of a run share.
pub(super) struct Plan<'a> {
    pub(super) load: &'a Load,
    /// The file, or the directory to list.
    pub(super) object: OwnedHandle,
    /// The file's directory and name.
    pub(super) parent: OwnedHandle,
    pub(super) name: Vec<u8>,
    pub(super) file_bytes: u64,
    pub(super) once: bool,
    /// Set by a failed connection: the others are to end.
    pub(super) stop: AtomicBool,
    /// Entries of the first listing, plus one; 0 before.
    pub(super) entries: AtomicU64,
}

/// Makes the load and measures it. `server_process` is the server's process id, if it runs on this
/// machine.
///
/// # Errors
///
/// Anything but right answers to all calls.
pub fn run(
    target: &Target,
    load: &Load,
    server_process: Option<u32>,
) -> Result<Measurement, LoadError> {
    load.check()?;
    let mut control = Client::connect(target.nfs)?;
    let plan = prepare(target, load, &mut control)?;
    let workers: Vec<Worker<'_>> = (0..load.connections)
        .map(|index| Ok(Worker::new(&plan, client::connect(target.nfs)?, index)))
        .collect::<Result<_, LoadError>>()?;
    let server_usage = || server_process.map(Usage::of).transpose();
    let counted = server_process.filter(|_| load.count_system_calls);
    let counter = counted.map(SystemCalls::of).transpose()?;
    let watched = server_process.filter(|_| load.watch_memory);
    let peak = watched.map(PeakMemory::watch);
    let (server_before, client_before) = (server_usage()?, Usage::now());
    let start = Instant::now();
    let tallies = work(&plan, workers, start)?;
    let commit = commit(&plan, &mut control, &tallies)?;
    let elapsed = start.elapsed();
    let (client, server_after) = (client_before.until_now(), server_usage()?);
    let system_calls = counter.map(|counter| counter.count()).transpose()?;
    let mut total = Tally::default();
    tallies.iter().for_each(|tally| total.add(tally));
    let both = server_after.zip(server_before);
    Ok(Measurement {
        elapsed,
        operations: total.operations,
        calls: total.calls,
        bytes: total.bytes,
        short_replies: total.short_replies,
        entries: plan.entries.load(Ordering::Relaxed).checked_sub(1),
        commit,
        latency: total.latency,
        server: both.map(|(after, before)| after.since(&before)),
        system_calls,
        own_bytes_high: peak.and_then(PeakMemory::finish),
        client,
    })
}

/// Removes a file below an export.
///
/// # Errors
///
/// The answer of the server, or why it could not be asked.
pub fn remove(target: &Target, path: &str) -> Result<(), LoadError> {
    let mut control = Client::connect(target.nfs)?;
    let (parent, name) = find_parent(target, path, &mut control)?;
    control.remove(&parent, &name)
}

fn find_parent(
    target: &Target,
    path: &str,
    control: &mut Client,
) -> Result<(OwnedHandle, Vec<u8>), LoadError> {
    let mut parent = Client::connect(target.mount)?.mount(&target.export)?;
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let name = names.pop().unwrap_or_default().as_bytes().to_vec();
    for directory in names {
        parent = control.lookup(&parent, directory.as_bytes())?;
    }
    Ok((parent, name))
}

fn prepare<'a>(
    target: &Target,
    load: &'a Load,
    control: &mut Client,
) -> Result<Plan<'a>, LoadError> {
    let (parent, name) = find_parent(target, &load.path, control)?;
    let wanted = load.file_bytes.unwrap_or(0);
    let object = match load.workload {
        Workload::Write => control.create(&parent, &name, 0)?,
        Workload::ReaddirPlus if name.is_empty() => parent.clone(),
        _ => match control.lookup(&parent, &name) {
            Err(LoadError::Status {
                status: Status::NotFound,
                ..
            }) if load.workload == Workload::RandomWrite && wanted > 0 => {
                control.create(&parent, &name, wanted)?
            }
            found => found?,
        },
    };
    let file_bytes = match load.workload {
        Workload::Write => wanted,
        workload if workload.moves_data() => {
            let there = control.size(&object)?;
            load.file_bytes.map_or(there, |wanted| wanted.min(there))
        }
        _ => 0,
    };
    if load.workload.moves_data() && file_bytes < u64::from(load.block_bytes) {
        return Err(LoadError::FileTooSmall { bytes: file_bytes });
    }
    Ok(Plan {
        load,
        object,
        parent,
        name,
        file_bytes,
        once: load.is_once(),
        stop: AtomicBool::new(false),
        entries: AtomicU64::new(0),
    })
}

/// Runs all connections to their end; the error is that of the first that failed by itself.
fn work(
    plan: &Plan<'_>,
    workers: Vec<Worker<'_>>,
    start: Instant,
) -> Result<Vec<Tally>, LoadError> {
    let deadline = plan.load.duration.map(|duration| start + duration);
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                scope.spawn(move || {
                    let result = worker.run(deadline);
                    if result.is_err() {
                        plan.stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        let mut tallies = Vec::new();
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(tally)) => tallies.push(tally),
                Ok(Err(LoadError::Stopped)) => {}
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        failure.map_or(Ok(tallies), Err)
    })
}

/// COMMIT of a written file; all verifiers must be equal.
fn commit(
    plan: &Plan<'_>,
    control: &mut Client,
    tallies: &[Tally],
) -> Result<Option<Duration>, LoadError> {
    if !plan.load.workload.writes() {
        return Ok(None);
    }
    let start = Instant::now();
    let committed: Verifier = control.commit(&plan.object)?;
    let mut verifiers = tallies.iter().filter_map(|tally| tally.verifier);
    if verifiers.any(|verifier| verifier != committed) {
        return Err(LoadError::VerifierChanged);
    }
    Ok(Some(start.elapsed()))
}
