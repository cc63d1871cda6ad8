//! Answers: refusals, data without a copy in this program, and the descriptor of the kernel.
//!
//! `fuser` takes the data of a read as one slice, but the cache has it in pages that lie anywhere.
//! So this file writes such an answer itself, a header of 16 bytes and the pages, in one vectored
//! write. Data in one piece goes through `fuser`.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{Errno, ReplyData};
use pagewell_counters::names;
use pagewell_fs::{PageSlice, Payload, Result};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::buffer_pool;
use crate::dispatch::ReadLease;

/// An answer that can be a refusal.
pub(crate) trait Refuse: Send + 'static {
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

refuse!(
    fuser::ReplyAttr,
    fuser::ReplyXattr,
    fuser::ReplyCreate,
    fuser::ReplyData,
    fuser::ReplyDirectory,
    fuser::ReplyDirectoryPlus,
    fuser::ReplyEmpty,
    fuser::ReplyEntry,
    fuser::ReplyLseek,
    fuser::ReplyOpen,
    fuser::ReplyStatfs,
    fuser::ReplyWrite
);

/// Most pieces of one vectored write (`IOV_MAX`), less the header, a body and the bytes.
const PIECES_MAX: usize = 1021;

const NOTIFY_STORE: i32 = 4;

/// The kernel's end of a mount.
#[derive(Default)]
pub(crate) struct Device {
    descriptor: OnceLock<OwnedFd>,
    answered_past_library: AtomicBool,
}

impl Device {
    pub(crate) fn set(&self, device: OwnedFd) {
        let _ = self.descriptor.set(device);
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get().map(AsFd::as_fd)
    }

    /// For an answer without the library; from here on [`Device::answered_past_library`] holds.
    pub(crate) fn past_library(&self) -> Option<BorrowedFd<'_>> {
        if !self.answered_past_library() {
            self.answered_past_library.store(true, Ordering::Relaxed);
        }
        self.descriptor()
    }

    /// `FUSE_NOTIFY_STORE`: puts data into the kernel's pages of a file; returns whether the kernel
    /// took it. `struct fuse_notify_store_out`: node, offset, length, 4 unused bytes.
    pub(crate) fn store(&self, node: u64, offset: u64, data: &Data) -> bool {
        let Some(device) = self.descriptor() else {
            return false;
        };
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let mut body = [0; 24];
        body[..8].copy_from_slice(&node.to_ne_bytes());
        body[8..16].copy_from_slice(&offset.to_ne_bytes());
        body[16..20].copy_from_slice(&length.to_ne_bytes());
        let pages = data.pages.iter().map(|page| &**page);
        let pieces = pages.chain([&data.bytes[..]]);
        write_message(device, NOTIFY_STORE, 0, &body, pieces, data.len()).is_ok()
    }

    /// Whether an answer of the library may have been leaked.
    pub(crate) fn answered_past_library(&self) -> bool {
        self.answered_past_library.load(Ordering::Relaxed)
    }

    /// Whether the kernel has ended the connection: it is unmounted, and no program uses it.
    pub(crate) fn has_ended(&self) -> bool {
        let Some(device) = self.descriptor() else {
            return false;
        };
        let mut polled = [PollFd::from_borrowed_fd(device, PollFlags::empty())];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A device without a connection is in error (fuse_dev_poll).
        rustix::event::poll(&mut polled, Some(&at_once)).is_ok()
            && polled[0].revents().contains(PollFlags::ERR)
    }
}

#[derive(Default)]
pub(crate) struct Data {
    pages: Vec<PageSlice>,
    /// Used instead of the pages once it has any.
    bytes: Vec<u8>,
    /// Returned when the answer is sent.
    _lease: Option<ReadLease>,
}

impl Data {
    pub(crate) fn with_lease(lease: Option<ReadLease>) -> Self {
        Self {
            _lease: lease,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.len()).sum();
        pages + self.bytes.len()
    }

