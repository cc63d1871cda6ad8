//! Directory entries as the kernel gives them, and listings that stand between two of them.
//!
//! Normally the kernel's `d_off` is the cookie. Some file systems give none that can be kept; they
//! are known by type, or recognised when the export is opened or when they first do so. Their
//! directories are given in an order of our own (`ordered`).

use super::kept_names::{Gathered, Names};
use super::object::{Descriptor, open_directory};
use super::ordered::{SMALL_BYTES_MAX, Window};
use super::status::{Node, Status};
use super::{error_of, system};
use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Result, Timestamp};
use rustix::fs::SeekFrom;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// What one getdents64 may return: some 500 names, about what a page of 64 KiB with attributes
/// holds.
const BUFFER_BYTES: usize = 16 * 1024;
/// Timer ticks of the slowest kernels are 10 ms apart.
const SETTLED_NANOSECONDS: i128 = 20_000_000;
/// The same of file systems with times of whole seconds (ext3, ext4 with small inodes), or of even
/// ones (FAT).
const COARSE_SETTLED_NANOSECONDS: i128 = 2_000_000_000 + SETTLED_NANOSECONDS;
/// Listings left open for callers that continue them: about 1 MiB with what was read ahead, 16 MiB
/// more if all are of file systems without positions, or of directories with thousands of names.
const LISTINGS_MAX: usize = 64;
/// Bytes of an entry before its name (`struct linux_dirent64`).
const HEADER_BYTES: usize = 19;

/// One entry as the kernel gives it.
#[derive(Clone, Copy)]
pub(super) struct RawEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: u64,
    /// Position behind the entry.
    pub(super) cookie: u64,
    /// It is a directory, or the file system does not say.
    pub(super) may_be_directory: bool,
}

impl RawEntry<'_> {
    /// Whether it is the directory itself or its parent.
    pub(super) fn is_dots(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// Parses the entry at `at` and says where the next one begins; `None` when there is no whole one.
pub(super) fn parse(bytes: &[u8], at: usize) -> Option<(RawEntry<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let number = |from: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(
            rest.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    let length = u16::from_ne_bytes(rest.get(16..18)?.try_into().ok()?);
    let kind = *rest.get(18)?;
    let name = rest.get(HEADER_BYTES..usize::from(length))?;
    let name = name.split(|byte| *byte == 0).next()?;
    let entry = RawEntry {
        name,
        inode: number(0)?,
        cookie: number(8)?,
        may_be_directory: kind == libc::DT_DIR || kind == libc::DT_UNKNOWN,
    };
    Some((entry, at + usize::from(length)))
}

/// All whole entries, each with where the next one begins.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = (RawEntry<'_>, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let parsed = parse(bytes, at)?;
        at = parsed.1;
        Some(parsed)
    })
}

/// Appends an entry in the kernel's own shape, without its padding.
pub(super) fn append(bytes: &mut Vec<u8>, entry: &RawEntry<'_>) {
    let length = HEADER_BYTES + entry.name.len() + 1;
    bytes.extend(entry.inode.to_ne_bytes());
    bytes.extend(entry.cookie.to_ne_bytes());
    bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    let kind = if entry.may_be_directory {
        libc::DT_UNKNOWN
    } else {
        libc::DT_REG
    };
    bytes.push(kind);
    bytes.extend(entry.name);
    bytes.push(0);
}

