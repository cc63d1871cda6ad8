//! The result of a read: where the bytes are.

use std::any::Any;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

/// Bytes of an owner in memory, which clones share and keep.
#[derive(Clone)]
pub struct PageSlice {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    start: usize,
    end: usize,
}

impl PageSlice {
    /// `length` bytes from `start`; cut at the owner's end.
    #[must_use]
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, start: usize, length: usize) -> Self {
        let held = (*owner).as_ref().len();
        let start = start.min(held);
        let end = start.saturating_add(length).min(held);
        Self { owner, start, end }
    }
}

impl std::ops::Deref for PageSlice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.start..self.end]
    }
}

impl std::fmt::Debug for PageSlice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PageSlice({}..{})", self.start, self.end)
    }
}

/// An open file that readers share; the last one closes it.
#[derive(Clone, Debug)]
pub struct OpenFile(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: OwnedFd,
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl OpenFile {
    /// Shares `file`.
    #[must_use]
    pub fn new(file: OwnedFd) -> Self {
        Self(Arc::new(Shared {
            file,
            attached: OnceLock::new(),
        }))
    }

    /// What a front keeps with the file, made at first use; `None`: another front keeps another
    /// type.
    #[must_use]
    pub fn attached<T: Default + Send + Sync + 'static>(&self) -> Option<&T> {
        let make = || Box::new(T::default()) as Box<dyn Any + Send + Sync>;
        self.0.attached.get_or_init(make).downcast_ref()
    }

    /// A copy, with zeros behind the file's end. May wait for storage.
    pub fn copied(&self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        read_file(self, offset, &mut bytes, true)?;
        Ok(bytes)
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

/// Where the bytes of a read are, until it is dropped.
#[derive(Debug)]
pub enum Payload {
    /// A range of an open file, to read or to splice to a socket; a file truncated since gives
    /// fewer bytes.
    File {
        /// Open for reading.
        file: OpenFile,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// In memory, in order.
    Pages(Vec<PageSlice>),
    /// Made for this read.
    Bytes(Vec<u8>),
}

impl Payload {
    /// Bytes promised.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::File { length, .. } => *length as usize,
            Self::Pages(pages) => pages.iter().map(|page| page.len()).sum(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether none is promised.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        match self {
            Self::File {
                length: promised, ..
            } => {
                *promised = u32::try_from(length).map_or(*promised, |most| most.min(*promised));
            }
            Self::Pages(pages) => {
                let mut left = length;
                for page in &mut *pages {
                    page.end = page.end.min(page.start.saturating_add(left));
                    left -= page.end - page.start;
                }
                pages.retain(|page| page.start < page.end);
            }
            Self::Bytes(bytes) => bytes.truncate(length),
        }
    }

    /// Appends at most `length` bytes, as [`Payload::copy_to`] copies. After an error `target` has
    /// none of them.
    pub fn append_to(
        &self,
        target: &mut Vec<u8>,
        length: usize,
        may_block: bool,
    ) -> crate::Result<usize> {
        let wanted = self.len().min(length);
        let Self::File { file, offset, .. } = self else {
            let before = target.len();
            target.resize(before + wanted, 0);
            return self.copy_to(&mut target[before..], may_block);
        };
        target.reserve(wanted);
        let spare = target.spare_capacity_mut();
        let range = (spare.as_mut_ptr().cast(), wanted);
        // SAFETY: the vector has reserved as many bytes, and this thread alone has it.
        let count = unsafe { read_range(file, *offset, range, may_block) }?;
        // SAFETY: so many bytes behind the old ones were reserved, and written just now.
        unsafe { target.set_len(target.len() + count) };
        Ok(count)
    }

    /// Copies the payload to the front of `target`. Returns how many bytes; fewer than
    /// [`Payload::len`] only after a truncation or for a shorter `target`.
    ///
    /// With `may_block` false, bytes of a file outside the kernel's page cache give
    /// [`crate::Error::WouldBlock`] and leave `target` undefined.
    pub fn copy_to(&self, target: &mut [u8], may_block: bool) -> crate::Result<usize> {
        let wanted = self.len().min(target.len());
        let target = &mut target[..wanted];
        match self {
            Self::File { file, offset, .. } => Ok(read_file(file, *offset, target, may_block)?),
            Self::Pages(pages) => {
                let mut rest = target;
                for page in pages {
                    let taken = page.len().min(rest.len());
                    let (now, later) = rest.split_at_mut(taken);
                    now.copy_from_slice(&page[..taken]);
                    rest = later;
                }
                Ok(wanted)
            }
            Self::Bytes(bytes) => {
                target.copy_from_slice(&bytes[..wanted]);
                Ok(wanted)
            }
        }
    }
}

fn read_file(
    file: &OpenFile,
    offset: u64,
    target: &mut [u8],
    may_block: bool,
) -> Result<usize, Errno> {
    let (start, length) = (target.as_mut_ptr(), target.len());
    // SAFETY: the range is that of a slice which is ours to change.
    unsafe { read_range(file, offset, (start, length), may_block) }
}

/// Reads into memory that need not be initialised. Returns how many bytes are, or [`Errno::AGAIN`]
/// ([`crate::Error::WouldBlock`]) instead of a forbidden wait.
///
/// # Safety
///
/// The range, an address and a length, is writable memory without another user.
unsafe fn read_range(
    file: &OpenFile,
    offset: u64,
    (start, length): (*mut u8, usize),
    may_block: bool,
) -> Result<usize, Errno> {
    let flags = if may_block { 0 } else { libc::RWF_NOWAIT };
    let mut done = 0;
    while done < length {
        let range = libc::iovec {
            iov_base: start.wrapping_add(done).cast(),
            iov_len: length - done,
        };
        let at = offset.saturating_add(done as u64);
        let at = libc::off_t::try_from(at).map_err(|_| Errno::INVAL)?;
        // SAFETY: the range is the rest of what the caller answers for.
        let count =
            unsafe { libc::preadv2(file.as_fd().as_raw_fd(), &raw const range, 1, at, flags) };
        let count = usize::try_from(count).map_err(|_| {
            let error = std::io::Error::last_os_error();
            Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
        });
        match count {
            // Linux 5.9 and 5.10 answer 0 to RWF_NOWAIT in the middle of a file: wait.
            Ok(0) if !may_block => return Err(Errno::AGAIN),
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP) if !may_block => return Err(Errno::AGAIN),
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn each_kind_copies_what_it_promises() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let file = OpenFile::new(file.into());
        let page: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(b"0123456789".to_vec());
        let payloads = [
            Payload::File {
                file,
                offset: 2,
                length: 5,
            },
            Payload::Pages(vec![
                PageSlice::new(page.clone(), 2, 2),
                PageSlice::new(page.clone(), 4, 3),
            ]),
            Payload::Bytes(b"23456".to_vec()),
        ];
        for payload in payloads {
            let mut target = [0; 8];
            assert_eq!(payload.copy_to(&mut target, true), Ok(5));
            assert_eq!(&target[..5], b"23456");
        }
        assert_eq!(&*PageSlice::new(page, 8, 100), b"89");
    }

    #[test]
    fn what_is_cut_off_is_not_copied() {
        let page: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(b"0123456789".to_vec());
        for length in 0..8 {
            let pages = vec![
                PageSlice::new(page.clone(), 2, 2),
                PageSlice::new(page.clone(), 4, 3),
            ];
            let file = OpenFile::new(tempfile::tempfile().unwrap().into());
            let file = Payload::File {
                file,
                offset: 2,
                length: 5,
            };
            for mut payload in [
                Payload::Pages(pages),
                Payload::Bytes(b"23456".to_vec()),
                file,
            ] {
                payload.truncate(length);
                assert_eq!(payload.len(), length.min(5));
                if !matches!(payload, Payload::File { .. }) {
                    let mut target = [0; 8];
                    let count = payload.copy_to(&mut target, true).unwrap();
                    assert_eq!(&target[..count], &b"23456"[..length.min(5)]);
                }
            }
        }
    }

    #[test]
    fn one_front_keeps_something_with_a_file() {
        let file = OpenFile::new(tempfile::tempfile().unwrap().into());
        let kept: &Vec<u8> = file.attached().unwrap();
        let again = file.clone();
        assert!(std::ptr::eq(kept, again.attached::<Vec<u8>>().unwrap()));
        assert!(again.attached::<String>().is_none());
    }

    #[test]
    fn a_truncated_file_gives_fewer_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123").unwrap();
        let payload = Payload::File {
            file: OpenFile::new(file.into()),
            offset: 0,
            length: 10,
        };
        assert_eq!(payload.copy_to(&mut [0; 10], true), Ok(4));
    }
}
