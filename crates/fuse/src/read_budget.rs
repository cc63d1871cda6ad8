//! How much data of reads is held at a time.
//!
//! Problem: the kernel may have 64 requests of 1 MiB under way, and each program one more. Most of
//! what answers them lies in pages of the cache, which lends only so many; the rest is copied. Then
//! each thread that waits for the source holds the memory of its answer, all of them together more
//! than the rest of the program.
//!
//! Rule: a call that is to wait for the source takes a lease of what was asked for, and keeps it
//! until the answer is sent; what gets none waits in the queue of [`crate::dispatch`], and no
//! thread with it. Read-ahead goes on meanwhile, so [`READ_BYTES_MAX`] need only be what programs
//! can take, not what a long way holds. Answers that are in memory need no lease: each of the few
//! threads that receive holds one of them.
//!
//! Weakness: programs that read a little wait behind those that read a lot.

use std::sync::Arc;

use pagewell_base::sync::Mutex;

/// Data of reads that are waited for.
pub(crate) const READ_BYTES_MAX: usize = 16 << 20;

/// See the module's text.
#[derive(Default)]
pub(crate) struct ReadBudget {
    taken: Mutex<usize>,
}

/// The right to hold so many bytes, until it is dropped.
pub(crate) struct ReadLease {
    budget: Arc<ReadBudget>,
    bytes: usize,
}

impl ReadBudget {
    /// How much may be taken now.
    pub(crate) fn free(&self) -> usize {
        READ_BYTES_MAX - *self.taken.lock()
    }

    /// A lease of `bytes`, if they are left; more than there ever is counts as all of it.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<ReadLease> {
        let bytes = bytes.min(READ_BYTES_MAX);
        let mut taken = self.taken.lock();
        if *taken + bytes > READ_BYTES_MAX {
            return None;
        }
        *taken += bytes;
        drop(taken);
        Some(ReadLease {
            budget: Arc::clone(self),
            bytes,
        })
    }
}

impl Drop for ReadLease {
    fn drop(&mut self) {
        *self.budget.taken.lock() -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_is_held_than_there_is_room_for_and_all_of_it_comes_back() {
        let budget = Arc::new(ReadBudget::default());
        let held = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..24)
            .map(|_| {
                let (budget, held) = (Arc::clone(&budget), Arc::clone(&held));
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        let Some(lease) = budget.take(1 << 20) else {
                            std::thread::yield_now();
                            continue;
                        };
                        let now = held.fetch_add(lease.bytes, Ordering::SeqCst) + lease.bytes;
                        assert!(now <= READ_BYTES_MAX, "{now}");
                        std::thread::yield_now();
                        held.fetch_sub(lease.bytes, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // More than there is can be had, alone.
        let all = budget.take(usize::MAX).unwrap();
        assert_eq!(budget.free(), 0);
        assert!(budget.take(1).is_none());
        drop(all);
        assert_eq!(budget.free(), READ_BYTES_MAX);
    }
}
