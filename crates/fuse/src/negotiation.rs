//! What is agreed with the kernel when a mount begins.
//!
//! Problem: a write across the end of a file that cannot grow is cut there, but the kernel drops
//! the rest of data that it writes late, and calls a cut part of a direct write in several parts an
//! error. Rule: on a writable mount of such files the kernel keeps no written data, and sends the
//! parts of a direct write one after the other.
//!
//! Weakness: so it does with all direct reads and writes that a program has under way (libaio).

use fuser::{InitFlags, KernelConfig};
use pagewell_fs::{Coherence, Limits};

use crate::caller::Permissions;
use crate::kernel_view::KernelView;
use crate::options::Options;

/// Largest write that the kernel sends at once, and largest read.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Most requests of the kernel's own, such as read-ahead, in flight.
const BACKGROUND_MAX: u16 = 64;

pub(crate) struct Negotiation {
    kernel_write_back: bool,
    passthrough: bool,
    opens_are_free: bool,
    leaves_umask: bool,
}

impl Negotiation {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            kernel_write_back: options.kernel_write_back,
            // A write of the kernel itself does not reach the device at once.
            passthrough: options.passthrough && !options.synchronous,
            opens_are_free: false,
            leaves_umask: false,
        }
    }

    /// Whether the kernel has written data that the source does not have yet.
    pub(crate) fn kernel_write_back(&self) -> bool {
        self.kernel_write_back
    }

    /// Whether the kernel opens and closes files without asking.
    pub(crate) fn opens_are_free(&self) -> bool {
        self.opens_are_free
    }

    /// Permissions of a new object. The source applies the umask where a directory may have a
    /// default list, else the kernel.
    pub(crate) fn permissions(&self, mode: u32, umask: u32) -> Permissions {
        Permissions::new(mode & 0o7777, if self.leaves_umask { umask } else { 0 })
    }

    /// Agrees with the kernel; returns whether the kernel may read and write files itself.
    pub(crate) fn agree(
        &mut self,
        config: &mut KernelConfig,
        view: &KernelView,
        limits: &Limits,
        has_extended: bool,
    ) -> bool {
        let cuts_writes = limits.fixed_lengths && !limits.read_only;
        self.kernel_write_back &= !cuts_writes;
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX / 4 * 3);
        let mut want = |flags| config.add_capabilities(flags).is_ok();
        want(InitFlags::FUSE_PARALLEL_DIROPS);
        if !cuts_writes {
            want(InitFlags::FUSE_ASYNC_DIO);
        }
        want(InitFlags::FUSE_EXPORT_SUPPORT);
        want(InitFlags::FUSE_DO_READDIRPLUS);
        if view.is_private() {
            want(InitFlags::FUSE_CACHE_SYMLINKS);
            want(InitFlags::FUSE_EXPLICIT_INVAL_DATA);
        } else {
            // Attributes may cost the source more than names: only where programs want them.
            want(InitFlags::FUSE_READDIRPLUS_AUTO);
            want(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        self.opens_are_free = view.is_immutable()
            && want(InitFlags::FUSE_NO_OPEN_SUPPORT)
            && want(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        // Only a source that others change without its knowledge may have files of this machine.
        let passes = !self.kernel_write_back
            && self.passthrough
            && limits.coherence == Coherence::NONE
            && want(InitFlags::FUSE_PASSTHROUGH);
        if self.kernel_write_back {
            want(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        // After a write of the kernel itself this program could not report that set-user-id is
        // gone.
        if has_extended && (!passes || !view.keeps_attributes()) {
            want(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        }
        // The kernel asks for access lists, judges by them, and sets them.
        self.leaves_umask = has_extended
            && limits.access_lists
            && want(InitFlags::FUSE_POSIX_ACL)
            && want(InitFlags::FUSE_DONT_MASK);
        if passes {
            // One more than the file system beneath. The kernel takes two at most, and stacks
            // nothing on a mount that has both: so only where needed.
            let _ = config.set_max_stack_depth(if limits.stacked { 2 } else { 1 });
        }
        passes
    }
}
