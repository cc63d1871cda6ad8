//! One connection of a run.

use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pagewell_sunrpc::nfs3::{
    self, AccessArguments, AccessReply, FileAttributes, GetattrReply, LookupReply, Procedure,
    ReadArguments, ReaddirPlusArguments, ReaddirPlusReply, StableHow, Status, Verifier, WriteReply,
    access,
};
use pagewell_sunrpc::rpc::{self, ReplyError, encode_call, parse_reply};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder, padded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::client::{REPLY_WAIT, credential, entry, handle, results, silent};
use super::generator::{Call, Generator};
use super::incoming::{Incoming, Kept, Record};
use super::outgoing::Outgoing;
use super::pattern::pattern;
use super::plan::Plan;
use super::slots::{InFlight, Slots};
use super::{LoadError, Workload};
use crate::measure::Latency;

/// Bytes of a reply besides its file data or entries.
const REPLY_HEAD_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) short_replies: u64,
    pub(super) latency: Latency,
    /// Of all its WRITE calls.
    pub(super) verifier: Option<Verifier>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.short_replies += other.short_replies;
        self.latency.add(&other.latency);
    }
}

pub(super) struct Worker<'a> {
    socket: TcpStream,
    incoming: Incoming,
    sender: Sender<'a>,
    receiver: Receiver<'a>,
    slots: Slots,
}

struct Sender<'a> {
    plan: &'a Plan<'a>,
    generator: Generator,
    outgoing: Outgoing,
    /// The data of every WRITE, unless it is to be checked.
    block: Vec<u8>,
}

struct Receiver<'a> {
    plan: &'a Plan<'a>,
    tally: Tally,
    /// Calls that replies require, before new ones.
    follow_ups: Vec<InFlight>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, socket: TcpStream, index: usize) -> Self {
        let load = plan.load;
        let kept = if load.verify || load.workload == Workload::ReaddirPlus {
            Kept::Whole
        } else {
            Kept::Head
        };
        let mut block = vec![0; load.block_bytes as usize];
        pattern().fill(0, &mut block);
        let part = (index, load.connections);
        Self {
            socket,
            incoming: Incoming::new(kept, load.block_bytes as usize + REPLY_HEAD_BYTES_MAX),
            sender: Sender {
                plan,
                generator: Generator::new(
                    load.workload,
                    load.block_bytes,
                    plan.file_bytes,
                    part,
                    plan.once,
                ),
                outgoing: Outgoing::default(),
                block,
            },
            receiver: Receiver {
                plan,
                tally: Tally::default(),
                follow_ups: Vec::new(),
            },
            slots: Slots::new(load.depth),
        }
    }

    /// Makes calls until `deadline` or the end of the work, then waits for the last replies. Even a
    /// late start makes the first calls.
    pub(super) fn run(mut self, deadline: Option<Instant>) -> Result<Tally, LoadError> {
        let mut now = Instant::now();
        let mut done = false;
        loop {
            self.fill(now, &mut done);
            if self.slots.is_idle() {
                return Ok(self.receiver.tally);
            }
            if self.receiver.plan.stop.load(Ordering::Relaxed) {
                return Err(LoadError::Stopped);
            }
            let sent = self
                .sender
                .outgoing
                .send(&self.socket, &self.sender.block)?;
            if !sent {
                self.wait_for_either()?;
            }
            self.incoming.receive(&self.socket, sent)?;
            now = Instant::now();
            done = done || deadline.is_some_and(|deadline| now >= deadline);
            while let Some(record) = self.incoming.next()? {
                self.receiver.answer(&record, &mut self.slots, now)?;
            }
        }
    }

    /// Gives every free slot a call; when `done`, only those that follow earlier ones.
    fn fill(&mut self, now: Instant, done: &mut bool) {
        while self.slots.has_free() {
            let next = match self.receiver.follow_ups.pop() {
                Some(next) => next,
                None if *done => return,
                None => match self.sender.generator.next() {
                    Some(call) => InFlight { call, since: now },
                    None => {
                        *done = true;
                        return;
                    }
                },
            };
            if let Some(xid) = self.slots.claim(next.call, next.since) {
                self.sender.push(xid, next.call);
            }
        }
    }

    /// A server may take calls only after its replies were taken, so both are waited for.
    fn wait_for_either(&self) -> Result<(), LoadError> {
        let wait = Timespec::try_from(REPLY_WAIT).ok();
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::OUT)];
        match poll(&mut watched, wait.as_ref()) {
            Ok(0) => Err(silent()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }
}

