//! Keeping a file's region the file's while a thread reads or writes in it.
//!
//! **Problem.** A request for an address goes to the file that has the region. So a region may not
//! go to another file while a request for it is under way, and no byte may be written between the
//! moment when data is made safe and the one when it is thrown away. But a server may take minutes
//! for a READ, and nobody else is to wait for that.
//!
//! **Rule.**
//!
//! | who | has | so that |
//! |---|---|---|
//! | reads | no lock; is counted in the region | the region stays where it is |
//! | writes | the file's data, shared | its bytes are not thrown away unwritten |
//! | throws away, cuts off | the file's data, alone | nobody writes in between |
//! | takes the region away | the data alone, and nobody reads | nobody meets another file's bytes |
//!
//! Reads go on while data is thrown away: what is on its way then does not come into memory any
//! more ([`pagewell_cache::CachedDevice::discard`]), so that a later reader asks the server. A
//! region is taken from its file first, then what memory has of it is discarded, then another may
//! have it: so nothing that a last reader has brought in is left for the next file. It is taken
//! away only when nothing of it is on its way to the server, as a write that is would go to the
//! file that has it next.
//!
//! **Known weakness.** A file that outgrows its region, after a tebibyte, has to wait for its
//! readers, and meanwhile new ones wait for it.

use std::sync::Arc;

use pagewell_base::sync::{RwLockReadGuard, RwLockWriteGuard};
use pagewell_fs::{Call, Error, Result};

use super::filesystem::Shared;
use super::node::Node;
use super::regions::{FILE_BYTES_MAX, Region};

/// Regions of others that are tried before a file is refused one.
const REUSE_ATTEMPTS: usize = 64;

/// A read in a file's region, which stays the file's.
pub(super) struct Reading<'a> {
    node: &'a Node,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.node.lock();
        state.readers = state.readers.saturating_sub(1);
        if state.readers == 0 && state.is_moving {
            self.node.is_unread.notify_all();
        }
    }
}

impl Node {
    /// Takes its region from the file, unless a thread reads in it. The caller holds its data
    /// alone.
    pub(super) fn take_region(&self) -> Option<Region> {
        let mut state = self.lock();
        if state.readers > 0 {
            return None;
        }
        state.region.take()
    }

    /// The same, when the last reader has left. Until [`Self::end_move`] no other comes.
    fn begin_move(&self) -> Option<Region> {
        let mut state = self.lock();
        state.is_moving = true;
        while state.readers > 0 {
            state = self.is_unread.wait(state);
        }
        state.region.take()
    }

    fn end_move(&self) {
        self.lock().is_moving = false;
        self.is_unread.notify_all();
    }
}

