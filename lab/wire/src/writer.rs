//! An NFS client that keeps its side of the bargain (RFC 1813 sections 3.3.7 and 3.3.21): a write
//! that was answered UNSTABLE is kept until a COMMIT has returned the verifier that the write was
//! given. If it returns another one the server has lost its memory meanwhile, and everything that
//! is kept is sent again, in its order. What was answered as stable is forgotten at once, so that
//! nothing makes up for a server that did not tell the truth.
//!
//! To be hard on the server it sends some writes at once and others at the next sync, several at
//! a time as long as they do not overlap.
//!
//! At a call that is chosen before, something happens after it was sent and before its answer
//! came: the client dies, or the server is killed.

use std::net::SocketAddr;

use pagewell_sunrpc::nfs3::{
    CommitArguments, CommitReply, Procedure, ReadArguments, StableHow, Verifier, WriteArguments,
};
use pagewell_sunrpc::xdr::Encode;

use crate::client::{Answer, Client, User, encoded, marked, next_xid};
use crate::operations::{FileHandle, data, handle, written};
use crate::random::Random;

/// The largest WRITE.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// Writes under way at a time.
const DEPTH: usize = 8;
/// So often a server may lose its memory during one sync.
const ROUNDS_MAX: u32 = 8;

/// Why a call did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no connection any more.
    Gone,
    /// The server has answered with an error, or wrongly.
    Failed(String),
}

type Result<T> = std::result::Result<T, Trouble>;

/// What happens at the chosen call.
pub enum Event {
    /// The client dies.
    Die,
    /// Something elsewhere.
    Call(Box<dyn FnMut() + Send>),
}

/// The client of one file.
pub struct Writer {
    /// `None` when there is no connection.
    client: Option<Client>,
    file: FileHandle,
    kept: Vec<Kept>,
    calls_left: u64,
    event: Event,
    random: Random,
    /// Calls that were made, and writes that had to be sent again because of a verifier.
    pub calls: u64,
    pub sent_again: u64,
}

/// A write that is not known to be durable.
struct Kept {
    offset: u64,
    data: Vec<u8>,
    stable: StableHow,
    /// What the server answered, once it did.
    verifier: Option<Verifier>,
    /// It need not be kept any longer.
    done: bool,
}

impl Kept {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

impl Writer {
    /// Uses the file `name` of `export`; it must be there.
    pub fn connect(address: SocketAddr, export: &[u8], name: &[u8], random: Random) -> Self {
        let mut client = Client::connect(address, User::root());
        let root = client.mount(export).expect("mounted");
        let file = client.lookup(&root, name).expect("the file").handle;
        Self {
            client: Some(client),
            file,
            kept: Vec::new(),
            calls_left: u64::MAX,
            event: Event::Die,
            random,
            calls: 0,
            sent_again: 0,
        }
    }

    /// Connects to the server that has come after the last one. Handles are to live on.
    pub fn reconnect(&mut self, address: SocketAddr) {
        self.client = Some(Client::connect(address, User::root()));
    }

    /// Has `event` happen after so many calls and one more.
    pub fn arm(&mut self, calls: u64, event: Event) {
        self.calls_left = calls;
        self.event = event;
    }

    /// Offset and length of what is not known to be durable, the oldest first.
    pub fn kept(&self) -> impl Iterator<Item = (u64, usize)> {
        self.kept.iter().map(|kept| (kept.offset, kept.data.len()))
    }

    pub fn is_gone(&self) -> bool {
        self.client.is_none()
    }

    /// Ends the connection. Calls that are under way are still carried out. Who comes next must
    /// not meet them, or no file would be safe, so that is waited for.
    pub fn die(&mut self) {
        if let Some(mut client) = self.client.take() {
            client.end_sending();
            while client.try_next_answer().is_some() {}
        }
    }

    fn start(&mut self, procedure: Procedure, arguments: &impl Encode) -> Result<u32> {
        let client = self.client.as_mut().ok_or(Trouble::Gone)?;
        let xid = next_xid();
        let record = client.record(xid, procedure, &encoded(arguments));
        if !client.try_send(&marked(&record)) {
            self.client = None;
            return Err(Trouble::Gone);
        }
        self.calls += 1;
        if self.calls_left == 0 {
            match &mut self.event {
                Event::Die => self.die(),
                Event::Call(event) => event(),
            }
        }
        self.calls_left = self.calls_left.checked_sub(1).unwrap_or(u64::MAX);
        Ok(xid)
    }

    fn next_answer(&mut self) -> Result<Answer> {
        let answer = self.client.as_mut().and_then(Client::try_next_answer);
        if answer.is_none() {
            self.client = None;
        }
        answer.ok_or(Trouble::Gone)
    }

    /// Sends those of what is kept that were not answered.
    fn send(&mut self) -> Result<()> {
        let sent = self.send_kept();
        self.kept.retain(|kept| !kept.done);
        sent
    }