impl Call {
    const fn procedure(self) -> Procedure {
        match self {
            Self::Read { .. } => Procedure::Read,
            Self::Write { .. } => Procedure::Write,
            Self::Getattr => Procedure::Getattr,
            Self::Lookup => Procedure::Lookup,
            Self::Access => Procedure::Access,
            Self::ReaddirPlus { .. } => Procedure::ReaddirPlus,
        }
    }
}

impl Sender<'_> {
    fn push(&mut self, xid: u32, call: Call) {
        let Self { plan, outgoing, .. } = self;
        let head = rpc::Call {
            xid,
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: call.procedure().number(),
            credential: credential(),
        };
        let object = handle(&plan.object);
        let shared = match call {
            Call::Write { count, .. } if !plan.load.verify => count as usize,
            _ => 0,
        };
        outgoing.push(shared, |encoder: &mut Encoder<'_>| {
            encode_call(encoder, &head);
            match call {
                Call::Read { offset, count } => {
                    ReadArguments {
                        file: object,
                        offset,
                        count,
                    }
                    .encode(encoder);
                }
                Call::Write { offset, count } => encode_write(encoder, plan, offset, count),
                Call::Getattr => object.encode(encoder),
                Call::Lookup => entry(&plan.parent, &plan.name).encode(encoder),
                Call::Access => {
                    let all = access::READ | access::LOOKUP | access::MODIFY;
                    let all = all | access::EXTEND | access::DELETE | access::EXECUTE;
                    AccessArguments {
                        object,
                        access: all,
                    }
                    .encode(encoder);
                }
                Call::ReaddirPlus {
                    cookie, verifier, ..
                } => {
                    let count = plan.load.block_bytes;
                    let arguments = ReaddirPlusArguments {
                        directory: object,
                        cookie,
                        verifier,
                        directory_count: count,
                        count_max: count,
                    };
                    arguments.encode(encoder);
                }
            }
        });
    }
}

/// The arguments of WRITE, with the data if it is to be checked; otherwise the shared block
/// follows.
fn encode_write(encoder: &mut Encoder<'_>, plan: &Plan<'_>, offset: u64, count: u32) {
    handle(&plan.object).encode(encoder);
    encoder.u64(offset);
    encoder.u32(count);
    StableHow::Unstable.encode(encoder);
    if plan.load.verify {
        let mut data = vec![0; count as usize];
        pattern().fill(offset, &mut data);
        encoder.opaque(&data);
    } else {
        encoder.u32(count);
    }
}