    pub(crate) fn add(&mut self, payload: Payload, may_block: bool) -> Result<usize> {
        match payload {
            Payload::Pages(pages)
                if self.bytes.is_empty() && self.pages.len() + pages.len() <= PIECES_MAX =>
            {
                let before = self.len();
                self.pages.extend(pages);
                Ok(self.len() - before)
            }
            Payload::Bytes(bytes) if self.len() == 0 => {
                self.bytes = bytes;
                Ok(self.bytes.len())
            }
            payload => {
                if self.bytes.is_empty() {
                    self.bytes = buffer_pool::take();
                    for page in self.pages.drain(..) {
                        self.bytes.extend_from_slice(&page);
                    }
                }
                let start = self.bytes.len();
                self.bytes.resize(start + payload.len(), 0);
                let came = payload.copy_to(&mut self.bytes[start..], may_block)?;
                self.bytes.truncate(start + came);
                names::COPIED_BYTES.add(came as u64);
                Ok(came)
            }
        }
    }

    pub(crate) fn send(self, reply: ReplyData, unique: u64, device: &Device) {
        let length = self.len();
        names::FUSE_READ_BYTES.add(length as u64);
        match self.pages.as_slice() {
            [] => reply.data(&self.bytes),
            [page] => reply.data(page),
            pages => match device.past_library() {
                Some(device) => {
                    let pieces = pages.iter().map(|page| &**page);
                    // The kernel does not wait for the answer any more.
                    let _ = write_message(device, 0, unique, &[], pieces, length);
                    // A dropped reply would answer once more, with an error. A forgotten one keeps
                    // its share of the library's descriptor, which the mount closes at its end.
                    std::mem::forget(reply);
                }
                None => reply.error(Errno::EIO), // the mount has not begun
            },
        }
        buffer_pool::give_back(self.bytes);
    }
}

/// Writes `struct fuse_out_header` (length, kind of a message or error of an answer, number of the
/// request), the body of a message of this kind (0: an answer) and `length` bytes of data.
pub(crate) fn write_message<'a>(
    device: BorrowedFd<'_>,
    kind: i32,
    unique: u64,
    body: &[u8],
    pieces: impl Iterator<Item = &'a [u8]>,
    length: usize,
) -> rustix::io::Result<()> {
    let mut header = [0; 16];
    let all = header.len() + body.len() + length;
    let all = u32::try_from(all).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&all.to_ne_bytes());
    header[4..8].copy_from_slice(&kind.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    let mut parts = vec![IoSlice::new(&header), IoSlice::new(body)];
    for piece in pieces {
        parts.push(IoSlice::new(piece));
    }
    rustix::io::writev(device, &parts).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::Arc;

    fn page(bytes: &'static [u8]) -> PageSlice {
        PageSlice::new(Arc::new(bytes), 0, bytes.len())
    }

    #[test]
    fn pages_leave_as_they_are_behind_a_header() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let pages = [page(b"abc"), page(b"defg")];
        let pieces = pages.iter().map(|page| &**page);
        write_message(writer.as_fd(), 0, 0x0102_0304, &[], pieces, 7).unwrap();
        drop(writer);
        let mut sent = Vec::new();
        reader.read_to_end(&mut sent).unwrap();
        let mut expected = 23u32.to_ne_bytes().to_vec();
        expected.extend([0; 4]);
        expected.extend(0x0102_0304u64.to_ne_bytes());
        expected.extend(b"abcdefg");
        assert_eq!(sent, expected);
    }

    #[test]
    fn pieces_of_every_kind_are_joined_in_order() {
        let mut data = Data::default();
        data.add(Payload::Pages(vec![page(b"ab"), page(b"c")]), true)
            .unwrap();
        assert_eq!((data.pages.len(), data.len()), (2, 3));
        data.add(Payload::Bytes(b"de".to_vec()), true).unwrap();
        data.add(Payload::Pages(vec![page(b"fg")]), true).unwrap();
        assert_eq!((data.pages.len(), &data.bytes[..]), (0, &b"abcdefg"[..]));
        let owned = vec![7; 100];
        let place = owned.as_ptr();
        let mut data = Data::default();
        data.add(Payload::Bytes(owned), true).unwrap();
        assert_eq!(
            (data.bytes.as_ptr(), data.len()),
            (place, 100),
            "not copied"
        );
        let many = vec![page(b"x"); PIECES_MAX + 1];
        let mut data = Data::default();
        data.add(Payload::Pages(many), true).unwrap();
        assert_eq!((data.pages.len(), data.len()), (0, PIECES_MAX + 1));
    }
}
