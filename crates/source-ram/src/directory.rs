//! The names in one directory.
//!
//! Problem: clients read a listing in pieces and remember only the cookie of the last entry, while
//! others add and remove names. Rule: the cookie of each name is the next number of a counter; a
//! map ordered by cookie gives the rest of a listing, a hash map finds names. So no entry is listed
//! twice and none that stays is missed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Cookie of `.`.
pub(super) const COOKIE_SELF: u64 = 1;
/// Cookie of `..`.
pub(super) const COOKIE_PARENT: u64 = 2;

#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) cookie: u64,
    pub(super) name: Arc<[u8]>,
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) struct Directory {
    /// Inode number of the parent; of itself in the root.
    pub(super) parent: u64,
    entries: BTreeMap<u64, (Arc<[u8]>, u64)>,
    cookies: HashMap<Arc<[u8]>, u64>,
    next_cookie: u64,
    name_bytes: u64,
}

impl Directory {
    pub(super) fn new(parent: u64) -> Self {
        Self {
            parent,
            entries: BTreeMap::new(),
            cookies: HashMap::new(),
            next_cookie: COOKIE_PARENT + 1,
            name_bytes: 0,
        }
    }

    /// A size that grows with the names: what ext4 would take for them.
    pub(super) fn size(&self) -> u64 {
        (self.name_bytes + 12 * (self.entries.len() as u64 + 2)).next_multiple_of(4096)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u64> {
        let cookie = self.cookies.get(name)?;
        self.entries.get(cookie).map(|(_, number)| *number)
    }

    /// Adds a name, or makes an existing one mean another object.
    pub(super) fn insert(&mut self, name: &[u8], number: u64) {
        let place = self.cookies.get(name);
        if let Some((_, old)) = place.and_then(|cookie| self.entries.get_mut(cookie)) {
            *old = number;
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.name_bytes += name.len() as u64;
        self.cookies.insert(name.clone(), self.next_cookie);
        self.entries.insert(self.next_cookie, (name, number));
        self.next_cookie += 1;
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
            self.name_bytes -= name.len() as u64;
            self.entries.remove(&cookie);
            // The charge of the name goes, so its memory must not stay.
            if self.cookies.len() <= self.cookies.capacity() / 8 {
                self.cookies.shrink_to_fit();
            }
        }
    }

    /// At most `count` entries after a cookie, without `.` and `..`.
    pub(super) fn after(&self, cookie: u64, count: usize) -> Vec<Named> {
        self.entries
            .range((Bound::Excluded(cookie), Bound::Unbounded))
            .take(count)
            .map(|(cookie, (name, number))| Named {
                cookie: *cookie,
                name: name.clone(),
                number: *number,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_never_given_twice() {
        let mut directory = Directory::new(1);
        directory.insert(b"a", 10);
        directory.insert(b"b", 11);
        let first = directory.after(0, 10);
        assert!(first.iter().all(|entry| entry.cookie > COOKIE_PARENT));
        directory.remove(b"a");
        directory.insert(b"a", 12);
        directory.insert(b"b", 13);
        let again = directory.after(first[1].cookie, 10);
        assert_eq!(again.len(), 1);
        assert_eq!((&*again[0].name, again[0].number), (&b"a"[..], 12));
        assert_eq!(directory.find(b"b"), Some(13));
        assert_eq!(directory.after(0, 1)[0].cookie, first[1].cookie);
        assert!(directory.after(u64::MAX, 10).is_empty());
    }

    #[test]
    fn memory_goes_with_the_names() {
        let mut directory = Directory::new(1);
        let name = |number: u64| number.to_ne_bytes();
        (0..100_000).for_each(|number| directory.insert(&name(number), number));
        (1..100_000).for_each(|number| directory.remove(&name(number)));
        assert!(directory.cookies.capacity() < 1000);
        assert_eq!(directory.find(&name(0)), Some(0));
        directory.remove(&name(0));
        assert_eq!(directory.cookies.capacity(), 0);
    }

    #[test]
    fn the_size_follows_the_names() {
        let mut directory = Directory::new(1);
        assert_eq!(directory.size(), 4096);
        (0..100).for_each(|number: u64| directory.insert(format!("{number:0100}").as_bytes(), 1));
        assert_eq!(directory.size(), 12_288);
        (0..100).for_each(|number: u64| directory.remove(format!("{number:0100}").as_bytes()));
        assert!(directory.is_empty());
        assert_eq!(directory.size(), 4096);
    }
}
