//! The descriptor that requests come from and answers go to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};

/// The device of a mount.
#[derive(Default)]
pub(crate) struct Device {
    descriptor: OnceLock<OwnedFd>,
    answered_past_library: AtomicBool,
}

impl Device {
    /// Tells which descriptor requests come from, once it is known.
    pub(crate) fn set(&self, device: OwnedFd) {
        let _ = self.descriptor.set(device);
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get().map(AsFd::as_fd)
    }

    /// The descriptor for an answer that is given without the library; from here on
    /// [`Device::answered_past_library`].
    pub(crate) fn past_library(&self) -> Option<BorrowedFd<'_>> {
        if !self.answered_past_library() {
            self.answered_past_library.store(true, Ordering::Relaxed);
        }
        self.descriptor()
    }

    /// Whether an answer of the library may have been forgotten.
    pub(crate) fn answered_past_library(&self) -> bool {
        self.answered_past_library.load(Ordering::Relaxed)
    }

    /// Whether the kernel has ended the connection: it is unmounted, and nobody uses it.
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
