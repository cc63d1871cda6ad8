//! A file in the address space of this process, for the kernel to send from.
//!
//! Sending from a mapping costs one copy, like reading into a buffer and sending that, but the
//! bytes are touched once. The memory of a mapping belongs to the file: it changes when the file
//! does, and is not there any more when the file was cut short. So no code here ever touches it;
//! only its addresses are given to system calls, which answer `EFAULT` where a program would get a
//! signal.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::{OpenFile, seen};

/// Mappings at once: far fewer than a process may have (vm.max_map_count, 65,530).
const MAPPINGS_MAX: u64 = 4096;

/// What part of the addresses of the process all mappings together may take: a client chooses how
/// long files are, and where no addresses are left, no memory is to be had either.
const ADDRESSES_PART: u64 = 8;

/// The shortest mapping: a file may grow, and a mapping may be longer than its file.
const LENGTH_MIN: u64 = 16 << 20;

/// Linux' number for overlay file systems (statfs `f_type`).
pub const OVERLAY_MAGIC: i64 = 0x794c_7630;

/// Linux' number for the kind of file system that a file is on (statfs `f_type`).
pub fn magic_of(file: impl AsFd) -> Result<i64, Errno> {
    #[allow(clippy::useless_conversion)] // the type differs by architecture
    i64::try_from(rustix::fs::fstatfs(file)?.f_type).map_err(|_| Errno::OVERFLOW)
}

/// Addresses that are filled in at once.
#[allow(clippy::cast_possible_truncation)] // it is 2 MiB
const WINDOW_BYTES: usize = seen::WINDOW_BYTES as usize;

/// The longest: a process of 64 bits has 128 TiB for all.
const LENGTH_MAX: u64 = 1 << 40;

/// Addresses that all mappings take, see [`Share`].
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// What a mapping takes of the addresses, until it is dropped.
#[derive(Debug)]
struct Share(u64);

