//! The frames of the arena that hold no page: a stack without a lock.
//!
//! Treiber's stack over indexes. The head carries a tag that changes at every push and pop, so
//! that a head which left and came back (ABA) is noticed. Last freed, first used: what was freed
//! last is most likely still in the processor's cache. Known weakness: all threads meet at one
//! head; a frame is taken once per fetched page, and fetching a page costs a thousand times more.

use pagewell_policy::eviction::FrameIndex;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

const NONE: u32 = u32::MAX;

/// Free frames of an arena.
pub(crate) struct FreeList {
    /// Tag in the upper half, index of the first free frame (or `NONE`) in the lower.
    head: AtomicU64,
    next: Box<[AtomicU32]>,
    count: AtomicU32,
}

impl FreeList {
    /// All frames `0..frames` are free; they come out in ascending order.
    pub(crate) fn new(frames: u32) -> Self {
        let next = (1..=frames).map(|next| if next == frames { NONE } else { next });
        Self {
            head: AtomicU64::new(u64::from(if frames == 0 { NONE } else { 0 })),
            next: next.map(AtomicU32::new).collect(),
            count: AtomicU32::new(frames),
        }
    }

    /// Takes a frame.
    pub(crate) fn pop(&self) -> Option<FrameIndex> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = index_of(head);
            let next = self.next.get(first as usize)?.load(Ordering::Relaxed);
            match self.replace(head, next) {
                Ok(()) => {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    return Some(FrameIndex(first));
                }
                Err(current) => head = current,
            }
        }
    }

    /// Gives a frame back. It must not be in the list.
    pub(crate) fn push(&self, frame: FrameIndex) {
        let Some(next) = self.next.get(frame.0 as usize) else {
            debug_assert!(false, "{frame:?}");
            return;
        };
        // Counted first: the count never falls below what can be taken.
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            next.store(index_of(head), Ordering::Relaxed);
            match self.replace(head, frame.0) {
                Ok(()) => return,
                Err(current) => head = current,
            }
        }
    }

    /// How many are free, about.
    pub(crate) fn len(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    fn replace(&self, head: u64, first: u32) -> Result<(), u64> {
        let tag = (head >> 32).wrapping_add(1) << 32;
        let new = tag | u64::from(first);
        self.head
            .compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
}

#[allow(clippy::cast_possible_truncation)] // the lower half
fn index_of(head: u64) -> u32 {
    head as u32
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_taken_once() {
        let list = FreeList::new(64);
        let taken = crate::sync::Mutex::<Vec<u32>>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(frame) = list.pop() {
                            list.push(frame);
                        }
                    }
                    while let Some(frame) = list.pop() {
                        taken.lock().push(frame.0);
                    }
                });
            }
        });
        let mut taken = std::mem::take(&mut *taken.lock());
        taken.sort_unstable();
        assert_eq!(taken, (0..64).collect::<Vec<_>>());
        assert_eq!(list.len(), 0);
        assert_eq!(FreeList::new(0).pop(), None);
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn no_frame_is_lost_or_taken_twice() {
        loom::model(|| {
            let list = Arc::new(FreeList::new(2));
            let other = list.clone();
            let thread = loom::thread::spawn(move || {
                let first = other.pop();
                if let Some(frame) = first {
                    other.push(frame);
                }
                other.pop()
            });
            let here = list.pop();
            let there = thread.join().unwrap();
            assert!(here.is_none() || here != there, "{here:?} {there:?}");
            let mut left = 0;
            while list.pop().is_some() {
                left += 1;
            }
            let taken = usize::from(here.is_some()) + usize::from(there.is_some());
            assert_eq!(left + taken, 2);
        });
    }
}
