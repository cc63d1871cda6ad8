//! Direct reads of a scratch file against fio with the same pattern, in turns.
//!
//! `cargo bench -p pagewell-device --bench file [-- DIRECTORY [ROUNDS]]`; the scratch file is made
//! in DIRECTORY (the current one otherwise) and removed. Without fio only our rates are shown.
//!
//! Large blocks go the faster the fewer pieces their memory is in. So the ring is measured with
//! small pages, as fio has them, and with huge ones, as the arena of a cache has them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pagewell_base::mix::{STEP, mix};
use pagewell_device::{
    Device, Engine, FileDevice, FileOptions, Issuer, Memory, Operation, Request, Segment,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const FILE_BYTES: u64 = 1 << 30;
/// Of one measurement.
const SECONDS: u64 = 2;

type Failure = Box<dyn std::error::Error>;

/// What is read.
struct Pattern {
    name: &'static str,
    block_bytes: usize,
    depth: usize,
    random: bool,
}

const PATTERNS: [Pattern; 2] = [
    Pattern {
        name: "sequential 1 MiB x 16",
        block_bytes: 1 << 20,
        depth: 16,
        random: false,
    },
    Pattern {
        name: "random 8 KiB x 32",
        block_bytes: 8 << 10,
        depth: 32,
        random: true,
    },
];

/// Mapped memory.
struct Arena {
    mapped: *mut std::ffi::c_void,
    mapped_bytes: usize,
    start: NonNull<u8>,
}

// SAFETY: it is an address; the code that uses the memory argues.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// At least `length` bytes at the start of a huge page.
    fn new(length: usize, huge_pages: bool) -> Result<Self, Failure> {
        let mapped_bytes = length.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory at no particular address.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped_bytes,
                protection,
                MapFlags::PRIVATE,
            )?
        };
        if huge_pages {
            // SAFETY: just mapped; the advice changes no bytes.
            unsafe { madvise(mapped, mapped_bytes, Advice::LinuxHugepage)? };
        }
        let skipped = mapped.align_offset(HUGE_PAGE_BYTES);
        let start = NonNull::new(mapped.cast::<u8>().wrapping_add(skipped)).ok_or("no memory")?;
        Ok(Self {
            mapped,
            mapped_bytes,
            start,
        })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; used only with the arena held.
        let _ = unsafe { munmap(self.mapped, self.mapped_bytes) };
    }
}

/// A loop of requests, each of which submits the next.
struct Load {
    device: FileDevice,
    arena: Arc<Arena>,
    block_bytes: usize,
    random: bool,
    next: AtomicU64,
    bytes: AtomicU64,
    end: Instant,
}

impl Load {
    fn offset(&self) -> u64 {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let blocks = FILE_BYTES / self.block_bytes as u64;
        let index = if self.random {
            // All blocks equally likely.
            mix(index.wrapping_mul(STEP))
        } else {
            index
        };
        index % blocks * self.block_bytes as u64
    }

    fn request(self: &Arc<Self>, slot: usize, done: mpsc::Sender<bool>) -> Request {
        let load = self.clone();
        let start = self.arena.start.as_ptr();
        let start = NonNull::new(start.wrapping_add(slot * self.block_bytes));
        let start = start.unwrap_or(NonNull::dangling());
        let segments = vec![Segment::new(start, self.block_bytes)];
        let (operation, issuer) = (Operation::Read, Issuer::Reader);
        // SAFETY: the arena lives as long as the load; each slot has one request at a time; the
        // bytes are never looked at.
        unsafe {
            Request::new(operation, self.offset(), segments, issuer, move |outcome| {
                let good = outcome.result.is_ok();
                load.bytes
                    .fetch_add(outcome.transferred_bytes as u64, Ordering::Relaxed);
                if !good || Instant::now() >= load.end {
                    // The other end waits for all of them.
                    let _ = done.send(good);
                    return;
                }
                let next = load.request(slot, done);
                load.device.submit(next);
            })
        }
    }
}

