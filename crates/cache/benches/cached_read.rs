//! Reads of 8 KiB at random places that are in the cache, beside what they cannot beat: a copy
//! from huge pages, and what they replace: pread(2) from the kernel's page cache.
//!
//! `cargo bench -p pagewell-cache --bench cached_read -- [MEBIBYTES...] [shuffled]`
//!
//! The cache is filled in order, or with `shuffled` page by page in no order: then nothing can be
//! guessed of where a page is. Ratios are medians of those of each round, whose parts ran one
//! after the other.

#![allow(clippy::unwrap_used)] // a bench

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use pagewell_cache::{Cache, CacheOptions, CachedDevice, PAGE_BYTES, ReadMode};
use pagewell_layers::Pattern;

const READ_BYTES: usize = 8192;
const READS: u64 = 400_000;
const ROUNDS: usize = 9;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn time(length: u64, seed: u64, mut read: impl FnMut(u64)) -> f64 {
    let mut random = Random(seed);
    let start = Instant::now();
    for _ in 0..READS {
        read(random.next() % (length / READ_BYTES as u64) * READ_BYTES as u64);
    }
    start.elapsed().as_secs_f64() * 1e9 / READS as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn two_threads(device: &CachedDevice, length: u64, round: u64) -> f64 {
    let worker = |seed| {
        let device = device.clone();
        move || {
            let mut target = vec![0; READ_BYTES];
            time(length, seed, |offset| {
                device.read_at(offset, &mut target, ReadMode::WAIT).unwrap();
                black_box(&target);
            })
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(worker(round * 2 + 1));
        let here = worker(round * 2 + 2)();
        here.max(other.join().unwrap())
    })
}

/// Pages in the order in which they come into the cache.
fn fill_order(pages: u64, is_shuffled: bool) -> Vec<u64> {
    let mut order: Vec<_> = (0..pages).collect();
    if is_shuffled {
        let mut random = Random(7);
        order.sort_by_cached_key(|_| random.next());
    }
    order
}

fn ratio(above: &[f64], below: &[f64]) -> f64 {
    let ratios = above.iter().zip(below).map(|(above, below)| above / below);
    median(ratios.collect())
}

fn row(mebibytes: u64, is_shuffled: bool) {
    let length = mebibytes << 20;
    let cache = Cache::new(CacheOptions::new(length + length / 8 + (64 << 20))).unwrap();
    let device = cache.open(Arc::new(Pattern::new(length, 1)));
    let mut target = vec![0; READ_BYTES];
    for page in fill_order(length / PAGE_BYTES as u64, is_shuffled) {
        let start = page * PAGE_BYTES as u64;
        for offset in (start..start + PAGE_BYTES as u64).step_by(READ_BYTES) {
            device.read_at(offset, &mut target, ReadMode::WAIT).unwrap();
        }
    }
    // The bare copy reads the same memory: all of the arena that is in use.
    let base = (0..length)
        .step_by(PAGE_BYTES)
        .map(|offset| device.pin(offset, 1, ReadMode::WAIT).unwrap().as_ptr())
        .min()
        .unwrap();
    let file = tempfile::tempfile().unwrap();
    let block = vec![1; 1 << 20];
    for at in 0..mebibytes {
        file.write_all_at(&block, at << 20).unwrap();
    }
    let mut times: [Vec<f64>; 5] = Default::default();
    for round in 0..ROUNDS as u64 {
        let seed = round + 99;
        times[0].push(time(length, seed, |offset| {
            // SAFETY: the arena is one mapping, longer by an eighth than the device, and its pages
            // were taken from its start; nobody writes to it meanwhile.
            unsafe {
                let source = base.add(offset as usize);
                std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), READ_BYTES);
            }
            black_box(&target);
        }));
        times[1].push(time(length, seed, |offset| {
            device.read_at(offset, &mut target, ReadMode::WAIT).unwrap();
            black_box(&target);
        }));
        times[2].push(time(length, seed, |offset| {
            file.read_exact_at(&mut target, offset).unwrap();
            black_box(&target);
        }));
        times[3].push(time(length, seed, |offset| {
            black_box(&*device.pin(offset, READ_BYTES, ReadMode::WAIT).unwrap());
        }));
        times[4].push(two_threads(&device, length, round));
    }
    let of_copy = ratio(&times[1], &times[0]);
    let of_read = ratio(&times[2], &times[1]);
    let of_one = 2.0 * ratio(&times[1], &times[4]);
    let [copy, read, pread, pin, two] = times.map(median);
    println!(
        "{mebibytes:>6} MiB ({}, {}): memcpy {copy:.0} ns, read_at {read:.0} ns \
         ({of_copy:.3}x), pread {pread:.0} ns ({of_read:.2}x of read_at), pin {pin:.1} ns, two \
         threads {two:.0} ns each ({of_one:.2}x the rate of one)",
        cache.page_size(),
        if is_shuffled { "shuffled" } else { "in order" },
    );
}

fn main() {
    let sizes: Vec<u64> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() {
        vec![64, 1024]
    } else {
        sizes
    };
    let is_shuffled = std::env::args().any(|word| word == "shuffled");
    sizes.into_iter().for_each(|size| row(size, is_shuffled));
}
