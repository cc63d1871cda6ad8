//! Reads a file through the page cache, 8 KiB at a time, and says how fast.
//!
//! The memory of the cache is taken before the clock starts, as that of a server is.
//!
//! `cargo run --release -p pagewell-cache --example read_file -- FILE`

use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions, ReadMode};
use pagewell_device::{Device, FileDevice};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("a FILE is missing")?;
    let file = Arc::new(FileDevice::open(path.as_ref())?);
    let length = file.length_bytes();
    let cache = Cache::new(CacheOptions {
        populate_bytes: u64::MAX,
        ..CacheOptions::new(256 << 20)
    })?;
    let device = cache.open(file);
    let (mut buffer, mut offset, start) = ([0; 8192], 0, std::time::Instant::now());
    while offset < length {
        let count = usize::try_from(length - offset)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        device.read_at(offset, &mut buffer[..count], ReadMode::WAIT)?;
        offset += count as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{length} bytes in {seconds:.3} s, {:.0} MB/s",
        length as f64 / seconds / 1e6
    );
    println!("read-ahead: {:?}", device.read_ahead_counts());
    Ok(())
}
