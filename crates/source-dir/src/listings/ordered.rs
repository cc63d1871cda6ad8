//! Directories in an order of our own, where the file system has no lasting positions.
//!
//! tmpfs restarts a listing when the entry at the position was removed, ramfs and overlay count
//! entries, others return 0, or equal positions for neighbours. Here the order is that of a hash of
//! the names, which is the cookie. A *window* holds all entries between two hashes: usually the
//! whole directory, at most [`WINDOW_BYTES_MAX`].
//!
//! ```text
//!   the kernel's order:   names  c a f b e d          bytes, as they came
//!   window:               order  a b c d e f          (cookie, where in names), 16 bytes each
//!                                  ^ a page begins behind its cookie: a binary search
//! ```
//!
//! One thread at a time makes a large window for an export; up to [`WAITING_MAX`] others wait for
//! it and share it, until the directory changes or another window needs the memory.
//!
//! Weakness: a directory that changes all the time is read anew for each page, a larger one for
//! each window.

use crate::entries::{RawEntry, append, each_entry, parse};
use crate::object::{Node, Status, settled_times, times_of};
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, OpenFile, Result, Timestamp};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of one window: some 200,000 names.
const WINDOW_BYTES_MAX: usize = 12 << 20;
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Made without a turn, and kept by its listing: some 4,000 names.
pub(super) const SMALL_BYTES_MAX: usize = 256 << 10;
const WAITING_MAX: usize = 8;
const PLACE_BYTES: usize = 16;
/// Names with equal hashes take the next free numbers: bounds the distance of a cookie from its
/// hash.
const MARGIN: u64 = 1024;

pub(super) struct Window {
    /// Entries in the kernel's layout.
    names: Vec<u8>,
    /// Cookie and offset in `names`; ascending.
    order: Vec<(u64, u32)>,
    /// Cookies from here on are complete.
    from: u64,
    /// Hashes from here on are missing.
    to: Option<u64>,
    /// Times of the directory while it was read; `None`: it was changing.
    read_when: Option<(Timestamp, Timestamp)>,
}

impl Window {
    /// The entries behind `cookie`; `None` when they exceed `bytes_max` and must not be cut.
    fn read(
        opened: &OpenFile,
        cookie: u64,
        (bytes_max, may_cut): (usize, bool),
    ) -> Result<Option<Self>> {
        let mut window = Self {
            names: Vec::new(),
            order: Vec::new(),
            from: 0,
            to: None,
            read_when: None,
        };
        let mut fits = true;
        each_entry(opened.as_fd(), &mut |entry| {
            window.take(entry);
            if window.bytes() > bytes_max {
                fits = may_cut && window.cut(cookie, bytes_max);
            }
            fits
        })?;
        if !fits && may_cut {
            // So many names with nearly one hash do not occur.
            return Err(Error::Io("directory cannot be put in order".to_owned()));
        }
        window.finish();
        Ok(fits.then_some(window))
    }

    pub(super) fn bytes(&self) -> usize {
        self.names.len() + self.order.len() * PLACE_BYTES
    }

    fn take(&mut self, entry: &RawEntry<'_>) {
        let hash = hash(entry.name);
        let Ok(at) = u32::try_from(self.names.len()) else {
            return;
        };
        if hash >= self.from && self.to.is_none_or(|to| hash < to) {
            self.order.push((hash, at));
            append(&mut self.names, entry);
        }
    }

    /// Drops the entries before `cookie`, then the half with the largest hashes. False if that is
    /// not enough.
    fn cut(&mut self, cookie: u64, bytes_max: usize) -> bool {
        self.from = self.from.max(cookie.saturating_sub(MARGIN));
        let from = self.from;
        self.order.retain(|(hash, _)| *hash >= from);
        self.pack();
        if self.bytes() <= bytes_max / 2 {
            return true;
        }
        let middle = self.order.len() / 2;
        let (_, (to, _), _) = self.order.select_nth_unstable(middle);
        let to = *to;
        self.order.retain(|(hash, _)| *hash < to);
        self.to = Some(to);
        self.pack();
        self.bytes() < bytes_max && !self.order.is_empty()
    }

    fn pack(&mut self) {
        let mut names = Vec::new();
        self.order.sort_unstable_by_key(|(_, at)| *at);
        for (_, at) in &mut self.order {
            if let Some((entry, _)) = parse(&self.names, *at as usize) {
                // Offsets only get smaller.
                *at = u32::try_from(names.len()).unwrap_or(u32::MAX);
                append(&mut names, &entry);
            }
        }
        self.names = names;
    }