/// All entries of an open directory from where it stands, until `visit` returns false.
pub(super) fn each_entry(
    directory: BorrowedFd<'_>,
    visit: &mut dyn FnMut(&RawEntry<'_>) -> bool,
) -> Result<()> {
    let mut bytes = Vec::with_capacity(BUFFER_BYTES);
    while system::read_entries(directory, &mut bytes).map_err(error_of)? {
        if !entries(&bytes).all(|(entry, _)| visit(&entry)) {
            return Ok(());
        }
        bytes.clear();
    }
    Ok(())
}

/// Whether the kernel's positions in this chunk can be cookies: none is 0, no two neighbours have
/// the same.
fn cookies_are_sound(bytes: &[u8]) -> bool {
    let mut previous = 0;
    entries(bytes).all(|(entry, _)| {
        let before = std::mem::replace(&mut previous, entry.cookie);
        entry.cookie != 0 && entry.cookie != before
    })
}

/// Whether the file system of a directory gives positions that can be cookies.
pub(super) fn gives_cookies(directory: BorrowedFd<'_>) -> Result<bool> {
    let opened = open_directory(directory)?;
    let mut bytes = Vec::with_capacity(BUFFER_BYTES);
    system::read_entries(opened.as_fd(), &mut bytes).map_err(error_of)?;
    Ok(cookies_are_sound(&bytes))
}

/// Where a listing goes on.
enum Source {
    /// Where the kernel's position is.
    File(Descriptor),
    /// At the entry of this number.
    Ordered(Arc<Window>, usize),
    /// At this byte.
    Kept(Arc<Names>, usize),
}

/// What more there is of a listing.
pub(super) enum Filled {
    /// Entries.
    Entries,
    /// Entries whose positions cannot be cookies.
    Unsound,
    /// Nothing here: another window is wanted, of what comes behind this cookie.
    Further(u64),
    /// Nothing.
    End,
}

/// A directory open for listing, standing behind an entry, with what was read ahead.
pub(super) struct Listing {
    source: Source,
    /// Of the last entry taken; 0 at the start.
    pub(super) cookie: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
    /// Times of the directory when `bytes` was read; `None`: not to be used later.
    read_when: Option<(Timestamp, Timestamp)>,
    /// All that was read from the first name on, if it may be kept.
    pub(super) gathered: Option<Gathered>,
}

impl Listing {
    fn new(source: Source, cookie: u64) -> Self {
        Self {
            source,
            cookie,
            bytes: Vec::new(),
            at: 0,
            read_when: None,
            gathered: None,
        }
    }

    /// Opens a directory behind the entry of `cookie`, with the identity of the thread.
    pub(super) fn open(directory: BorrowedFd<'_>, cookie: u64) -> Result<Self> {
        let file = open_directory(directory)?;
        if cookie != 0 {
            Error::BadCookie.when(i64::try_from(cookie).is_err())?;
            rustix::fs::seek(&file, SeekFrom::Start(cookie)).map_err(|_| Error::BadCookie)?;
        }
        let mut listing = Self::new(Source::File(Descriptor::new(file)), cookie);
        listing.bytes.reserve_exact(BUFFER_BYTES);
        Ok(listing)
    }

    /// The entries of a window behind that of `cookie`.
    pub(super) fn of_window(window: Arc<Window>, cookie: u64) -> Self {
        let next = window.behind(cookie);
        Self::new(Source::Ordered(window, next), cookie)
    }

    /// What is behind the entry of `cookie`, of names that were kept.
    pub(super) fn of_names(names: Arc<Names>, cookie: u64) -> Option<Self> {
        let at = names.behind(cookie)?;
        Some(Self::new(Source::Kept(names, at), cookie))
    }

    /// Reads more when everything was taken.
    pub(super) fn fill(&mut self) -> Result<Filled> {
        if self.at < self.bytes.len() {
            return Ok(Filled::Entries);
        }
        self.bytes.clear();
        self.at = 0;
        match &mut self.source {
            Source::File(file) => {
                let file = file.file().as_fd();
                if !system::read_entries(file, &mut self.bytes).map_err(error_of)? {
                    return Ok(Filled::End);
                }
                let read = &self.bytes;
                self.gathered = self.gathered.take_if(|all| all.add(read));
                Ok(if cookies_are_sound(&self.bytes) {
                    Filled::Entries
                } else {
                    Filled::Unsound
                })
            }
            Source::Kept(names, next) => {
                let then = names.copy(*next, BUFFER_BYTES, &mut self.bytes);
                *next = then.unwrap_or(*next);
                Ok(then.map_or(Filled::End, |_| Filled::Entries))
            }
            Source::Ordered(window, next) => {
                if let Some(then) = window.copy(*next, BUFFER_BYTES, &mut self.bytes) {
                    *next = then;
                    return Ok(Filled::Entries);
                }
                let further = window.further();
                Ok(further.map_or(Filled::End, |from| Filled::Further(from.max(self.cookie))))
            }
        }
    }

    /// Whether it is of names that were kept.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.source, Source::Kept(..))
    }

    /// Whether what was read ahead is still what the directory holds.
    pub(super) fn is_current(&self, status: &Status) -> bool {
        let times = times_of(status);
        match &self.source {
            Source::File(_) => self.at >= self.bytes.len() || self.read_when == Some(times),
            Source::Ordered(window, _) => window.is_current(times),
            Source::Kept(..) => false,
        }
    }

    /// Notes what the directory looked like before and after `bytes` was read.
    pub(super) fn note_times(&mut self, before: &Status, after: &Status) {
        self.read_when = settled_times(before, after);
    }

    /// Whether it is small enough to be left for a caller that continues it, and not kept anyway.
    fn may_be_left(&self) -> bool {
        match &self.source {
            Source::File(_) => true,
            Source::Ordered(window, _) => window.bytes() <= SMALL_BYTES_MAX,
            Source::Kept(..) => false,
        }
    }
}

