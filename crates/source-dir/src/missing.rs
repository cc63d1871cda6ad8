//! Objects that were searched in vain: they are stale without another search.
//!
//! What has no name when the whole export was read is nearly always gone for good, and clients ask
//! for it for as long as they have it open. So it is remembered for long, or until its name is seen
//! after all: a local program may have moved it out of the export and back.

use super::path_hint_id::key_of;
use pagewell_fs::FileId;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How long one is remembered.
const MISSING_FOR: Duration = Duration::from_secs(3600);
/// How many are remembered: about 2 MiB.
const MISSING_MAX: usize = 1 << 14;

/// Keys of such objects; the oldest go first.
#[derive(Default)]
pub(super) struct Missing {
    since: HashMap<FileId, Instant>,
    order: VecDeque<FileId>,
}

impl Missing {
    /// Whether it was searched in vain.
    pub(super) fn has(&self, key: &FileId) -> bool {
        let since = self.since.get(key);
        since.is_some_and(|since| since.elapsed() < MISSING_FOR)
    }

    /// It was searched in vain.
    pub(super) fn put(&mut self, key: FileId) {
        self.since.insert(key, Instant::now());
        self.order.push_back(key);
        while self.order.len() > MISSING_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.since.remove(&oldest);
            }
        }
    }

    /// It was seen.
    pub(super) fn forget(&mut self, id: &FileId) {
        if !self.since.is_empty()
            && let Ok(key) = key_of(id)
        {
            self.since.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_remembered_and_the_oldest_go() {
        let key = |number: usize| {
            let mut bytes = [2; 17];
            bytes[1..9].copy_from_slice(&(number as u64).to_be_bytes());
            FileId::new(&bytes).unwrap()
        };
        let mut missing = Missing::default();
        for number in 0..MISSING_MAX + 10 {
            missing.put(key(number));
        }
        assert!((0..10).all(|number| !missing.has(&key(number))));
        assert!((10..MISSING_MAX + 10).all(|number| missing.has(&key(number))));
        missing.forget(&key(77));
        assert!(!missing.has(&key(77)) && missing.has(&key(78)));
        assert!(missing.order.len() <= MISSING_MAX);
    }
}
