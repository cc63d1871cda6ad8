//! Sends file data without a copy in user space.
//!
//! A READ reply gives its length before the data, and sendfile(2) finds the end of the file while
//! it sends. Behind the end of a truncated file zeros follow; if storage fails, the connection
//! ends, and the repeated call gets the error.
//!
//! Reader threads may only send what is in the page cache. cachestat(2) (Linux 6.5) counts pages,
//! even those that read-ahead has only requested; they arrive in order, so the last one is also
//! tried with RWF_NOWAIT. Without cachestat (it needs write permission) the first and last page are
//! tried; a missing page between costs one wait. Pool threads copy from file systems without
//! RWF_NOWAIT.
//!
//! # What was cached a moment ago
//!
//! Asking costs each READ a system call and a look at each page. So each file remembers which
//! windows were whole, and when ([`Seen`]).
//!
//! ```text
//!   first READ in a window       ask for its bytes: perhaps no other READ comes near
//!   another one soon after       ask for the whole window
//!   READs for a quarter second   ask nothing
//! ```
//!
//! Weaknesses: a change of the pages between reply and receipt shows, and a READ is not atomic. The
//! sending thread waits for a page evicted since it was seen. Windows that share a slot evict each
//! other.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pagewell_counters::names;
use pagewell_fs::OpenFile;
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
use rustix::time::{ClockId, clock_gettime};

/// The unsent part of a file's range.
pub struct FileRange {
    file: OpenFile,
    offset: u64,
    /// Unsent.
    pub length: usize,
}

impl FileRange {
    /// `length` bytes of `file` from `offset`.
    pub fn new(file: OpenFile, offset: u64, length: usize) -> Self {
        Self {
            file,
            offset,
            length,
        }
    }