impl Receiver<'_> {
    /// Judges a reply: counts it, or returns the call that follows.
    fn answer(
        &mut self,
        record: &Record<'_>,
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), LoadError> {
        let (xid, mut decoder) =
            parse_reply(record.bytes).map_err(|error| refused(error, slots))?;
        let InFlight { call, since } = slots.answer(xid)?;
        let procedure = call.procedure();
        self.tally.calls += 1;
        let head = record.bytes.len() - decoder.remaining();
        let results_bytes = record.length - head;
        let follow_up = match call {
            Call::Read { offset, count } => {
                self.read(&mut decoder, results_bytes, offset, count)?
            }
            Call::Write { offset, count } => self.written(&mut decoder, offset, count)?,
            Call::Getattr => results::<GetattrReply>(&mut decoder, procedure).map(|_| None)?,
            Call::Lookup => results::<LookupReply<'_>>(&mut decoder, procedure).map(|_| None)?,
            Call::Access => results::<AccessReply>(&mut decoder, procedure).map(|_| None)?,
            Call::ReaddirPlus { entries, .. } => self.listed(&mut decoder, entries)?,
        };
        if let Some(call) = follow_up {
            self.follow_ups.push(InFlight { call, since });
        } else {
            self.tally.operations += 1;
            self.tally
                .latency
                .record(now.saturating_duration_since(since));
        }
        Ok(())
    }

    /// READ3res, of which only the part before the data may be there. All results have
    /// `results_bytes`.
    fn read(
        &mut self,
        decoder: &mut Decoder<'_>,
        results_bytes: usize,
        offset: u64,
        asked: u32,
    ) -> Result<Option<Call>, LoadError> {
        let before = decoder.remaining();
        let (count, end_of_file) = read_head(decoder)?;
        let head = before - decoder.remaining();
        let end = offset + u64::from(count);
        if count > asked || head + padded(count as usize) != results_bytes {
            return Err(LoadError::WrongCount { offset });
        }
        if self.plan.load.verify {
            let data = decoder.rest().get(..count as usize);
            let data = data.ok_or(LoadError::WrongCount { offset })?;
            let checked = pattern().check(offset, data);
            checked.map_err(|offset| LoadError::WrongData { offset })?;
        }
        self.tally.bytes += u64::from(count);
        if count == asked {
            return Ok(None);
        }
        self.tally.short_replies += 1;
        if count == 0 || end_of_file {
            return Err(LoadError::NoProgress { offset: end });
        }
        Ok(Some(Call::Read {
            offset: end,
            count: asked - count,
        }))
    }

    fn written(
        &mut self,
        decoder: &mut Decoder<'_>,
        offset: u64,
        asked: u32,
    ) -> Result<Option<Call>, LoadError> {
        let written = results::<WriteReply>(decoder, Procedure::Write)?;
        if written.count != asked {
            return Err(LoadError::ShortWrite {
                offset,
                asked,
                taken: written.count,
            });
        }
        if *self.tally.verifier.get_or_insert(written.verifier) != written.verifier {
            return Err(LoadError::VerifierChanged);
        }
        self.tally.bytes += u64::from(asked);
        Ok(None)
    }

    fn listed(
        &mut self,
        decoder: &mut Decoder<'_>,
        before: u64,
    ) -> Result<Option<Call>, LoadError> {
        let listed = results::<ReaddirPlusReply<'_>>(decoder, Procedure::ReaddirPlus)?;
        let (mut entries, mut last) = (before, None);
        for entry in listed.entries.iter() {
            entries += 1;
            last = Some(entry.cookie);
        }
        if !listed.end {
            // An empty page which is not the last would be asked for without end.
            let cookie = last.ok_or(LoadError::EntriesDiffer {
                before,
                now: entries,
            })?;
            let verifier = listed.verifier;
            return Ok(Some(Call::ReaddirPlus {
                cookie,
                verifier,
                entries,
            }));
        }
        let known = &self.plan.entries;
        let first = known.compare_exchange(0, entries + 1, Ordering::Relaxed, Ordering::Relaxed);
        match first {
            Err(other) if other != entries + 1 => Err(LoadError::EntriesDiffer {
                before: other - 1,
                now: entries,
            }),
            _ => Ok(None),
        }
    }
}

/// The part of READ3res before the data: its length, and whether the file ends after it.
fn read_head(decoder: &mut Decoder<'_>) -> Result<(u32, bool), LoadError> {
    let procedure = Procedure::Read;
    let malformed = |error| LoadError::Malformed {
        procedure: procedure.name(),
        error,
    };
    let status = Status::decode(decoder).map_err(malformed)?;
    if status != Status::Ok {
        return Err(LoadError::Status { procedure, status });
    }
    let mut counts = || {
        Option::<FileAttributes>::decode(decoder)?;
        Ok((decoder.u32()?, decoder.bool()?, decoder.u32()?))
    };
    let (count, end_of_file, length) = counts().map_err(malformed)?;
    if count == length {
        Ok((count, end_of_file))
    } else {
        Err(malformed(pagewell_sunrpc::xdr::Error::BadValue))
    }
}

fn refused(error: ReplyError, slots: &mut Slots) -> LoadError {
    let xid = match error {
        ReplyError::NotReply => None,
        ReplyError::Malformed { xid, .. } | ReplyError::Refused { xid, .. } => Some(xid),
    };
    match xid.map(|xid| slots.answer(xid)) {
        Some(Ok(answered)) => LoadError::Rpc {
            procedure: answered.call.procedure().name(),
            error,
        },
        Some(Err(unknown)) => unknown,
        None => LoadError::Rpc {
            procedure: "nfs",
            error,
        },
    }
}
