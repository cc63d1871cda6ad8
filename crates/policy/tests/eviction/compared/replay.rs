//! Plays accesses to a policy and tells hits from misses.

use std::cell::Cell;
use std::collections::HashMap;

use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, HEAT_MAX};

use super::Eviction;

/// Pages that are always evictable.
struct Heats(Vec<Cell<u8>>);

impl Frames for Heats {
    fn is_evictable(&self, _frame: FrameIndex) -> bool {
        true
    }

    fn heat(&self, frame: FrameIndex) -> u8 {
        self.0.get(frame.0 as usize).map_or(0, Cell::get)
    }

    fn cool(&self, frame: FrameIndex, heat: u8) {
        if let Some(cell) = self.0.get(frame.0 as usize) {
            cell.set(heat);
        }
    }
}

/// A cache without data.
pub struct Replay {
    policy: Box<dyn Eviction>,
    heats: Heats,
    /// The page in each place.
    pages: Vec<u64>,
    table: HashMap<u64, FrameIndex>,
    free: Vec<FrameIndex>,
}

impl Replay {
    /// An empty cache of `frames` pages; `policy` was made for as many.
    #[must_use]
    pub fn new(frames: u32, policy: Box<dyn Eviction>) -> Self {
        Self {
            policy,
            heats: Heats(vec![Cell::new(0); frames as usize]),
            pages: vec![0; frames as usize],
            table: HashMap::new(),
            free: (0..frames).rev().map(FrameIndex).collect(),
        }
    }

    /// Reads a page and says whether it was there. A page that is not comes by `arrival`.
    pub fn access(&mut self, page: u64, arrival: Arrival) -> bool {
        if let Some(frame) = self.table.get(&page) {
            let heat = self.heats.heat(*frame);
            self.heats.cool(*frame, (heat + 1).min(HEAT_MAX));
            self.policy.hit(*frame);
            return true;
        }
        let place = self.free.pop().or_else(|| {
            let frame = self.policy.victim(&self.heats)?;
            self.table.remove(&self.pages[frame.0 as usize]);
            Some(frame)
        });
        if let Some(frame) = place {
            self.heats.cool(frame, 0);
            self.pages[frame.0 as usize] = page;
            self.table.insert(page, frame);
            self.policy.inserted(frame, page, arrival);
        }
        false
    }

    /// Whether a page is there.
    #[must_use]
    pub fn is_resident(&self, page: u64) -> bool {
        self.table.contains_key(&page)
    }
}
