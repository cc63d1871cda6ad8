//! The most memory of a process over a time.
//!
//! The kernel keeps the highest resident memory of a process, but with mapped files. It shows the
//! process's own memory only for the moment, so a thread reads that again and again.
//!
//! Weakness: memory that is taken and given back between two looks is missed.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::usage::own_bytes;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Watches the memory of a process, without mapped files.
#[derive(Debug)]
pub struct PeakMemory {
    done: Arc<AtomicBool>,
    watcher: JoinHandle<u64>,
}

impl PeakMemory {
    /// Watches from now on.
    pub fn watch(process: u32) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let is_done = Arc::clone(&done);
        let watcher = std::thread::spawn(move || {
            let path = format!("/proc/{process}/status");
            let mut high = 0;
            loop {
                let last = is_done.load(Ordering::Relaxed);
                let status = fs::read_to_string(&path).unwrap_or_default();
                high = high.max(own_bytes(&status));
                if last {
                    return high;
                }
                std::thread::sleep(PAUSE);
            }
        });
        Self { done, watcher }
    }

    /// The most bytes so far; none without the process.
    pub fn finish(self) -> Option<u64> {
        self.done.store(true, Ordering::Relaxed);
        self.watcher.join().ok().filter(|high| *high > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_given_back_is_seen() {
        const BYTES: usize = 64 << 20;
        let peak = PeakMemory::watch(std::process::id());
        let bytes = vec![1u8; BYTES];
        std::thread::sleep(PAUSE * 20);
        drop(std::hint::black_box(bytes));
        let high = peak.finish().unwrap();
        assert!(high > BYTES as u64, "{high}");
        assert_eq!(PeakMemory::watch(u32::MAX).finish(), None);
    }
}
