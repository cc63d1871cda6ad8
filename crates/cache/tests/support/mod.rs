//! A device whose answers the test decides.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test uses a part

pub mod disk;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use pagewell_device::{Device, Error, Geometry, Request};
use pagewell_layers::Pattern;
use rustix::io::Errno;

/// Bytes of a pattern; requests can be held, failed, cut short, and are remembered.
pub struct Scripted {
    pattern: Pattern,
    geometry: Geometry,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: Vec<(u64, usize)>,
    holding: bool,
    held: VecDeque<Request>,
    bad: Vec<Range<u64>>,
    end: Option<u64>,
    panics: u32,
}

impl Scripted {
    pub fn new(length_bytes: u64) -> Arc<Self> {
        Self::with_geometry(length_bytes, Geometry::MEMORY)
    }

    pub fn with_geometry(length_bytes: u64, geometry: Geometry) -> Arc<Self> {
        Arc::new(Self {
            pattern: Pattern::new(length_bytes, 42),
            geometry,
            state: Mutex::default(),
        })
    }

    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Offset and length of every request so far.
    pub fn requests(&self) -> Vec<(u64, usize)> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Requests wait from now on.
    pub fn hold(&self) {
        self.state.lock().unwrap().holding = true;
    }

    /// How many wait.
    pub fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    /// Everything that waits is answered, and what comes is answered at once.
    pub fn release(&self) {
        let mut state = self.state.lock().unwrap();
        state.holding = false;
        let held = std::mem::take(&mut state.held);
        drop(state);
        held.into_iter().for_each(|request| self.answer(request));
    }

    /// Reads that touch these bytes fail from now on, where the first of them is.
    pub fn spoil(&self, range: Range<u64>) {
        self.state.lock().unwrap().bad.push(range);
    }

    /// No byte is bad any more.
    pub fn repair(&self) {
        self.state.lock().unwrap().bad.clear();
    }

    /// Somebody cut the storage to this length.
    pub fn truncate(&self, length_bytes: u64) {
        self.state.lock().unwrap().end = Some(length_bytes);
    }

    /// The next requests make the device panic.
    pub fn panic_at(&self, requests: u32) {
        self.state.lock().unwrap().panics = requests;
    }

    fn answer(&self, mut request: Request) {
        let (offset, length) = (request.offset(), request.len());
        let state = self.state.lock().unwrap();
        let end = state.end.unwrap_or(self.pattern.length_bytes());
        let bad = state
            .bad
            .iter()
            .filter(|bad| bad.start < offset + length as u64 && bad.end > offset);
        let bad = bad.map(|bad| bad.start.max(offset)).min();
        drop(state);
        let limit = bad.unwrap_or(u64::MAX).min(end);
        let there = usize::try_from(limit.saturating_sub(offset))
            .unwrap()
            .min(length);
        let mut done = 0;
        for slice in request.slices_mut() {
            let count = slice.len().min(there - done);
            self.pattern.fill(offset + done as u64, &mut slice[..count]);
            done += count;
        }
        if there == length {
            request.succeed();
        } else if bad.is_some_and(|bad| bad < end) {
            request.fail(
                there,
                Error::Failed {
                    device: "scripted".to_owned(),
                    offset: offset + there as u64,
                    errno: Errno::IO,
                },
            );
        } else {
            request.fail(
                there,
                Error::PastEnd {
                    device: "scripted".to_owned(),
                    offset,
                    length,
                },
            );
        }
    }
}

impl Device for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn length_bytes(&self) -> u64 {
        self.pattern.length_bytes()
    }
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn submit(&self, request: Request) {
        let mut state = self.state.lock().unwrap();
        state.requests.push((request.offset(), request.len()));
        if state.panics > 0 {
            state.panics -= 1;
            drop(state);
            panic!("scripted");
        }
        if state.holding {
            state.held.push_back(request);
            return;
        }
        drop(state);
        self.answer(request);
    }
}

pub use pagewell_base::mix::Random;

/// A cache with everything off, as old systems read: requests of 2 KiB, one at a time.
pub fn baseline(size_bytes: u64) -> pagewell_cache::CacheOptions {
    pagewell_cache::CacheOptions {
        read_ahead: pagewell_cache::ReadAheadRule::Off,
        elevator: false,
        merge: false,
        free_behind: false,
        unit_bytes: 2048,
        ..pagewell_cache::CacheOptions::new(size_bytes)
    }
}
