//! Whether a range of a file is in the kernel's page cache.
//!
//! A receiving thread may only send what is there. cachestat(2) (Linux 6.5) counts the pages of
//! a range. Where it is missing or refused (it wants the right to write), the first and the last
//! page are tried with RWF_NOWAIT; pages between them may then be missing, which makes the thread
//! wait once, not fail.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};

const PAGE_BYTES: u64 = 4096;

/// The same number on every architecture (kernel: include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

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

/// Whether all pages of `length` bytes from `offset` can be read without waiting.
#[must_use]
pub fn is_resident(file: BorrowedFd<'_>, offset: u64, length: usize) -> bool {
    let length = length as u64;
    if length == 0 {
        return true;
    }
    let first = offset / PAGE_BYTES;
    let last = offset.saturating_add(length - 1) / PAGE_BYTES;
    if let Some(cached) = cached_pages(file, offset, length) {
        return cached > last - first;
    }
    let probe = |at: u64| {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        preadv2(file, &mut slices, at, ReadWriteFlags::NOWAIT).is_ok()
    };
    probe(offset) && probe(offset.saturating_add(length - 1))
}

fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> Option<u64> {
    if REFUSED.load(Ordering::Relaxed) {
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
    use std::os::fd::AsFd;

    #[test]
    fn what_was_just_written_is_resident_and_what_was_dropped_is_not() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(is_resident(file.as_fd(), 5000, 100_000));
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, advice).unwrap();
        // Some file systems ignore the advice; then there is nothing to see.
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        if preadv2(&file, &mut slices, 500_000, ReadWriteFlags::NOWAIT).is_err() {
            assert!(!is_resident(file.as_fd(), 400_000, 200_000));
        }
        assert!(is_resident(file.as_fd(), 0, 0));
    }
}
