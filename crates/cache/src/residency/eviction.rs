//! Which page goes when another comes.
//!
//! # Drop-behind
//!
//! **Problem.** The kernel keeps what it reads through a mount: the copy here is of no use, and new
//! memory costs time (0.4 GB/s in a guest). But a reader in a small container reads a file again
//! and again.
//!
//! **Rule.** With [`CacheOptions::reader_keeps`] what a stream left behind is given back early,
//! after one part in [`LAG_SHARE`] of the cache, as it may not be delivered yet. As many names as
//! the cache has pages are remembered. When [`WANTED_PAGES`] of those were fetched again, nothing
//! more is given back before memory is short.
//!
//! ```text
//!   behind ──> waits ──> given back ──> remembered ──fetched again, 64 times──> kept from now on
//! ```
//!
//! **Weaknesses.** Such a reader's second pass comes from the device. Files that another client
//! changed, and writes over pages given back, count as fetched again. A reader that begins to keep
//! is not seen.
//!
//! [`CacheOptions::reader_keeps`]: crate::CacheOptions::reader_keeps

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pagewell_base::mix::mix;
use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, Ghost, S3Fifo};

use crate::sync::{Mutex, Rank};
use crate::table::SlotIndex;

const EVICTED_AT_ONCE: usize = 8;
/// So often the policy may find no page that can go.
const REFUSALS_MAX: u32 = 8;

pub(super) struct Evictor {
    policy: Mutex<S3Fifo>,
    drop_behind: DropBehind,
    detached: Detached,
}

impl Evictor {
    pub(super) fn new(frames: u32, reader_keeps: bool) -> Self {
        Self {
            policy: Mutex::new(Rank::Leaf, S3Fifo::new(frames)),
            drop_behind: DropBehind::new(frames, reader_keeps),
            detached: Detached::default(),
        }
    }

    pub(super) fn inserted(&self, frame: FrameIndex, key: u64, arrival: Arrival) {
        self.policy.lock().inserted(frame, mix(key), arrival);
        self.drop_behind.fetched(key);
    }

    pub(super) fn removed(&self, frame: FrameIndex) {
        self.policy.lock().removed(frame);
    }

    pub(super) fn moved(&self, from: FrameIndex, to: FrameIndex, key: u64) {
        let mut policy = self.policy.lock();
        policy.removed(from);
        policy.inserted(to, mix(key), Arrival::Demand);
    }

    /// What `remove` says of some pages that may go, `None` being a page that is pinned by now.
    pub(super) fn evict<T>(
        &self,
        frames: &impl Frames,
        remove: impl Fn(FrameIndex) -> Option<T>,
    ) -> Vec<T> {
        let mut evicted = Vec::with_capacity(EVICTED_AT_ONCE);
        let mut policy = self.policy.lock();
        let mut refusals = 0;
        while evicted.len() < EVICTED_AT_ONCE && refusals < REFUSALS_MAX {
            let Some(frame) = policy.victim(frames) else {
                refusals += 1;
                // The policy gives up early; others may be free to go.
                if evicted.is_empty() {
                    continue;
                }
                break;
            };
            match remove(frame) {
                Some(page) => evicted.push(page),
                // It was pinned in the last moment.
                None => policy.put_back(frame),
            }
        }
        evicted
    }

    pub(super) fn add_detached(&self, slot: SlotIndex, frame: FrameIndex) {
        self.detached.add(slot, frame);
    }

    pub(super) fn sweep(&self, free: impl Fn(SlotIndex, FrameIndex) -> bool) {
        self.detached.sweep(free);
    }

    pub(super) fn left_behind(&self, key: u64, release: impl FnOnce(u64) -> bool) {
        self.drop_behind.left_behind(key, release);
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn drops_behind(&self) -> bool {
        self.drop_behind.names().is_some()
    }
}

#[derive(Default)]
struct Detached {
    frames: Mutex<Vec<(SlotIndex, FrameIndex)>>,
    count: AtomicUsize,
}

impl Detached {
    fn add(&self, slot: SlotIndex, frame: FrameIndex) {
        self.change(|frames| frames.push((slot, frame)));
    }

