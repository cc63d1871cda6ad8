//! File data to a socket without a copy in user space.
//!
//! A READ reply says how many bytes follow before they follow, and sendfile(2) finds out only while
//! it sends. A file that is cut short in that moment leaves a promise to be kept: what is there is
//! sent, and zeros follow. If storage fails in that moment the connection ends,
//! and the call that the client makes again gets the failure. (Splicing the data into a pipe first
//! would give the true count before the head is sent, for a third system call with each reply.)
//!
//! Known weaknesses: the pages are the file's own. A file that is changed between the reply and
//! the client's receipt shows the newer bytes, as with every server that does not copy; a READ
//! is not atomic. And a page that left the kernel's cache since it was seen there is
//! waited for by the thread that sends.
//!
//! A receiving thread may only send what is in the kernel's page cache. cachestat(2) (Linux 6.5)
//! counts the pages of a range, also those that read-ahead has only asked for; they arrive in
//! order, so the last page is tried with RWF_NOWAIT too. Where cachestat is missing or refused (it
//! wants the right to write), the first and the last page are tried with RWF_NOWAIT; pages between
//! them may then be missing, which makes the thread wait once, not fail. File systems without
//! RWF_NOWAIT show nothing: their files are read by threads that may wait, and copied.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell_counters::names;
use pagewell_fs::OpenFile;
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
use rustix::time::{ClockId, clock_gettime};

use crate::reply::seen::{Look, Seen};

/// A range of a file that is still to be sent.
pub struct FileRange {
    file: OpenFile,
    offset: u64,
    /// Bytes still to be sent.
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

    /// Sends all of it, or what the socket takes: then [`Errno::AGAIN`]. [`Errno::NODATA`]: the
    /// file does not have the rest any more, or it cannot be sent from where it is.
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
                // The file ends, or its file system has no way to do this.
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

/// The same number on all architectures that number system calls alike since Linux 5.1. Those that
/// add an offset of their own (MIPS) have no call of this number, and say so.
const SYS_CACHESTAT: libc::c_long = 451;

static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether all pages of `length` bytes from `offset` of a file can be read without waiting, as far
/// as was seen now or a moment ago.
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

/// Asks the kernel.
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
    // Pages that are cached, dirty, being written, evicted, evicted lately.
    let mut result = [0u64; 5];
    // SAFETY: both pointers are to live values of the layout the system call expects, structures of
    // numbers of 64 bits, and it keeps neither.
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
    fn file_data_leaves_and_what_is_missing_is_told() {
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