    fn finish(&mut self) {
        let names = &self.names;
        let name = |at: u32| parse(names, at as usize).map(|(entry, _)| entry.name);
        self.order.sort_unstable_by(|one, other| {
            let by_hash = one.0.cmp(&other.0);
            by_hash.then_with(|| name(one.1).cmp(&name(other.1)))
        });
        let mut last = 0;
        for (cookie, _) in &mut self.order {
            last = (*cookie).max(last + 1); // equal hashes: the next free number
            *cookie = last;
        }
        self.names.shrink_to_fit();
        self.order.shrink_to_fit();
        if self.from > 0 {
            self.from += MARGIN;
        }
    }

    fn covers(&self, cookie: u64) -> bool {
        cookie >= self.from && self.to.is_none_or(|to| cookie < to)
    }

    pub(super) fn behind(&self, cookie: u64) -> usize {
        self.order.partition_point(|(of, _)| *of <= cookie)
    }

    /// Appends about `bytes_max` bytes of entries from number `first` on; returns the next number,
    /// or `None` at the end of the window.
    pub(super) fn copy(
        &self,
        first: usize,
        bytes_max: usize,
        bytes: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut next = first;
        for (cookie, at) in self.order.get(first..)? {
            if bytes.len() >= bytes_max {
                return Some(next);
            }
            if let Some((entry, _)) = parse(&self.names, *at as usize) {
                append(
                    bytes,
                    &RawEntry {
                        cookie: *cookie,
                        ..entry
                    },
                );
            }
            next += 1;
        }
        (next > first).then_some(next)
    }

    /// The cookie at which the next window begins; `None` for the last.
    pub(super) fn further(&self) -> Option<u64> {
        self.to.map(|to| to - 1)
    }

    pub(super) fn is_current(&self, times: (Timestamp, Timestamp)) -> bool {
        self.read_when == Some(times)
    }
}

/// Positive as a signed number, with room for equal hashes; stable across restarts.
fn hash(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(name);
    hasher.finish() >> 2
}

#[derive(Default)]
pub(super) struct Ordered {
    /// Held by the call that makes a window.
    turn: Mutex<()>,
    waiting: AtomicUsize,
    /// Least recently used first.
    kept: Mutex<VecDeque<(Node, Arc<Window>)>>,
}

impl Ordered {
    pub(super) fn forget_all(&self) {
        self.kept.lock().clear();
    }

    /// `look` returns the directory's status.
    pub(super) fn window(
        &self,
        open: &dyn Fn() -> Result<OpenFile>,
        node: Node,
        cookie: u64,
        look: &dyn Fn() -> Result<Status>,
    ) -> Result<Arc<Window>> {
        Error::BadCookie.when(i64::try_from(cookie).is_err())?;
        let before = look()?;
        if let Some(window) = self.kept(node, cookie, &before) {
            return Ok(window);
        }
        if let Some(mut window) = Window::read(&open()?, cookie, (SMALL_BYTES_MAX, false))? {
            window.read_when = settled_times(&before, &look()?);
            return Ok(Arc::new(window));
        }
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = (others < WAITING_MAX).then(|| self.turn.lock());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some(_turn) = turn else {
            return Err(Error::TryLater);
        };
        let before = look()?;
        if let Some(window) = self.kept(node, cookie, &before) {
            return Ok(window);
        }
        // It may have to make room for the next.
        self.evict_for(WINDOW_BYTES_MAX);
        let made = Window::read(&open()?, cookie, (WINDOW_BYTES_MAX, true))?;
        let mut window = made.ok_or_else(|| Error::Io("directory cannot be read".to_owned()))?;
        window.read_when = settled_times(&before, &look()?);
        let window = Arc::new(window);
        self.evict_for(window.bytes());
        self.kept.lock().push_back((node, window.clone()));
        Ok(window)
    }

    fn kept(&self, node: Node, cookie: u64, now: &Status) -> Option<Arc<Window>> {
        let mut kept = self.kept.lock();
        kept.retain(|(of, window)| *of != node || window.is_current(times_of(now)));
        let mut all = kept.iter();
        let found = all.position(|(of, window)| *of == node && window.covers(cookie))?;
        let entry = kept.remove(found)?;
        let window = entry.1.clone();
        kept.push_back(entry);
        Some(window)
    }

    fn evict_for(&self, bytes: usize) {
        let mut kept = self.kept.lock();
        let mut held: usize = kept.iter().map(|(_, window)| window.bytes()).sum();
        while held + bytes > KEPT_BYTES_MAX
            && let Some((_, oldest)) = kept.pop_front()
        {
            held -= oldest.bytes();
        }
    }

