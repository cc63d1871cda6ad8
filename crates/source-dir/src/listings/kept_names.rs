//! Names of directories, kept while the kernel reports no change.
//!
//! With all attributes remembered, reading the names is nearly half of a listing: ext4 hashes and
//! sorts them anew. A complete listing keeps its names. The kernel reports each change of a name by
//! the handle of its directory ([`super::watch`]), which drops the names, and the [`Ticket`] of
//! listings that began before. Times are no proof: two changes may have the same.
//!
//! Not kept: names of encrypted directories, which change with the key without a report, and of
//! large ones ([`NAMES_BYTES_MAX`]).

use crate::entries::{entries, parse};
use pagewell_base::clock::Clock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Age of what is remembered.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// In one directory: some 7,000 names.
pub(super) const NAMES_BYTES_MAX: usize = 256 << 10;
/// In all directories.
const ALL_BYTES_MAX: usize = 8 << 20;
/// Directories, also of unfinished listings.
const DIRECTORIES_MAX: usize = 8 << 10;

pub(super) struct NameList(Vec<u8>);

impl NameList {
    /// Appends entries from `at` on that fit into `most` bytes, at least one, and returns the start
    /// of the next; `None` at the end.
    pub(super) fn copy(&self, at: usize, most: usize, bytes: &mut Vec<u8>) -> Option<usize> {
        let mut end = at;
        while let Some((_, next)) = parse(&self.0, end)
            && (end == at || next - at <= most)
        {
            end = next;
        }
        let entries = self.0.get(at..end).filter(|entries| !entries.is_empty())?;
        bytes.extend_from_slice(entries);
        Some(end)
    }

    /// `None` without an entry of `cookie`.
    pub(super) fn behind(&self, cookie: u64) -> Option<usize> {
        if cookie == 0 {
            return Some(0);
        }
        let found = entries(&self.0).find(|(entry, _)| entry.cookie == cookie);
        found.map(|(_, next)| next)
    }
}

/// The state in which a listing began.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

pub(super) struct Gathered {
    ticket: Ticket,
    bytes: Vec<u8>,
}

impl Gathered {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self {
            ticket,
            bytes: Vec::new(),
        }
    }

    /// False when the entries are too many to keep.
    pub(super) fn add(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= NAMES_BYTES_MAX
    }
}

struct Kept {
    ticket: Ticket,
    since: Instant,
    names: Option<Arc<NameList>>,
}

pub(super) fn is_young(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < KEPT_FOR
}

#[derive(Default)]
pub(super) struct KeptNames {
    /// Weighed by the bytes of names.
    directories: Clock<u64, Kept>,
    tickets: u64,
}

impl KeptNames {
    pub(super) fn get(&self, directory: u64, now: Instant) -> Option<Arc<NameList>> {
        let kept = self.directories.peek(&directory)?;
        kept.names.clone().filter(|_| is_young(kept.since, now))
    }