    /// [`Errno::AGAIN`]: the socket is full. [`Errno::NODATA`]: the file has become shorter, or
    /// cannot be sent in place.
    pub fn send_to(&mut self, socket: impl AsFd) -> Result<(), Errno> {
        while self.length > 0 {
            let result =
                rustix::fs::sendfile(&socket, &self.file, Some(&mut self.offset), self.length);
            match result {
                Ok(count) if count > 0 => {
                    assert!(count <= self.length, "more was sent than was asked for");
                    self.length -= count;
                    names::SPLICED_BYTES.add(count as u64);
                }
                Err(Errno::INTR) => {}
                // The end of the file, or a file system without sendfile.
                Ok(_) | Err(Errno::INVAL) => return Err(Errno::NODATA),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// [`OpenFile::copied`] of the range.
    pub fn copied(&self) -> Result<Vec<u8>, Errno> {
        self.file.copied(self.offset, self.length)
    }
}

const PAGE_BYTES: u64 = 4096;

/// On all architectures with the common numbers of Linux 5.1; others (MIPS) report an unknown call.
const SYS_CACHESTAT: libc::c_long = 451;

static REFUSED: AtomicBool = AtomicBool::new(false);

/// Now or a moment ago.
pub fn is_resident(file: &OpenFile, offset: u64, length: usize) -> bool {
    let range = offset..offset.saturating_add(length as u64);
    let Some(seen) = file.attached::<Seen>() else {
        return are_resident(file.as_fd(), &range);
    };
    let time = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(time).unwrap_or_default();
    match seen.look(&range, now) {
        Look::Known => return true,
        Look::Windows(windows) => {
            let is_whole = are_resident(file.as_fd(), &windows);
            seen.note(&windows, is_whole, now);
            if is_whole {
                return true;
            }
        }
        Look::Bytes => {}
    }
    are_resident(file.as_fd(), &range)
}

fn are_resident(file: BorrowedFd<'_>, range: &Range<u64>) -> bool {
    let (offset, length) = (range.start, range.end.saturating_sub(range.start));
    if length == 0 {
        return true;
    }
    let first = offset / PAGE_BYTES;
    let last = offset.saturating_add(length - 1) / PAGE_BYTES;
    let probe = |at: u64| {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        preadv2(file, &mut slices, at, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    let counted = cached_pages(file, offset, length);
    counted.map_or_else(|| probe(offset), |cached| cached > last - first)
        && probe(offset.saturating_add(length - 1))
}

fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> Option<u64> {
    if REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let range = [offset, length];
    // Pages cached, dirty, under write-back, evicted, evicted recently.
    let mut result = [0u64; 5];
    // SAFETY: both point to live structures of 64-bit integers as the system call expects them; it
    // keeps neither.
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut result,
            0,
        )
    };
    if status == 0 {
        return Some(result[0]);
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    if errno == Some(libc::ENOSYS) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    None
}

/// Of a question.
const WINDOW_BYTES: u64 = 2 << 20;

/// Lifetime of "cached". Long, as an early eviction costs one thread one wait.
const CACHED_MILLISECONDS: u64 = 250;

/// Lifetime of "not cached": data being read arrives soon.
const MISSED_MILLISECONDS: u64 = 5;

const SLOTS: usize = 64;

/// Bits of a slot for the time (milliseconds) and the kind; the rest is the window.
const TIME_BITS: u32 = 18;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const KIND_BITS: u32 = 2;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

/// A part was asked for.
const PART: u64 = 1;
const WHOLE: u64 = 2;
/// Not fully cached.
const BROKEN: u64 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Look {
    Known,
    /// About these whole windows; if not fully cached, about the bytes.
    Windows(Range<u64>),
    /// About the bytes.
    Bytes,
}

/// The windows of a file that were cached a moment ago.
#[derive(Debug)]
struct Seen([AtomicU64; SLOTS]);

impl Default for Seen {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }
}

impl Seen {
    /// What to ask about `range`; `now` is of any monotonic clock.
    fn look(&self, range: &Range<u64>, now: Duration) -> Look {
        let now = milliseconds(now);
        let mut is_known = true;
        for window in windows(range) {
            match self.kind(window, now) {
                Some(WHOLE) => {}
                Some(PART) => is_known = false,
                Some(_) => return Look::Bytes,
                None => {
                    self.set(window, PART, now);
                    return Look::Bytes;
                }
            }
        }
        if is_known {
            return Look::Known;
        }
        let all = windows(range);
        let end = all.end.saturating_mul(WINDOW_BYTES);
        Look::Windows(all.start.saturating_mul(WINDOW_BYTES)..end)
    }

    fn note(&self, range: &Range<u64>, is_whole: bool, now: Duration) {
        let kind = if is_whole { WHOLE } else { BROKEN };
        for window in windows(range) {
            self.set(window, kind, milliseconds(now));
        }
    }

    /// While it is valid.
    fn kind(&self, window: u64, now: u64) -> Option<u64> {
        let slot = self.slot(window)?.load(Ordering::Relaxed);
        let then = (slot >> KIND_BITS) & TIME_MASK;
        let kind = slot & KIND_MASK;
        let lifetime = match kind {
            BROKEN => MISSED_MILLISECONDS,
            _ => CACHED_MILLISECONDS,
        };
        let is_recent = now.wrapping_sub(then) & TIME_MASK < lifetime;
        let is_this = slot >> (TIME_BITS + KIND_BITS) == window && kind != 0;
        (is_this && is_recent).then_some(kind)
    }

    fn set(&self, window: u64, kind: u64, now: u64) {
        if let Some(slot) = self.slot(window) {
            let value = window << (TIME_BITS + KIND_BITS) | now << KIND_BITS | kind;
            slot.store(value, Ordering::Relaxed);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // it is less than SLOTS
    fn slot(&self, window: u64) -> Option<&AtomicU64> {
        self.0.get((window % SLOTS as u64) as usize)
    }
}

fn windows(range: &Range<u64>) -> Range<u64> {
    range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES)
}

#[allow(clippy::cast_possible_truncation)] // only the last bits are kept
fn milliseconds(time: Duration) -> u64 {
    time.as_millis() as u64 & TIME_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn file_data_leaves_and_missing_data_is_reported() {
        let mut file = tempfile::tempfile().unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|index| (index % 253) as u8).collect();
        file.write_all(&data).unwrap();
        let mut range = FileRange::new(OpenFile::new(file.into()), 100_000, 150_000);
        let (here, mut there) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; 100_000];
            there.read_exact(&mut received).unwrap();
            received
        });
        assert_eq!(range.send_to(&here), Err(Errno::NODATA));
        assert!(reader.join().unwrap() == data[100_000..]);
        assert_eq!(range.length, 50_000);
        assert_eq!(range.copied().unwrap(), [0; 50_000]);
    }