    fn send_kept(&mut self) -> Result<()> {
        let mut under_way: Vec<(u32, usize)> = Vec::new();
        for index in 0..self.kept.len() {
            if self.kept[index].verifier.is_some() {
                continue;
            }
            // The server may carry out calls in any order, so that those must not overlap.
            let kept = &self.kept[index];
            let mut others = under_way.iter().map(|(_, other)| &self.kept[*other]);
            if under_way.len() >= DEPTH || others.any(|other| other.overlaps(kept)) {
                self.answers(&mut under_way)?;
            }
            under_way.push((self.start_write(index)?, index));
        }
        self.answers(&mut under_way)
    }

    fn start_write(&mut self, index: usize) -> Result<u32> {
        let kept = &self.kept[index];
        // What is forgotten when it is answered must not be overwritten by older data that has
        // to be sent again.
        let mut older = self.kept[..index].iter();
        let over_older = older.any(|older| !older.done && older.overlaps(kept));
        let file = self.file.clone();
        let kept = &mut self.kept[index];
        if over_older {
            kept.stable = StableHow::Unstable;
        }
        let data = kept.data.clone();
        let arguments = WriteArguments {
            file: handle(&file),
            offset: kept.offset,
            count: u32::try_from(data.len()).expect("a short write"),
            stable: kept.stable,
            data: &data,
        };
        self.start(Procedure::Write, &arguments)
    }

    fn answers(&mut self, under_way: &mut Vec<(u32, usize)>) -> Result<()> {
        while !under_way.is_empty() {
            let answer = self.next_answer()?;
            let place = under_way.iter().position(|(xid, _)| *xid == answer.xid());
            let place = place.expect("an answer to a call that was made");
            let (_, index) = under_way.swap_remove(place);
            let kept = &mut self.kept[index];
            let ok = written(&answer, kept.stable);
            let ok = ok.map_err(|status| Trouble::Failed(format!("WRITE: {status:?}")))?;
            if ok.count as usize != kept.data.len() {
                let what = format!("{} of {} bytes written", ok.count, kept.data.len());
                return Err(Trouble::Failed(what));
            }
            kept.verifier = Some(ok.verifier);
            kept.done = kept.stable != StableHow::Unstable;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<Verifier> {
        let file = self.file.clone();
        let arguments = CommitArguments {
            file: handle(&file),
            offset: 0,
            count: 0,
        };
        self.start(Procedure::Commit, &arguments)?;
        let answer = self.next_answer()?;
        let ok = answer.ok::<CommitReply>();
        ok.map(|ok| ok.verifier)
            .map_err(|status| Trouble::Failed(format!("COMMIT: {status:?}")))
    }

    /// Returns when all that was written is durable.
    pub fn sync(&mut self) -> Result<()> {
        if self.random.one_in(4) {
            let stable = self.random.of(&[StableHow::DataSync, StableHow::FileSync]);
            for kept in &mut self.kept {
                kept.stable = stable;
            }
        }
        for _ in 0..ROUNDS_MAX {
            self.send()?;
            if self.kept.is_empty() {
                return Ok(());
            }
            let verifier = self.commit()?;
            if self.kept.iter().all(|kept| kept.verifier == Some(verifier)) {
                self.kept.clear();
                return Ok(());
            }
            // All of it again, in its order: what is lost may be older than what is not.
            self.sent_again += self.kept.len() as u64;
            for kept in &mut self.kept {
                kept.verifier = None;
            }
        }
        let what = format!("the verifier changed {ROUNDS_MAX} times");
        Err(Trouble::Failed(what))
    }

    /// Writes, now or at the next sync.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        for (index, data) in data.chunks(WRITE_BYTES_MAX).enumerate() {
            use StableHow::{DataSync, FileSync, Unstable};
            let stable = self
                .random
                .of(&[DataSync, FileSync, Unstable, Unstable, Unstable]);
            self.kept.push(Kept {
                offset: offset + (index * WRITE_BYTES_MAX) as u64,
                data: data.to_vec(),
                stable,
                verifier: None,
                done: false,
            });
        }
        if self.random.one_in(4) {
            self.send()
        } else {
            Ok(())
        }
    }

    /// The bytes of the file, with what is kept.
    pub fn read(&mut self, offset: u64, target: &mut [u8]) -> Result<()> {
        let file = self.file.clone();
        let arguments = ReadArguments {
            file: handle(&file),
            offset,
            count: u32::try_from(target.len()).expect("a short read"),
        };
        self.start(Procedure::Read, &arguments)?;
        let data = data(&self.next_answer()?);
        let data = data.map_err(|status| Trouble::Failed(format!("READ: {status:?}")))?;
        // The file may be shorter than what was only kept here.
        target.fill(0);
        target[..data.bytes.len()].copy_from_slice(&data.bytes);
        let end = offset + target.len() as u64;
        for kept in &self.kept {
            let first = kept.offset.max(offset);
            let last = kept.end().min(end);
            if first < last {
                let index = |at: u64, start: u64| usize::try_from(at - start).expect("inside");
                let source = &kept.data[index(first, kept.offset)..index(last, kept.offset)];
                target[index(first, offset)..index(last, offset)].copy_from_slice(source);
            }
        }
        Ok(())
    }
}
