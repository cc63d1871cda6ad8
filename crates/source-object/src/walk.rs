//! A program on its way through a directory: which files will it read next?
//!
//! **Problem.** A small file costs one reply of the store, so a copy of 10,000 of them from 50 ms
//! away takes eight minutes on a line that is nearly idle.
//!
//! **Rule.** Programs read files in the order of the listing. From the third such file on
//! [`WINDOW_MIN`] names behind it are fetched, and twice as many ahead each time that half of them
//! were read, up to [`WINDOW_MAX`]:
//!
//! ```text
//!   listing   a  b  c  d  e  f  g  h  i  j  k  l ...
//!   read      *  *  *              *
//!   fetched            [4 names ]  [6 names, 8 ahead]
//! ```
//!
//! Up to [`SKIPPED_MAX`] names may be left out; more, or a way back, is another walk.
//!
//! Weaknesses: two programs in one directory disturb each other's walk. A program that reads three
//! neighbours and stops has four fetched for nothing.

use super::listing::{Item, Listing, Place};

const READ_MIN: u32 = 3;
const WINDOW_MIN: usize = 4;
const WINDOW_MAX: usize = 64;
const SKIPPED_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Walk {
    last: Option<u64>,
    read: u32,
    /// Names behind the last file that were fetched.
    ahead: usize,
    window: usize,
}

impl Walk {
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// A file is read. Returns what to fetch.
    pub(super) fn read(&mut self, listing: &Listing, file: &Item) -> Vec<Item> {
        let before = self.last.replace(file.cookie);
        if before == Some(file.cookie) {
            return Vec::new();
        }
        let names = before.map_or_else(Vec::new, |last| behind(listing, last, SKIPPED_MAX + 1));
        let Some(at) = names.iter().position(|item| item.cookie == file.cookie) else {
            *self = Self {
                last: self.last,
                read: 1,
                ..Self::default()
            };
            return Vec::new();
        };
        self.read = self.read.saturating_add(1);
        self.ahead = self.ahead.saturating_sub(at + 1);
        if self.read < READ_MIN || self.ahead > self.window / 2 {
            return Vec::new();
        }
        self.window = (2 * self.window).clamp(WINDOW_MIN, WINDOW_MAX);
        let mut names = behind(listing, file.cookie, self.window);
        let new = names.split_off(self.ahead.min(names.len()));
        self.ahead += new.len();
        new
    }
}

/// Up to `count` names behind this cookie, as far as memory has them.
fn behind(listing: &Listing, mut cookie: u64, count: usize) -> Vec<Item> {
    let mut names: Vec<Item> = Vec::new();
    while names.len() < count
        && let Place::At(page, at) = listing.place_after(cookie)
        && let Some(items) = page.items.get(at..)
        && let Some(last) = items.last()
    {
        cookie = last.cookie;
        names.extend(items.iter().take(count - names.len()).cloned());
    }
    names
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pagewell_object_client::{ListPage, ListedObject, Version};

    use super::*;

    /// Of pages that end before these names.
    fn listing(ends: &[u32]) -> Listing {
        let mut listing = Listing::new(Instant::now());
        let mut begin = 0;
        for (number, end) in ends.iter().enumerate() {
            let objects = (begin..*end).map(|name| ListedObject {
                key: format!("{name:04}"),
                version: Version {
                    etag: Some("\"1\"".to_owned()),
                    length_bytes: 10,
                    last_modified: None,
                },
            });
            begin = *end;
            let next = number + 1 < ends.len();
            let page = ListPage {
                objects: objects.collect(),
                next: next.then(|| format!("page {number}")),
                ..ListPage::default()
            };
            listing.add("", page);
        }
        listing
    }

    fn read(walk: &mut Walk, listing: &Listing, name: u32) -> Vec<String> {
        let file = listing.find(format!("{name:04}").as_bytes()).unwrap();
        let names = walk.read(listing, &file).into_iter();
        names.map(|item| item.key("")).collect()
    }

    fn names(range: std::ops::Range<u32>) -> Vec<String> {
        range.map(|name| format!("{name:04}")).collect()
    }

    #[test]
    fn files_behind_the_third_in_order_are_fetched_once_each() {
        let listing = listing(&[100, 300]);
        let mut walk = Walk::default();
        assert_eq!(read(&mut walk, &listing, 5), names(0..0));
        assert_eq!(read(&mut walk, &listing, 6), names(0..0));
        assert_eq!(read(&mut walk, &listing, 7), names(8..12));
        assert!(walk.is_ahead());
        let mut fetched = names(8..12);
        for name in 8..300 {
            fetched.extend(read(&mut walk, &listing, name));
            let ahead = fetched.len() as u32 + 8;
            assert!(ahead > name && ahead <= name + 1 + WINDOW_MAX as u32);
        }
        assert_eq!(fetched, names(8..300));
        assert!(!walk.is_ahead());
    }

    #[test]
    fn names_may_be_left_out_and_a_jump_begins_anew() {
        let listing = listing(&[1000]);
        let mut walk = Walk::default();
        for name in [0, 9] {
            assert_eq!(read(&mut walk, &listing, name), names(0..0));
        }
        assert_eq!(read(&mut walk, &listing, 18), names(19..23));
        // Ten further on, and back, are no walk.
        assert_eq!(read(&mut walk, &listing, 28), names(0..0));
        assert!(!walk.is_ahead());
        for name in [27, 26, 25, 24] {
            assert_eq!(read(&mut walk, &listing, name), names(0..0));
        }
        // The same once more changes nothing.
        assert_eq!(read(&mut walk, &listing, 25), names(0..0));
        assert_eq!(read(&mut walk, &listing, 25), names(0..0));
        assert_eq!(read(&mut walk, &listing, 26), names(27..31));
    }

    #[test]
    fn reads_at_random_fetch_nothing() {
        let listing = listing(&[1000]);
        let mut walk = Walk::default();
        for step in 0..500 {
            assert_eq!(read(&mut walk, &listing, step * 337 % 1000), names(0..0));
        }
    }
}