impl Share {
    /// That of a mapping of `length`; `None` when too little is left. A short one counts as a part
    /// of all in [`MAPPINGS_MAX`], so that there are no more than those.
    fn take(length: u64) -> Option<Self> {
        // Addresses end a little above the stack: at 128 TiB mostly, at 512 GiB on small machines.
        let on_stack = 0u8;
        let end = (std::ptr::from_ref(&on_stack).addr() as u64).next_power_of_two();
        let most = end / ADDRESSES_PART;
        let share = Self(length.max(most / MAPPINGS_MAX));
        // Dropped where it is too much.
        let before = TAKEN.fetch_add(share.0, Ordering::Relaxed);
        (before + share.0 <= most).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Addresses of the bytes of a file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: *mut libc::c_void,
    length: usize,
    /// A bit for each window that was filled in.
    windows: Box<[AtomicU64]>,
    _share: Share,
}

// SAFETY: it is an address and a length, which nothing here follows; mapping and unmapping are
// done by whichever thread has the value alone.
unsafe impl Send for Mapping {}
// SAFETY: as above; there is nothing to change through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file from its beginning to `end` or beyond it.
    pub(crate) fn new(file: impl AsFd, end: u64) -> Result<Self, Errno> {
        // What a descriptor there maps is the file that it was opened at, also when the file has
        // been copied to the upper layer since and is written there.
        if magic_of(&file)? == OVERLAY_MAGIC {
            return Err(Errno::NODEV);
        }
        let length = end.max(LENGTH_MIN).checked_next_power_of_two();
        let length = length.filter(|length| *length <= LENGTH_MAX);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or(Errno::NOMEM)?;
        let share = Share::take(length as u64).ok_or(Errno::NOMEM)?;
        // SAFETY: the kernel chooses addresses that nothing else uses, and what is mapped there is
        // never made a reference of.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                0,
            )
        }?;
        let words = length.div_ceil(WINDOW_BYTES).div_ceil(u64::BITS as usize);
        Ok(Self {
            address,
            length,
            windows: (0..words).map(|_| AtomicU64::new(0)).collect(),
            _share: share,
        })
    }

    /// Fills in the addresses of the windows that `range` touches, once.
    fn populate(&self, range: Range<usize>) {
        for window in range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES) {
            let Some(word) = self.windows.get(window / u64::BITS as usize) else {
                return;
            };
            let bit = 1u64 << (window % u64::BITS as usize);
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
                let address = self.address.wrapping_byte_add(window * WINDOW_BYTES);
                // Linux before 5.14 cannot, and what is not filled in is found by faults.
                // SAFETY: the window is inside of the mapping, whose length is a larger power of
                // two, and the advice changes no contents.
                let _ = unsafe { madvise(address, WINDOW_BYTES, Advice::LinuxPopulateRead) };
            }
        }
    }

    /// Whether it reaches to `end`.
    pub(crate) fn reaches(&self, end: u64) -> bool {
        end <= self.length as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, every range of it holds this value, and no reference to
        // the memory was ever made.
        let unmapped = unsafe { munmap(self.address, self.length) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// A range of a mapped file, which stays mapped for as long as this lives.
#[derive(Clone, Debug)]
pub struct MappedRange {
    file: OpenFile,
    mapping: Arc<Mapping>,
    offset: usize,
    length: usize,
}

impl MappedRange {
    /// `None` if the mapping does not have it.
    pub(crate) fn new(
        file: OpenFile,
        mapping: Arc<Mapping>,
        offset: u64,
        length: usize,
    ) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        (end <= mapping.length).then_some(Self {
            file,
            mapping,
            offset,
            length,
        })
    }

    /// Bytes in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Fills in the addresses of the windows of [`crate::seen`] that it is in, if that was not done
    /// before: all at a time costs a fraction of a fault for each few pages. What of them is not in
    /// memory would be waited for.
    pub fn populate(&self) {
        self.mapping
            .populate(self.offset..self.offset + self.length);
    }

    /// Where its first byte is, for system calls only: the file may have been cut short.
    #[must_use]
    pub fn address(&self) -> *const u8 {
        self.mapping.address.cast::<u8>().wrapping_add(self.offset)
    }
}

impl MappedRange {
    /// [`OpenFile::copied`] of the range.
    pub fn copied(&self) -> Result<Vec<u8>, Errno> {
        self.file.copied(self.offset as u64, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_mapping_is_longer_than_asked_for_and_has_bounds() {
        let file = tempfile::tempfile().unwrap();
        let mapping = Mapping::new(&file, 5).unwrap();
        assert!(mapping.reaches(LENGTH_MIN) && !mapping.reaches(LENGTH_MIN + 1));
        assert!(Mapping::new(&file, LENGTH_MAX + 1).is_err());
        assert!(Mapping::new(&file, u64::MAX).is_err());
        let file = OpenFile::new(file.into());
        let mapping = Arc::new(mapping);
        let range =
            |offset, length| MappedRange::new(file.clone(), mapping.clone(), offset, length);
        let seven = range(5, 7).unwrap();
        assert_eq!((seven.len(), seven.is_empty()), (7, false));
        assert_eq!(seven.address() as usize, mapping.address as usize + 5);
        assert!(range(LENGTH_MIN - 6, 7).is_none());
        assert!(range(u64::MAX, 7).is_none());
    }

    #[test]
    fn what_a_file_has_lost_is_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let file = OpenFile::new(file.into());
        let range = file.mapped(4000, 6000).unwrap();
        assert_eq!(range.copied().unwrap(), [7; 6000]);
        rustix::fs::ftruncate(&file, 5000).unwrap();
        let left = [vec![7; 1000], vec![0; 5000]].concat();
        assert_eq!(range.copied().unwrap(), left);
        assert_eq!(file.mapped(0, 10_000).unwrap().len(), 10_000);
        // What is not there is not filled in, and nothing happens.
        file.mapped(0, 4 << 20).unwrap().populate();
        file.mapped(LENGTH_MIN - 1, 1).unwrap().populate();
    }
}
