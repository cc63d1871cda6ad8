//! Who has mounted what (RFC 1813 appendix I, MOUNTPROC3_DUMP): for people to look at only.
//!
//! Clients that crash never unmount, so the list is bounded and the oldest goes first.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries kept.
const MOUNTS_MAX: usize = 1024;

/// The list.
#[derive(Default)]
pub struct Mounts {
    entries: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
}

impl Mounts {
    /// Notes a mount.
    pub fn add(&self, peer: IpAddr, path: &[u8]) {
        let mut entries = self.lock();
        if entries
            .iter()
            .any(|(address, name)| *address == peer && name == path)
        {
            return;
        }
        if entries.len() == MOUNTS_MAX {
            entries.pop_front();
        }
        entries.push_back((peer, path.to_owned()));
    }

    /// Forgets one mount of `peer`, or all of them.
    pub fn remove(&self, peer: IpAddr, path: Option<&[u8]>) {
        self.lock()
            .retain(|(address, name)| *address != peer || path.is_some_and(|path| path != name));
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> Vec<(IpAddr, Vec<u8>)> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(IpAddr, Vec<u8>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_entries_go() {
        let mounts = Mounts::default();
        let peer = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..2000 {
            mounts.add(peer(number), b"/a");
        }
        assert_eq!(mounts.list().len(), MOUNTS_MAX);
        mounts.add(peer(1999), b"/a");
        mounts.add(peer(1999), b"/b");
        mounts.remove(peer(1999), Some(b"/a"));
        assert_eq!(mounts.list().last(), Some(&(peer(1999), b"/b".to_vec())));
        mounts.remove(peer(1999), None);
        assert_eq!(mounts.list().len(), MOUNTS_MAX - 2);
    }
}
