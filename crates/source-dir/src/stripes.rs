//! Locks by inode, a fixed number of them for all inodes.

use super::status::Node;
use pagewell_base::sync::{Mutex, MutexGuard};

/// Two of 64 threads in different directories seldom meet in one of so many.
const STRIPES: usize = 256;

/// The locks.
pub(super) struct Stripes(Vec<Mutex<()>>);

impl Stripes {
    pub(super) fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::default()).collect())
    }

    #[allow(clippy::cast_possible_truncation)] // only the low bits count
    fn index(node: Node) -> usize {
        (node.inode ^ node.inode >> 8 ^ node.device) as usize % STRIPES
    }

    /// Locks out other changes of this inode.
    pub(super) fn lock(&self, node: Node) -> MutexGuard<'_, ()> {
        self.0[Self::index(node)].lock()
    }

    /// Locks out other changes of both inodes, in an order that cannot deadlock.
    pub(super) fn lock_both(
        &self,
        one: Node,
        other: Node,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (one, other) = (Self::index(one), Self::index(other));
        let (low, high) = (one.min(other), one.max(other));
        let first = self.0[low].lock();
        let second = (low != high).then(|| self.0[high].lock());
        (first, second)
    }
}
