//! Whether bytes of a file are in the kernel's page cache.
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

use pagewell_fs::OpenFile;
use pagewell_fs::seen::Look;
use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};
use rustix::time::{ClockId, clock_gettime};

const PAGE_BYTES: u64 = 4096;

/// The same number on all architectures that number system calls alike since Linux 5.1; Alpha and
/// MIPS add an offset of their own.
const SYS_CACHESTAT: libc::c_long = 451;
const HAS_CACHESTAT: bool = cfg!(not(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "mips32r6",
    target_arch = "mips64r6"
)));

static REFUSED: AtomicBool = AtomicBool::new(false);

#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    write_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// What of a file is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resident {
    /// Not all of the bytes.
    No,
    /// The bytes.
    Bytes,
    /// The windows of [`pagewell_fs::seen`] that the bytes are in.
    Windows,
}

/// Whether all pages of `length` bytes from `offset` of a file can be read without waiting, as far
/// as was seen now or a moment ago.
pub fn resident(file: &OpenFile, offset: u64, length: usize) -> Resident {
    let range = offset..offset.saturating_add(length as u64);
    let time = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(time).unwrap_or_default();
    match file.seen().look(&range, now) {
        Look::Known => return Resident::Windows,
        Look::Windows(windows) => {
            let is_whole = are_resident(file.as_fd(), &windows);
            file.seen().note(&windows, is_whole, now);
            if is_whole {
                return Resident::Windows;
            }
        }
        Look::Bytes => {}
    }
    if are_resident(file.as_fd(), &range) {
        Resident::Bytes
    } else {
        Resident::No
    }
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
    if !HAS_CACHESTAT || REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let range = CachestatRange { offset, length };
    let mut result = Cachestat::default();
    // SAFETY: both pointers are to live values of the layout the system call expects, and it
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
        return Some(result.cached);
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
    use std::io::Write;

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