    /// After the queue of changes was drained. Concurrent listings share a ticket: nothing has
    /// changed since.
    pub(super) fn begin(&mut self, directory: u64, now: Instant) -> Ticket {
        if let Some(kept) = self.directories.peek(&directory)
            && is_young(kept.since, now)
        {
            return kept.ticket;
        }
        if self.directories.len() >= DIRECTORIES_MAX {
            self.forget_all();
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let kept = Kept {
            ticket,
            since: now,
            names: None,
        };
        self.directories.insert(directory, kept, 0);
        ticket
    }

    /// Keeps the names if the ticket is valid.
    pub(super) fn end(&mut self, directory: u64, gathered: Gathered) {
        let length = gathered.bytes.len();
        if self.directories.weight() + length > ALL_BYTES_MAX {
            self.forget_all();
        }
        if let Some(kept) = self.directories.peek(&directory)
            && kept.ticket == gathered.ticket
            && kept.names.is_none()
        {
            let names = Some(Arc::new(NameList(gathered.bytes)));
            let kept = Kept { names, ..*kept };
            self.directories.insert(directory, kept, length);
        }
    }

    pub(super) fn forget(&mut self, directory: u64) {
        self.directories.remove(&directory);
    }

    /// Tickets stay unique.
    pub(super) fn forget_all(&mut self) {
        self.directories = Clock::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::{RawEntry, append};

    const DIRECTORY: u64 = 12;

    fn gathered(ticket: Ticket, cookies: &[u64]) -> Gathered {
        let mut gathered = Gathered::new(ticket);
        for cookie in cookies {
            let entry = RawEntry {
                name: b"name",
                inode: 7,
                cookie: *cookie,
                may_be_directory: false,
            };
            append(&mut gathered.bytes, &entry);
        }
        gathered
    }

    #[test]
    fn names_are_found_behind_each_cookie() {
        let names = NameList(gathered(Ticket(1), &[5, 9, 7]).bytes);
        let length = names.0.len() / 3;
        assert_eq!(names.behind(0), Some(0));
        assert_eq!(names.behind(5), Some(length));
        assert_eq!(names.behind(7), Some(3 * length));
        assert_eq!(names.behind(8), None);
    }

    #[test]
    fn names_come_in_pieces_of_whole_entries() {
        let names = NameList(gathered(Ticket(1), &[5, 9, 7]).bytes);
        let length = names.0.len() / 3;
        let mut bytes = Vec::new();
        assert_eq!(names.copy(0, 1, &mut bytes), Some(length), "at least one");
        let then = names.copy(length, 2 * length, &mut bytes);
        assert_eq!(then, Some(3 * length));
        assert!(bytes == names.0);
        assert_eq!(names.copy(3 * length, 100, &mut bytes), None);
    }

    #[test]
    fn a_listing_keeps_nothing_when_the_directory_has_changed_since_it_began() {
        let (now, mut all) = (Instant::now(), KeptNames::default());
        let first = all.begin(DIRECTORY, now);
        assert!(first == all.begin(DIRECTORY, now), "shared");
        all.forget(DIRECTORY);
        all.end(DIRECTORY, gathered(first, &[1]));
        assert!(all.get(DIRECTORY, now).is_none());
        let second = all.begin(DIRECTORY, now);
        all.end(DIRECTORY, gathered(first, &[1]));
        assert!(all.get(DIRECTORY, now).is_none());
        all.end(DIRECTORY, gathered(second, &[1, 2]));
        let names = all.get(DIRECTORY, now).unwrap();
        assert_eq!(names.behind(2), Some(all.directories.weight()));
        all.forget(DIRECTORY);
        assert_eq!(all.directories.weight(), 0);
    }

    #[test]
    fn what_is_old_is_neither_given_nor_shared() {
        let (now, mut all) = (Instant::now(), KeptNames::default());
        let first = all.begin(DIRECTORY, now);
        all.end(DIRECTORY, gathered(first, &[1]));
        let later = now + KEPT_FOR;
        assert!(all.get(DIRECTORY, now).is_some());
        assert!(all.get(DIRECTORY, later).is_none());
        assert!(first != all.begin(DIRECTORY, later));
        assert!(all.get(DIRECTORY, later).is_none(), "not yet");
        assert_eq!(all.directories.weight(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let (now, mut all) = (Instant::now(), KeptNames::default());
        for number in 0..100u8 {
            let directory = u64::from(number);
            let mut gathered = Gathered::new(all.begin(directory, now));
            assert!(gathered.add(&vec![0; NAMES_BYTES_MAX]));
            assert!(!Gathered::new(gathered.ticket).add(&vec![0; NAMES_BYTES_MAX + 1]));
            all.end(directory, gathered);
            assert!(all.directories.weight() <= ALL_BYTES_MAX);
        }
        assert!(all.directories.weight() > 0);
    }
}
