//! Sends file data without a copy in user space.
//!
//! A READ reply gives its length before the data, and sendfile(2) finds the end of the file while
//! it sends. If the file was truncated meanwhile, zeros follow; if storage fails, the connection
//! ends, and the repeated call gets the error. (Splicing into a pipe first would give the count in
//! time, for a third system call each.)
//!
//! Reader threads may only send what is in the page cache. cachestat(2) (Linux 6.5) counts pages,
//! even those that read-ahead has only requested; they arrive in order, so the last one is also
//! tried with RWF_NOWAIT. Without cachestat (it needs write permission) the first and last page are
//! tried; a missing page between costs the thread one wait. File systems without RWF_NOWAIT are
//! read by pool threads and copied.
//!
//! Weaknesses: the pages are the file's own, so a change between reply and receipt shows (as with
//! every server that does not copy), and a READ is not atomic. The sending thread waits for a page
//! evicted since it was seen.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell_counters::names;
use pagewell_fs::OpenFile;
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
use rustix::time::{ClockId, clock_gettime};

use crate::reply::seen::{Look, Seen};

/// The unsent part of a file's range.
pub struct FileRange {
    file: OpenFile,
    offset: u64,
    /// Unsent bytes.
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

    /// Sends all, or as much as the socket takes: [`Errno::AGAIN`]. [`Errno::NODATA`]: the file has
    /// become shorter, or cannot be sent in place.
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

/// The same on all architectures with the common numbers of Linux 5.1; others (MIPS) have no such
/// call and say so.
const SYS_CACHESTAT: libc::c_long = 451;

static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether all pages of the range were in the page cache, now or a moment ago.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

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
}