    pub(super) fn forget(&self, node: Node) {
        self.kept.lock().retain(|(of, _)| *of != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn names_behind(window: &Window, cookie: u64) -> Vec<(Vec<u8>, u64)> {
        let mut bytes = Vec::new();
        window.copy(window.behind(cookie), usize::MAX, &mut bytes);
        let (mut at, mut found) = (0, Vec::new());
        while let Some((entry, next)) = parse(&bytes, at) {
            found.push((entry.name.to_vec(), entry.cookie));
            at = next;
        }
        found
    }

    fn open(directory: &tempfile::TempDir) -> OpenFile {
        OpenFile::new(File::open(directory.path()).unwrap().into())
    }

    fn directory_of(count: usize) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..count {
            std::fs::write(directory.path().join(number.to_string()), b"").unwrap();
        }
        directory
    }

    #[test]
    fn ordered_listings_resume_behind_any_cookie() {
        let directory = directory_of(50);
        let names_after = |cookie| {
            let window = Window::read(&open(&directory), cookie, (SMALL_BYTES_MAX, false));
            names_behind(&window.unwrap().unwrap(), cookie)
        };
        let whole = names_after(0);
        assert_eq!(whole.len(), 52);
        std::fs::remove_file(directory.path().join("49")).unwrap();
        for (index, (_, cookie)) in whole.iter().enumerate() {
            let mut rest = whole[index + 1..].to_vec();
            rest.retain(|(name, _)| name != b"49");
            assert_eq!(names_after(*cookie), rest);
        }
    }

    /// However small the windows are, each entry comes once, and a window from any cookie on
    /// begins with the entry behind it.
    #[test]
    fn windows_of_a_directory_that_is_too_large_for_one_join_up() {
        let directory = directory_of(500);
        let all = Window::read(&open(&directory), 0, (usize::MAX, false)).unwrap();
        let all = names_behind(&all.unwrap(), 0);
        let small = |cookie| {
            let window = Window::read(&open(&directory), cookie, (4096, true));
            window.unwrap().unwrap()
        };
        assert!(
            Window::read(&open(&directory), 0, (4096, false))
                .unwrap()
                .is_none()
        );
        let (mut joined, mut cookie, mut windows) = (Vec::new(), 0, 0);
        loop {
            let window = small(cookie);
            assert!(window.bytes() <= 4096 && window.covers(cookie));
            joined.extend(names_behind(&window, cookie));
            windows += 1;
            let Some(further) = window.further() else {
                break;
            };
            let last = joined
                .last()
                .map_or(0, |(_, cookie): &(Vec<u8>, u64)| *cookie);
            cookie = last.max(further);
        }
        assert!(windows > 4, "{windows} windows");
        assert_eq!(joined, all);
        for (index, (_, cookie)) in all.iter().enumerate().step_by(37) {
            let found = names_behind(&small(*cookie), *cookie);
            assert_eq!(found.first(), all.get(index + 1));
        }
        assert_eq!(names_behind(&small(1 << 62), 1 << 62), []);
    }

    #[test]
    fn a_large_directory_is_put_in_order_once_until_it_changes() {
        let directory = directory_of(7000);
        let opened = File::open(directory.path()).unwrap();
        let status = || Status::of(&opened);
        let node = status().unwrap().node;
        let ordered = Ordered::default();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let window = |cookie| {
            let made = ordered.window(&|| Ok(open(&directory)), node, cookie, &status);
            made.unwrap()
        };
        let first = window(0);
        assert!(first.bytes() > SMALL_BYTES_MAX);
        assert!(Arc::ptr_eq(&first, &window(1 << 61)), "kept for any cookie");
        std::fs::write(directory.path().join("new"), b"").unwrap();
        let second = window(0);
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(second.order.len(), first.order.len() + 1);
        ordered.forget(node);
        assert!(!Arc::ptr_eq(&second, &window(0)));
    }

    #[test]
    fn when_many_wait_for_an_order_more_are_told_to_ask_again() {
        let directory = directory_of(7000);
        let opened = File::open(directory.path()).unwrap();
        let status = || Status::of(&opened);
        let node = status().unwrap().node;
        let ordered = Ordered::default();
        let turn = ordered.turn.lock();
        std::thread::scope(|scope| {
            let ask = || {
                ordered
                    .window(&|| Ok(open(&directory)), node, 0, &status)
                    .err()
            };
            let waiting: Vec<_> = (0..WAITING_MAX).map(|_| scope.spawn(ask)).collect();
            while ordered.waiting.load(Ordering::Relaxed) < WAITING_MAX {
                std::thread::yield_now();
            }
            assert_eq!(ask(), Some(Error::TryLater));
            drop(turn);
            for thread in waiting {
                assert_eq!(thread.join().unwrap(), None);
            }
        });
        assert_eq!(ordered.waiting.load(Ordering::Relaxed), 0);
    }
}
