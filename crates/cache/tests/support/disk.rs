//! A device that can be written, with blocks, whose failures the test decides.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use pagewell_device::{Device, Error, Geometry, Operation, Request};
use rustix::io::Errno;

use super::Random;

/// Bytes in memory. It keeps requests to its geometry, and looks that no two writes of one byte
/// are on their way at a time.
pub struct Disk {
    name: &'static str,
    geometry: Geometry,
    length_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    counts: Counts,
    holding: bool,
    holding_flushes: bool,
    held: VecDeque<Request>,
    /// Of a thousand writes and flushes, so many fail.
    failing: (u64, u64),
    failing_reads: u32,
    /// Writes that fail have found no room.
    full: bool,
    /// What the next flush that fails has lost.
    losing: Option<Range<usize>>,
    random: u64,
    panicking: bool,
    server: Option<Server>,
}

/// What a server has for certain, which takes writes and may forget them.
#[derive(Default)]
struct Server {
    durable: Vec<u8>,
    /// How often it was started.
    starts: u64,
    /// When the oldest write came that no flush covers.
    oldest: Option<u64>,
    replays: u64,
    /// Before the next flushes that cover something it is started again, so many of them.
    restarts: u32,
}

/// What was asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub durable_writes: u64,
    pub flushes: u64,
}

impl Disk {
    pub fn new(name: &'static str, bytes: Vec<u8>, geometry: Geometry) -> Arc<Self> {
        Arc::new(Self {
            name,
            geometry,
            length_bytes: bytes.len() as u64,
            state: Mutex::new(State {
                bytes,
                random: 1,
                ..State::default()
            }),
        })
    }

    /// A server: what was written and not flushed may be [lost](Self::restart), and the next flush
    /// says so.
    pub fn server(bytes: Vec<u8>) -> Arc<Self> {
        let disk = Self::new("server", bytes.clone(), Geometry::MEMORY);
        disk.state.lock().unwrap().server = Some(Server {
            durable: bytes,
            ..Server::default()
        });
        disk
    }

    /// The server is started again and has only what was durable.
    pub fn restart(&self) {
        let mut state = self.state.lock().unwrap();
        let server = state.server.as_mut().unwrap();
        server.starts += 1;
        state.bytes = server.durable.clone();
    }

    /// It is started again before each of the next flushes that cover something, so many of them.
    pub fn restart_at_flushes(&self, count: u32) {
        let mut state = self.state.lock().unwrap();
        state.server.as_mut().unwrap().restarts = count;
    }

    /// How often a flush said that something was lost.
    pub fn replays(&self) -> u64 {
        self.state.lock().unwrap().server.as_ref().unwrap().replays
    }

    /// What is there for certain.
    pub fn durable(&self) -> Vec<u8> {
        let state = self.state.lock().unwrap();
        state.server.as_ref().unwrap().durable.clone()
    }

    /// Another client writes, durably.
    pub fn change(&self, range: std::ops::Range<usize>, byte: u8) {
        let mut state = self.state.lock().unwrap();
        state.bytes[range.clone()].fill(byte);
        if let Some(server) = &mut state.server {
            server.durable[range].fill(byte);
        }
    }

    /// In blocks of so many bytes.
    pub fn blocks(bytes: Vec<u8>, block_bytes: u32) -> Arc<Self> {
        let geometry = Geometry {
            logical_block_bytes: block_bytes,
            memory_alignment_bytes: block_bytes,
            ..Geometry::MEMORY
        };
        Self::new("disk", bytes, geometry)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.state.lock().unwrap().bytes.clone()
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().unwrap().counts
    }

    /// Of a thousand writes and of a thousand flushes, so many fail from now on.
    pub fn fail(&self, writes: u64, flushes: u64) {
        self.state.lock().unwrap().failing = (writes, flushes);
    }

    /// From now on writes find no room, or do again.
    pub fn fill(&self, is_full: bool) {
        let mut state = self.state.lock().unwrap();
        state.full = is_full;
        state.failing.0 = if is_full { 1000 } else { 0 };
    }

    /// The next reads fail at their first byte, so many of them.
    pub fn fail_reads(&self, count: u32) {
        self.state.lock().unwrap().failing_reads = count;
    }

    /// It panics at the next write.
    pub fn panic_at_write(&self) {
        self.state.lock().unwrap().panicking = true;
    }

    /// Requests wait from now on.
    pub fn hold(&self) {
        self.state.lock().unwrap().holding = true;
    }

    /// Flushes wait from now on, until [`Self::release`].
    pub fn hold_flushes(&self) {
        self.state.lock().unwrap().holding_flushes = true;
    }

    /// What waits goes on waiting; what comes is answered at once.
    pub fn keep_held(&self) {
        self.state.lock().unwrap().holding = false;
    }

    /// How many wait.
    pub fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    /// How many writes wait.
    pub fn held_writes(&self) -> usize {
        let state = self.state.lock().unwrap();
        let is_write = |request: &&Request| request.operation() == Operation::Write;
        state.held.iter().filter(is_write).count()
    }

    /// Everything that waits is answered, and what comes is answered at once.
    pub fn release(&self) {
        let mut state = self.state.lock().unwrap();
        state.holding = false;
        state.holding_flushes = false;
        let held = std::mem::take(&mut state.held);
        drop(state);
        held.into_iter().for_each(|request| self.answer(request));
    }

    /// The oldest that waits is answered.
    pub fn release_one(&self) {
        let oldest = self.state.lock().unwrap().held.pop_front();
        oldest.into_iter().for_each(|request| self.answer(request));
    }

    /// The next flush that fails has lost these bytes: zeros are there. What is written after it is
    /// kept, however soon that is.
    pub fn lose_at_flush(&self, range: Range<usize>) {
        self.state.lock().unwrap().losing = Some(range);
    }