    #[test]
    fn bytes_that_cannot_be_read_are_no_zeros() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10).unwrap();
        let write_only = std::fs::OpenOptions::new().write(true).open(file.path());
        let mut range = FileRange::new(OpenFile::new(write_only.unwrap().into()), 0, 10);
        let (here, _there) = UnixStream::pair().unwrap();
        assert_eq!(range.send_to(&here), Err(Errno::BADF));
        assert_eq!(range.copied(), Err(Errno::BADF));
    }

    #[test]
    fn what_was_just_written_is_resident_and_what_was_dropped_is_not() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(are_resident(file.as_fd(), &(5000..105_000)));
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, advice).unwrap();
        // Some file systems ignore the advice; then there is nothing to see.
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        if preadv2(&file, &mut slices, 500_000, ReadWriteFlags::NOWAIT).is_err() {
            assert!(!are_resident(file.as_fd(), &(400_000..600_000)));
        }
        assert!(are_resident(file.as_fd(), &(0..0)));
    }

    #[test]
    fn a_window_is_asked_for_once_while_it_is_read() {
        let seen = Seen::default();
        let start = 7 * WINDOW_BYTES;
        let read = |index: u64| start + index * 65536..start + (index + 1) * 65536;
        let mut now = Duration::from_secs(3600);
        assert_eq!(seen.look(&read(0), now), Look::Bytes);
        let window = start..start + WINDOW_BYTES;
        assert_eq!(seen.look(&read(1), now), Look::Windows(window.clone()));
        seen.note(&window, true, now);
        for index in 2..32 {
            assert_eq!(seen.look(&read(index), now), Look::Known);
        }
        now += MILLISECOND * 249;
        assert_eq!(seen.look(&read(2), now), Look::Known);
        now += MILLISECOND;
        assert_eq!(seen.look(&read(3), now), Look::Bytes, "too long ago");
    }

    #[test]
    fn of_a_window_that_is_not_whole_the_bytes_are_asked_for() {
        let seen = Seen::default();
        let window = 0..WINDOW_BYTES;
        let now = MILLISECOND;
        assert_eq!(seen.look(&(0..4096), now), Look::Bytes);
        assert_eq!(seen.look(&(4096..8192), now), Look::Windows(window.clone()));
        seen.note(&window, false, now);
        assert_eq!(seen.look(&(4096..8192), now), Look::Bytes);
        // What was read meanwhile is found soon.
        let later = now + MILLISECOND * 5;
        assert_eq!(seen.look(&(4096..8192), later), Look::Bytes);
        assert_eq!(seen.look(&(0..4096), later), Look::Windows(window));
    }

    #[test]
    fn distant_reads_ask_for_their_bytes_alone() {
        let seen = Seen::default();
        for index in 0..1000 {
            let start = index * 3 * WINDOW_BYTES;
            let look = seen.look(&(start..start + 65536), MILLISECOND);
            assert_eq!(look, Look::Bytes);
        }
    }

    #[test]
    fn a_read_over_two_windows_knows_both_or_asks() {
        let seen = Seen::default();
        let first = 0..WINDOW_BYTES;
        let over = WINDOW_BYTES - 4096..WINDOW_BYTES + 4096;
        seen.note(&first, true, MILLISECOND);
        assert_eq!(seen.look(&over, MILLISECOND), Look::Bytes);
        let both = 0..2 * WINDOW_BYTES;
        assert_eq!(seen.look(&over, MILLISECOND), Look::Windows(both.clone()));
        seen.note(&both, true, MILLISECOND);
        assert_eq!(seen.look(&over, MILLISECOND), Look::Known);
        let empty = seen.look(&(5..5), MILLISECOND);
        assert_eq!(empty, Look::Known);
        let last = u64::MAX - 10..u64::MAX;
        assert_eq!(seen.look(&last, MILLISECOND), Look::Bytes);
    }
}