    fn sweep(&self, free: impl Fn(SlotIndex, FrameIndex) -> bool) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.change(|frames| frames.retain(|(slot, frame)| !free(*slot, *frame)));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(SlotIndex, FrameIndex)>)) {
        let mut frames = self.frames.lock();
        change(&mut frames);
        self.count.store(frames.len(), Ordering::Relaxed);
    }
}

/// Of 4 GiB, 64 MiB wait: a reader of a mount has one or two on their way.
const LAG_SHARE: u32 = 64;
/// 4 MiB, more than a reader steps back by chance.
const WANTED_PAGES: u32 = 64;

struct DropBehind {
    names: Option<Mutex<Names>>,
    wanted_pages: AtomicU32,
}

struct Names {
    /// Oldest first, and how many may wait.
    waiting: VecDeque<u64>,
    waiting_max: usize,
    given_back: Ghost,
}

impl Names {
    fn wait(&mut self, key: u64) -> Option<u64> {
        self.waiting.push_back(key);
        let is_over = self.waiting.len() > self.waiting_max;
        is_over.then(|| self.waiting.pop_front()).flatten()
    }
}

impl DropBehind {
    fn new(frames: u32, reader_keeps: bool) -> Self {
        let names = || Names {
            waiting: VecDeque::new(),
            waiting_max: (frames / LAG_SHARE) as usize,
            given_back: Ghost::new(frames),
        };
        Self {
            names: reader_keeps.then(|| Mutex::new(Rank::Leaf, names())),
            wanted_pages: AtomicU32::new(0),
        }
    }

    fn names(&self) -> Option<&Mutex<Names>> {
        let wanted = self.wanted_pages.load(Ordering::Relaxed);
        self.names.as_ref().filter(|_| wanted < WANTED_PAGES)
    }

    fn left_behind(&self, key: u64, release: impl FnOnce(u64) -> bool) {
        let Some(names) = self.names() else {
            return;
        };
        let first = names.lock().wait(key);
        if let Some(first) = first.filter(|first| release(*first)) {
            names.lock().given_back.insert(mix(first));
        }
    }

    fn fetched(&self, key: u64) {
        if let Some(names) = self.names()
            && names.lock().given_back.take(mix(key))
        {
            self.wanted_pages.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
#[allow(clippy::unwrap_used)] // tests
mod tests {
    use std::sync::Arc;

    use pagewell_device::RamDevice;

    use crate::{Cache, CacheOptions, CachedDevice, ReadMode};

    const MIB: u64 = 1 << 20;

    fn open(reader_keeps: bool) -> CachedDevice {
        let options = CacheOptions {
            reader_keeps,
            ..CacheOptions::new(256 * MIB)
        };
        let device = Arc::new(RamDevice::new("scratch", 128 * MIB));
        Cache::new(options).unwrap().open(device)
    }

    /// Reads from the beginning to `end`, and says how many pages are in memory then.
    fn read(device: &CachedDevice, end: u64) -> u64 {
        let mut target = vec![0; 128 << 10];
        for at in (0..end).step_by(target.len()) {
            device.read_at(at, &mut target, ReadMode::WAIT).unwrap();
        }
        device.resident_pages().0
    }

    #[test]
    fn what_a_reader_keeps_is_not_kept_here_until_it_asks_again() {
        let all = 128 * MIB / crate::PAGE_BYTES as u64;
        assert_eq!(read(&open(false), 128 * MIB), all);
        let device = open(true);
        let once = read(&device, 128 * MIB);
        assert!(once < all / 2, "{once} of {all}");
        assert!(read(&device, 128 * MIB) > all * 3 / 4);
        assert_eq!(read(&device, 128 * MIB), all);
    }

    #[test]
    fn a_reader_that_steps_back_a_little_is_still_believed() {
        let device = open(true);
        read(&device, 64 * MIB);
        let mut target = vec![0; 4096];
        for page in 0..8 {
            device
                .read_at(page * 4 * MIB, &mut target, ReadMode::WAIT)
                .unwrap();
        }
        let once = read(&device, 0);
        assert!(once < 64 * MIB / crate::PAGE_BYTES as u64, "{once}");
        assert!(device.reader().own().pages().drops_behind());
    }
}
