//! Appending to a file that others append to as well.
//!
//! Problem: the kernel decides where an append goes, by the length that it last heard of. When
//! another client, or a program below a mounted directory, has made the file longer since, the
//! bytes would overwrite what is there.
//!
//! Rule: a write through a file that is open for appending goes to where the source says that the
//! file ends. When that is not where the kernel took the end to be, the pages that it keeps have
//! the bytes in the wrong place, and are given up after the answer.
//!
//! A source may write a part of an append before it says that it would wait, and then has another
//! end. So an append is left to a thread that may wait, and goes to the same place when it has to
//! be made again.
//!
//! Weakness: between asking for the length and writing, another client may append. NFS has no
//! operation that does both; programs that append on several clients have to lock.

use std::sync::Arc;

use fuser::{INodeNo, Notifier, OpenFlags, WriteFlags};

use crate::front::Front;

/// Whether a write is an append of a program, and not of pages that the kernel writes late: of
/// those it knows the place.
pub(crate) fn appends(flags: OpenFlags, write_flags: WriteFlags) -> bool {
    flags.0 & libc::O_APPEND != 0 && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE)
}

impl Front {
    /// From here on the kernel is told to give up what it keeps.
    pub(crate) fn notify_through(self: &Arc<Self>, notifier: Notifier) -> std::io::Result<()> {
        let _ = self.notifier.set(notifier.clone());
        let front = Arc::clone(self);
        let thread = std::thread::Builder::new().name("fuse-forget".to_owned());
        thread.spawn(move || {
            while let Some(node) = front.forgetting.next() {
                // A kernel that has forgotten the file keeps nothing of it.
                let _ = notifier.inval_inode(INodeNo(node), 0, 0);
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_pages_are_not_appends() {
        let appending = OpenFlags(libc::O_WRONLY | libc::O_APPEND);
        assert!(appends(appending, WriteFlags::empty()));
        assert!(!appends(appending, WriteFlags::FUSE_WRITE_CACHE));
        assert!(!appends(OpenFlags(libc::O_WRONLY), WriteFlags::empty()));
    }
}
