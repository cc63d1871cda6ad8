//! What is agreed with the kernel when a mount begins.

use fuser::{InitFlags, KernelConfig};
use pagewell_fs::Coherence;

use crate::caller::Permissions;
use crate::front::Front;
use crate::options::Options;

/// Largest write that the kernel sends at once, and largest read that it asks for.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests of the kernel's own, such as read-ahead, that may be under way at once.
const BACKGROUND_MAX: u16 = 64;

/// What was agreed with the kernel.
pub(crate) struct Negotiation {
    pub(crate) kernel_write_back: bool,
    passthrough: bool,
    /// The kernel opens files without asking.
    pub(crate) opens_are_free: bool,
    leaves_umask: bool,
}

impl Negotiation {
    /// Nothing is agreed yet.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            kernel_write_back: options.kernel_write_back,
            // What the kernel writes by itself it does not bring to the device at once.
            passthrough: options.passthrough && !options.synchronous,
            opens_are_free: false,
            leaves_umask: false,
        }
    }

    /// Permissions of what a program makes: the umask is left to the source where directories may
    /// say otherwise, and where the kernel has applied it there is none.
    pub(crate) fn permissions(&self, mode: u32, umask: u32) -> Permissions {
        Permissions {
            mode: mode & 0o7777,
            umask: if self.leaves_umask { umask } else { 0 },
        }
    }

    pub(crate) fn agree(&mut self, front: &Front, config: &mut KernelConfig) {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX / 4 * 3);
        let mut want = |flags| config.add_capabilities(flags).is_ok();
        want(InitFlags::FUSE_PARALLEL_DIROPS);
        want(InitFlags::FUSE_ASYNC_DIO);
        want(InitFlags::FUSE_EXPORT_SUPPORT);
        want(InitFlags::FUSE_DO_READDIRPLUS);
        if front.is_private() {
            want(InitFlags::FUSE_CACHE_SYMLINKS);
            want(InitFlags::FUSE_EXPLICIT_INVAL_DATA);
        } else {
            // Attributes may cost the source more than names: only where programs want them.
            want(InitFlags::FUSE_READDIRPLUS_AUTO);
            want(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        if front.is_immutable()
            && want(InitFlags::FUSE_NO_OPEN_SUPPORT)
            && want(InitFlags::FUSE_NO_OPENDIR_SUPPORT)
        {
            self.opens_are_free = true;
        }
        // What others change as well may be a file of this machine.
        let passes = !self.kernel_write_back
            && self.passthrough
            && front.filesystem.limits().coherence == Coherence::NONE
            && want(InitFlags::FUSE_PASSTHROUGH);
        if self.kernel_write_back {
            want(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        // Of what the kernel writes by itself nobody here could tell it that set-user-id is gone.
        if front.extended().is_some() && (!passes || front.coherence.attributes.is_zero()) {
            want(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        }
        // The kernel asks for lists, goes by them, and lets them be set.
        if front.extended().is_some()
            && front.filesystem.limits().access_lists
            && want(InitFlags::FUSE_POSIX_ACL)
            && want(InitFlags::FUSE_DONT_MASK)
        {
            self.leaves_umask = true;
        }
        if passes {
            // One more than that of the file system beneath. The kernel takes two at most, and on a
            // mount that has both nothing can be stacked: so only where they are needed.
            let depth = if front.filesystem.limits().stacked {
                2
            } else {
                1
            };
            let _ = config.set_max_stack_depth(depth);
            front.passthrough.allow();
        }
    }
}