    /// Zeros these bytes, as somebody else may.
    pub fn forget(&self, range: std::ops::Range<usize>) {
        self.state.lock().unwrap().bytes[range].fill(0);
    }

    fn check(&self, request: &Request) {
        let block = u64::from(self.geometry.logical_block_bytes);
        let alignment = self.geometry.memory_alignment_bytes as usize;
        let (offset, length) = (request.offset(), request.len() as u64);
        let last = self.length_bytes.next_multiple_of(block);
        assert!(offset % block == 0 && length % block == 0 && offset + length <= last);
        for segment in request.segments() {
            assert!((segment.start().as_ptr() as usize).is_multiple_of(alignment));
            assert!(segment.len().is_multiple_of(alignment));
        }
    }

    fn answer(&self, mut request: Request) {
        let mut locked = self.state.lock().unwrap();
        let state = &mut *locked;
        let mut random = Random(state.random);
        let draw = random.below(1000);
        state.random = random.0;
        let (writes, flushes) = state.failing;
        let (start, length) = (request.offset(), request.len());
        let limit = match request.operation() {
            Operation::Read if state.failing_reads > 0 => {
                state.failing_reads -= 1;
                1000
            }
            Operation::Read => 0,
            Operation::Write => writes,
            Operation::Flush => flushes,
        };
        let fails = draw < limit;
        if fails
            && request.operation() == Operation::Flush
            && let Some(lost) = state.losing.take()
        {
            state.bytes[lost].fill(0);
        }
        let start = usize::try_from(start).unwrap();
        let mut there = length.min(state.bytes.len().saturating_sub(start));
        if fails {
            let block = self.geometry.logical_block_bytes as usize;
            let is_read = request.operation() == Operation::Read;
            let blocks = if is_read { 0 } else { there / block };
            there = usize::try_from(random.below(blocks as u64 + 1)).unwrap() * block;
            there = there.min(length.saturating_sub(1)) / block * block;
        }
        transfer(state, &mut request, start..start + there);
        let errno = if state.full { Errno::NOSPC } else { Errno::IO };
        let is_kept = serve(state, &request, start..start + there, fails);
        // The end of a request may bring the next.
        drop(locked);
        if !is_kept {
            let device = self.name.to_owned();
            return request.fail(0, Error::Replay { device });
        }
        let (device, offset) = (self.name.to_owned(), request.offset() + there as u64);
        if fails {
            request.fail(
                there,
                Error::Failed {
                    device,
                    offset,
                    errno,
                },
            );
        } else if there < length {
            request.fail(
                there,
                Error::PastEnd {
                    device,
                    offset,
                    length,
                },
            );
        } else {
            request.succeed();
        }
    }
}

/// Moves the bytes.
fn transfer(state: &mut State, request: &mut Request, range: Range<usize>) {
    let Range { start: mut at, end } = range;
    match request.operation() {
        Operation::Read => {
            for slice in request.slices_mut() {
                let count = slice.len().min(end - at);
                slice[..count].copy_from_slice(&state.bytes[at..at + count]);
                at += count;
            }
        }
        Operation::Write => {
            for slice in request.slices() {
                let count = slice.len().min(end - at);
                state.bytes[at..at + count].copy_from_slice(&slice[..count]);
                at += count;
            }
        }
        Operation::Flush => {}
    }
}

/// What a server that may start anew does besides; false when it asks for everything again.
fn serve(state: &mut State, request: &Request, range: Range<usize>, fails: bool) -> bool {
    let Some(server) = &mut state.server else {
        return true;
    };
    let is_flush = request.operation() == Operation::Flush;
    if request.operation() == Operation::Write && request.is_durable() {
        server.durable[range.clone()].copy_from_slice(&state.bytes[range]);
    } else if request.operation() == Operation::Write {
        server.oldest.get_or_insert(server.starts);
    }
    if is_flush && server.restarts > 0 && server.oldest.is_some() {
        server.restarts -= 1;
        server.starts += 1;
        state.bytes.clone_from(&server.durable);
    }
    if is_flush && !fails {
        let oldest = server.oldest.take();
        if oldest.is_some_and(|starts| starts != server.starts) {
            server.replays += 1;
            return false;
        }
        server.durable.clone_from(&state.bytes);
    }
    true
}

impl Device for Disk {
    fn name(&self) -> &str {
        self.name
    }
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn keeps_until_flush(&self) -> bool {
        self.state.lock().unwrap().server.is_some()
    }
    fn submit(&self, request: Request) {
        let mut state = self.state.lock().unwrap();
        if state.panicking && request.operation() == Operation::Write {
            state.panicking = false;
            drop(state);
            panic!("the test wants it");
        }
        let counts = &mut state.counts;
        match request.operation() {
            Operation::Read => counts.reads += 1,
            Operation::Write => {
                counts.writes += 1;
                counts.write_bytes += request.len() as u64;
                counts.durable_writes += u64::from(request.is_durable());
            }
            Operation::Flush => counts.flushes += 1,
        }
        if request.operation() != Operation::Flush {
            self.check(&request);
        }
        if request.operation() == Operation::Write {
            let (start, end) = (request.offset(), request.offset() + request.len() as u64);
            let clash = state.held.iter().any(|other| {
                other.operation() == Operation::Write
                    && other.offset() < end
                    && start < other.offset() + other.len() as u64
            });
            assert!(!clash, "two writes of one block at a time");
        }
        let is_flush = request.operation() == Operation::Flush;
        if state.holding || state.holding_flushes && is_flush {
            state.held.push_back(request);
            return;
        }
        drop(state);
        self.answer(request);
    }
}