/// Bytes a second.
fn ours(path: &Path, pattern: &Pattern, engine: Engine, huge_pages: bool) -> Result<f64, Failure> {
    let options = FileOptions {
        engine,
        ..FileOptions::default()
    };
    let device = FileDevice::open_with(path, options)?;
    let arena_bytes = pattern.block_bytes * pattern.depth;
    let arena = Arc::new(Arena::new(arena_bytes, huge_pages)?);
    // SAFETY: the arena is the keeper.
    let memory = unsafe { Memory::new(arena.start, arena_bytes, arena.clone()) };
    device.register_memory(&memory);
    let begun = Instant::now();
    let load = Arc::new(Load {
        device,
        arena,
        block_bytes: pattern.block_bytes,
        random: pattern.random,
        next: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        end: begun + Duration::from_secs(SECONDS),
    });
    let (sender, receiver) = mpsc::channel();
    let first = (0..pattern.depth).map(|slot| load.request(slot, sender.clone()));
    load.device.submit_many(first.collect());
    for _ in 0..pattern.depth {
        if !receiver.recv()? {
            return Err("a read failed".into());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(load.bytes.load(Ordering::Relaxed) as f64 / seconds)
}

/// Bytes a second, from fio's terse output (field 6 of version 3: KiB read a second).
fn fio(path: &Path, pattern: &Pattern) -> Option<f64> {
    let pattern_name = if pattern.random { "randread" } else { "read" };
    let output = Command::new("fio")
        .args([
            "--name=read",
            "--ioengine=io_uring",
            "--direct=1",
            "--time_based",
        ])
        .args([
            "--fixedbufs=1",
            "--output-format=terse",
            "--terse-version=3",
        ])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={pattern_name}"))
        .arg(format!("--bs={}", pattern.block_bytes))
        .arg(format!("--iodepth={}", pattern.depth))
        .arg(format!("--size={FILE_BYTES}"))
        .arg(format!("--runtime={SECONDS}"))
        .args([
            "--random_generator=tausworthe64",
            "--norandommap",
            "--loops=1000",
        ])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let kib: f64 = text.split(';').nth(6)?.parse().ok()?;
    Some(kib * 1024.0)
}

fn make_file(path: &Path) -> Result<(), Failure> {
    let mut file = std::fs::File::create(path)?;
    let mut block = vec![0u8; 1 << 20];
    for index in 0..FILE_BYTES >> 20 {
        // Different in every block, so that nothing below can share them.
        for (place, byte) in block.iter_mut().enumerate() {
            *byte = (place as u64 * 31 + index * 7) as u8;
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

fn compare(path: &Path, rounds: usize) -> Result<(), Failure> {
    for pattern in &PATTERNS {
        let mut rates: [Vec<f64>; 4] = Default::default();
        for round in 0..rounds {
            // Everyone goes first in turn: storage may have a budget that the first one uses up.
            for turn in 0..rates.len() {
                let who = (round + turn) % rates.len();
                let rate = match who {
                    0 => Some(ours(path, pattern, Engine::Ring, false)?),
                    1 => Some(ours(path, pattern, Engine::Ring, true)?),
                    2 => Some(ours(path, pattern, Engine::Workers, false)?),
                    _ => fio(path, pattern),
                };
                rates[who].extend(rate);
            }
        }
        let [ring, huge, workers, fio] = rates.map(|mut rates| median(&mut rates));
        let mib = |rate: f64| rate / f64::from(1 << 20);
        println!("{}, MiB/s and share of fio:", pattern.name);
        for (name, rate) in [
            ("ring, small pages", ring),
            ("ring, huge pages", huge),
            ("workers, small pages", workers),
            ("fio", fio),
        ] {
            println!("  {name:22} {:8.1} {:6.3}", mib(rate), rate / fio);
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    // Cargo adds --bench; with `cargo test` there is nothing to do.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut words = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let directory = words
        .next()
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let rounds = words.next().map_or(Ok(5), |word| word.parse())?;
    let path = directory.join(format!("pagewell-bench-{}", std::process::id()));
    let result = make_file(&path).and_then(|()| compare(&path, rounds));
    let _ = std::fs::remove_file(&path);
    result
}
