//! How much data of reads is held at a time.
//!
//! Problem: the kernel may have 64 requests of 1 MiB under way, and each program one more. Most of
//! what answers them lies in pages of the cache, which lends only so many; the rest is copied. Then
//! each thread that waits for the source holds the memory of its answer, all of them together more
//! than the rest of the program.
//!
//! Rule: who is to wait for the source takes room for what was asked for, and keeps it until the
//! answer is sent; whoever finds none waits for that. Read-ahead goes on meanwhile, so
//! [`READ_BYTES_MAX`] need only be what programs can take, not what a long way holds. Answers that
//! are in memory need no room: each of the few threads that receive holds one of them.
//!
//! Weakness: programs that read a little wait behind those that read a lot.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pagewell_counters::names;

/// Data of reads that are waited for.
pub(crate) const READ_BYTES_MAX: usize = 16 << 20;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Rooms {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// Room for so many bytes, until it is dropped.
pub(crate) struct Room {
    rooms: Arc<Rooms>,
    bytes: usize,
}

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for `bytes`; more than there ever is counts as all of it.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Room {
        let bytes = bytes.min(READ_BYTES_MAX);
        let mut taken = self.lock();
        if *taken + bytes > READ_BYTES_MAX {
            names::FUSE_READS_HELD.add(1);
        }
        while *taken + bytes > READ_BYTES_MAX {
            let wait = self.freed.wait(taken);
            taken = wait.unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
        drop(taken);
        Room {
            rooms: Arc::clone(self),
            bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.rooms.lock() -= self.bytes;
        // Who waits may want more than this, and the next less.
        self.rooms.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_is_held_than_there_is_room_for_and_all_of_it_comes_back() {
        let rooms = Arc::new(Rooms::default());
        let held = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..24)
            .map(|_| {
                let (rooms, held) = (Arc::clone(&rooms), Arc::clone(&held));
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        let room = rooms.take(1 << 20);
                        let now = held.fetch_add(room.bytes, Ordering::SeqCst) + room.bytes;
                        assert!(now <= READ_BYTES_MAX, "{now}");
                        std::thread::yield_now();
                        held.fetch_sub(room.bytes, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // More than there is can be had, alone.
        let all = rooms.take(usize::MAX);
        assert_eq!(*rooms.lock(), READ_BYTES_MAX);
        drop(all);
        assert_eq!(*rooms.lock(), 0);
    }
}
