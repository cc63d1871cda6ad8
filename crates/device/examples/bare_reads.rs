//! What a disk gives a program that keeps what it reads, and one that does not: reads of 1 MiB past
//! the kernel's page cache, so many at a time, into so many pieces of memory in turn.
//!
//! `cargo run --release -p pagewell-device --example bare_reads -- FILE READS PIECES`
//!
//! With as many pieces as reads the same few MiB are used again and again, as `fio` does; with 256
//! each piece of memory has its turn after 256 MiB, as in a page cache of that size. The difference
//! is what no cache can get back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const READ_BYTES: usize = 1 << 20;
/// Memory begins where a huge page may.
const ALIGNMENT_BYTES: usize = 2 << 20;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, reads, pieces] = &arguments[..] else {
        return Err("usage: bare_reads FILE READS PIECES".into());
    };
    let (reads, pieces): (usize, usize) = (reads.parse()?, pieces.parse()?);
    if reads == 0 || pieces < reads {
        return Err("READS are at least 1, and PIECES at least as many".into());
    }
    // A flag.
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)?;
    let count = file.metadata()?.len() / READ_BYTES as u64;
    let memory = memory(pieces * READ_BYTES)?;
    let memory: Vec<Mutex<&mut [u8]>> = memory.chunks_mut(READ_BYTES).map(Mutex::new).collect();
    let (next, begin) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..reads)
            .map(|_| scope.spawn(|| read_some(&file, count, &next, &memory)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("a thread panicked".into()))
        })
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = count * READ_BYTES as u64;
    // A file is shorter than 2^52 bytes.
    let rate = bytes as f64 / seconds / 1e6;
    println!("{bytes} bytes in {seconds:.3} s, {rate:.0} MB/s");
    Ok(())
}

/// So much memory, in huge pages where the system has them. All of it is there before the clock
/// starts. It is never given back.
fn memory(bytes: usize) -> Result<&'static mut [u8], Failure> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    let length = bytes + ALIGNMENT_BYTES;
    // SAFETY: a new mapping without another user. The slice is a part of it, whole pages that are
    // zero, and it is not unmapped.
    let memory = unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), length, protection, flags)?;
        madvise(start, length, Advice::LinuxHugepage)?;
        let start = start.cast::<u8>();
        let first = start.add(start.align_offset(ALIGNMENT_BYTES));
        std::slice::from_raw_parts_mut(first, bytes)
    };
    memory.fill(1);
    Ok(memory)
}

/// Reads what is next, until nothing is.
fn read_some(
    file: &File,
    count: u64,
    next: &AtomicU64,
    memory: &[Mutex<&mut [u8]>],
) -> Result<(), Failure> {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let piece = &memory[usize::try_from(number)? % memory.len()];
        let mut piece = piece.lock().map_err(|_| "a thread panicked")?;
        file.read_exact_at(&mut piece, number * READ_BYTES as u64)?;
    }
}