pub(super) fn times_of(status: &Status) -> (Timestamp, Timestamp) {
    (status.attributes.modified, status.attributes.changed)
}

/// The times of a directory that was the same before and after it was read, and had been for
/// longer than the grain of its times.
pub(super) fn settled_times(before: &Status, after: &Status) -> Option<(Timestamp, Timestamp)> {
    let times = times_of(before);
    (is_settled(times, Timestamp::now()) && times == times_of(after)).then_some(times)
}

/// Whether a change now would move these times of an object. A time of a whole second may be one
/// of a file system that has no others.
pub(super) fn is_settled((modified, changed): (Timestamp, Timestamp), now: Timestamp) -> bool {
    let is_coarse = modified.nanoseconds == 0 || changed.nanoseconds == 0;
    let grain = if is_coarse {
        COARSE_SETTLED_NANOSECONDS
    } else {
        SETTLED_NANOSECONDS
    };
    nanoseconds(now) - nanoseconds(changed) > grain
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// Listings that wait to be continued, oldest first.
#[derive(Default)]
pub(super) struct Listings(Mutex<VecDeque<(Node, Listing)>>);

impl Listings {
    /// Takes the listing of a directory that stands behind the entry of `cookie`.
    pub(super) fn take(&self, node: Node, cookie: u64) -> Option<Listing> {
        let mut waiting = self.0.lock();
        let found = waiting
            .iter()
            .position(|(at, listing)| *at == node && listing.cookie == cookie)?;
        waiting.remove(found).map(|(_, listing)| listing)
    }

    /// Leaves a listing there; the oldest goes when there are too many.
    pub(super) fn leave(&self, node: Node, listing: Listing) {
        if !listing.may_be_left() {
            return;
        }
        let mut waiting = self.0.lock();
        waiting.push_back((node, listing));
        let oldest = (waiting.len() > LISTINGS_MAX).then(|| waiting.pop_front());
        drop(waiting);
        drop(oldest);
    }

    /// Closes all listings.
    pub(super) fn forget_all(&self) {
        self.0.lock().clear();
    }

    /// Closes the listings of directories that are gone.
    pub(super) fn forget(&self, node: Node) {
        self.0.lock().retain(|(at, _)| *at != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(cookies: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for cookie in cookies {
            append(
                &mut bytes,
                &RawEntry {
                    name: b"name",
                    inode: 7,
                    cookie: *cookie,
                    may_be_directory: false,
                },
            );
        }
        bytes
    }

    #[test]
    fn entries_are_parsed_and_cut_ones_are_not() {
        let bytes = chunk(&[5, 6]);
        let (first, next) = parse(&bytes, 0).unwrap();
        assert_eq!(
            (first.name, first.inode, first.cookie),
            (&b"name"[..], 7, 5)
        );
        let (second, end) = parse(&bytes, next).unwrap();
        assert_eq!((second.cookie, end), (6, bytes.len()));
        for cut in next..bytes.len() {
            assert!(parse(&bytes[..cut], next).is_none(), "{cut}");
        }
        // a length that does not even cover the header ends the chunk
        let mut bad = chunk(&[5]);
        bad[16..18].copy_from_slice(&3u16.to_ne_bytes());
        assert!(parse(&bad, 0).is_none());
    }

    #[test]
    fn times_of_whole_seconds_prove_nothing_within_their_second() {
        let at = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        let fine = (at(100, 5), at(100, 900_000_000));
        assert!(!is_settled(fine, at(100, 915_000_000)));
        assert!(is_settled(fine, at(100, 925_000_000)));
        let coarse = (at(100, 0), at(100, 0));
        assert!(!is_settled(coarse, at(100, 999_999_999)));
        assert!(!is_settled(coarse, at(101, 999_999_999)));
        assert!(is_settled(coarse, at(102, 30_000_000)));
        // one of the two has only whole seconds
        assert!(!is_settled((at(100, 0), at(101, 500_000_000)), at(102, 0)));
        // the clock was set back
        assert!(!is_settled(fine, at(99, 0)));
    }

    #[test]
    fn cookies_must_differ_and_not_be_zero() {
        assert!(cookies_are_sound(&chunk(&[3, 9, 4])));
        assert!(!cookies_are_sound(&chunk(&[3, 0])));
        assert!(!cookies_are_sound(&chunk(&[3, 3])));
        assert!(cookies_are_sound(&[]));
    }
}