impl Shared {
    /// Counts a reader in a region for `length` bytes.
    pub(super) fn hold_to_read<'a>(
        &self,
        call: &Call<'_>,
        node: &'a Arc<Node>,
        length: u64,
    ) -> Result<(Reading<'a>, Region)> {
        if length > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        loop {
            let mut state = node.lock();
            while state.is_moving {
                Self::may_wait(call)?;
                state = node.is_unread.wait(state);
            }
            let taken = state.region;
            if let Some(region) = taken.filter(|region| length <= region.capacity()) {
                state.readers += 1;
                drop(state);
                self.files.touch(region);
                return Ok((Reading { node }, region));
            }
            drop(state);
            if taken.is_some() {
                Self::may_wait(call)?;
                self.outgrow(node, length)?;
            } else if !self.files.take_region(node, length) {
                Self::may_wait(call)?;
                self.reclaim_region()?;
            }
        }
    }

    /// Holds a file's data shared, with a region for `length` bytes.
    pub(super) fn hold<'a>(
        &self,
        call: &Call<'_>,
        node: &'a Arc<Node>,
        length: u64,
    ) -> Result<(RwLockReadGuard<'a, ()>, Region)> {
        if length > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        loop {
            let guard = match node.data.try_read() {
                Some(guard) => guard,
                None => {
                    Self::may_wait(call)?;
                    node.data.read()
                }
            };
            match self.files.region(node, length) {
                Some(region) if length <= region.capacity() => {
                    self.files.touch(region);
                    return Ok((guard, region));
                }
                taken => {
                    drop(guard);
                    Self::may_wait(call)?;
                    match taken {
                        Some(_) => self.outgrow(node, length)?,
                        None => self.reclaim_region()?,
                    }
                }
            }
        }
    }

    /// Takes a region away that is too small; the next one is larger than it must be.
    fn outgrow(&self, node: &Arc<Node>, length: u64) -> Result<()> {
        let _alone = alone(node);
        if node
            .lock()
            .region
            .is_some_and(|region| length <= region.capacity())
        {
            return Ok(()); // another thread has
        }
        self.make_safe(node)?;
        if let Some(region) = node.begin_move() {
            self.vacate(region);
        }
        let generous = (length + length / 2).min(FILE_BYTES_MAX);
        self.files.take_region(node, generous);
        node.end_move();
        Ok(())
    }

    /// Takes the region of a file that was not used for long.
    fn reclaim_region(&self) -> Result<()> {
        for _ in 0..REUSE_ATTEMPTS {
            let Some(victim) = self.files.offer() else {
                break;
            };
            let Some(_alone) = victim.data.try_write() else {
                continue;
            };
            if self.make_safe(&victim).is_ok()
                && let Some(region) = victim.take_region()
            {
                self.vacate(region);
                return Ok(());
            }
        }
        Err(Error::TryLater)
    }

    /// Forgets the data of a file that is no more, or of which nothing is to be written.
    pub(super) fn bury(&self, node: &Arc<Node>) {
        let Some(_alone) = node.data.try_write() else {
            return;
        };
        let (region, writes) = node.lock().region_and_writes();
        let Some(region) = region else {
            return;
        };
        let (start, length) = (region.start(), region.length());
        self.device.discard(start, length);
        node.lock().length.committed(writes);
        let is_on_its_way =
            self.device.has_dirty(start, length) || self.device.has_unflushed(start, length);
        if !is_on_its_way && let Some(region) = node.take_region() {
            self.vacate(region);
        }
    }

    /// Lets others have a region that was taken from its file.
    fn vacate(&self, region: Region) {
        self.device.discard(region.start(), region.length());
        self.files.give_back(region);
    }
}

/// Holds a file's data alone.
pub(super) fn alone(node: &Node) -> RwLockWriteGuard<'_, ()> {
    node.data.write()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::files::Files;
    use pagewell_fs::FileId;

    /// A file with a region in which a thread reads.
    fn read_in(files: &Files) -> (Arc<Node>, Region) {
        let node = files.node(&FileId::new(b"file").unwrap());
        let region = files.region(&node, 5).unwrap();
        node.lock().readers += 1;
        (node, region)
    }

    #[test]
    fn a_region_stays_with_its_file_while_somebody_reads() {
        let files = Files::new(100, 4);
        let (node, region) = read_in(&files);
        assert_eq!(node.take_region(), None);
        assert_eq!(node.lock().region, Some(region));
        drop(Reading { node: &node });
        assert_eq!(node.take_region(), Some(region));
        // Nobody else has it before it is given back, and nobody finds the file there.
        let other = files.node(&FileId::new(b"other").unwrap());
        assert_ne!(files.region(&other, 5), Some(region));
        files.give_back(region);
        assert!(files.at(region.start(), 1).is_none());
    }

    #[test]
    fn a_move_waits_for_the_readers_and_new_readers_for_the_move() {
        let files = Files::new(100, 4);
        let (node, region) = read_in(&files);
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let mover = node.clone();
            scope.spawn(move || sender.send(mover.begin_move()));
            while !node.lock().is_moving {
                std::thread::yield_now();
            }
            assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err());
            drop(Reading { node: &node });
            let taken = receiver.recv_timeout(Duration::from_secs(60));
            assert_eq!(taken, Ok(Some(region)));
        });
        assert!(node.lock().is_moving);
        node.end_move();
        assert!(!node.lock().is_moving);
    }
}
