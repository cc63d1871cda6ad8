//! One name in one directory, to a descriptor: the only way from a name to an object.
//!
//! Each step takes one name, relative to the descriptor of a directory, and never follows a
//! symbolic link, a magic link or a mount point (openat2 with `RESOLVE_BENEATH`,
//! `RESOLVE_NO_SYMLINKS`, `RESOLVE_NO_MAGICLINKS`, `RESOLVE_NO_XDEV`). A concurrent swap changes
//! what a name means, never where it is looked up.
//!
//! Without openat2 (before Linux 5.6, or a filter that forbids it) `openat` with `O_NOFOLLOW` does
//! the same, and an object on another mount (before Linux 5.8, on another device) is refused.
//! [`Resolver::child`] never gets `..`.

use super::object::Status;
use super::system::error_of;
use pagewell_fs::{Error, Result};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const INSIDE: ResolveFlags = ResolveFlags::NO_SYMLINKS
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const BENEATH: ResolveFlags = INSIDE.union(ResolveFlags::BENEATH);

pub(super) struct Resolver {
    lacks_openat2: AtomicBool,
    lacks_cached: bool,
    /// The number of the mount, where the kernel has one.
    mount: Option<u64>,
    device: u64,
}

impl Resolver {
    /// Tries the root of the export for what the kernel supports.
    pub(super) fn probe(root: BorrowedFd<'_>, status: &Status) -> Self {
        let lacks = |flags: ResolveFlags| {
            let opened = rustix::fs::openat2(root, c".", NAME_ONLY, Mode::empty(), flags);
            let missing = [Errno::NOSYS, Errno::PERM, Errno::INVAL];
            opened.is_err_and(|errno| missing.contains(&errno))
        };
        let lacks_openat2 = lacks(BENEATH);
        let lacks_cached = lacks(BENEATH | ResolveFlags::CACHED); // before Linux 5.12
        Self {
            lacks_openat2: AtomicBool::new(lacks_openat2),
            lacks_cached,
            mount: status.mount,
            device: status.node.device,
        }
    }

    #[cfg(test)]
    pub(super) fn pretend_old(&self) {
        self.lacks_openat2.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn is_old(&self) -> bool {
        self.lacks_openat2.load(Ordering::Relaxed)
    }

    /// Without `may_wait`, [`Error::WouldBlock`] when the kernel does not have the name in memory.
    pub(super) fn child(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        may_wait: bool,
    ) -> Result<OwnedFd> {
        let mut how = BENEATH;
        if !may_wait {
            let is_old = self.lacks_openat2.load(Ordering::Relaxed);
            Error::WouldBlock.when(is_old || self.lacks_cached)?;
            how |= ResolveFlags::CACHED;
        }
        self.open(directory, name, NAME_ONLY, Mode::empty(), how)
    }

    /// The caller must check that the parent is in the export.
    pub(super) fn parent(&self, directory: BorrowedFd<'_>) -> Result<OwnedFd> {
        let flags = NAME_ONLY | OFlags::DIRECTORY;
        self.open(directory, b"..", flags, Mode::empty(), INSIDE)
    }

    pub(super) fn create(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        mode: Mode,
    ) -> Result<OwnedFd> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        self.open(directory, name, flags, mode, BENEATH)
    }

    fn open(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        flags: OFlags,
        mode: Mode,
        how: ResolveFlags,
    ) -> Result<OwnedFd> {
        if !self.lacks_openat2.load(Ordering::Relaxed) {
            let opened = rustix::fs::openat2(directory, name, flags, mode, how);
            return opened.map_err(|errno| match errno {
                Errno::AGAIN if how.contains(ResolveFlags::CACHED) => Error::WouldBlock,
                errno => refused(errno),
            });
        }
        let opened = rustix::fs::openat(directory, name, flags, mode).map_err(refused)?;
        self.check_mount(&Status::of(&opened)?)?;
        Ok(opened)
    }

    pub(super) fn check_mount(&self, status: &Status) -> Result<()> {
        match self.same_mount(status) {
            true => Ok(()),
            false => Err(refused(Errno::XDEV)),
        }
    }

    pub(super) fn same_mount(&self, status: &Status) -> bool {
        match (self.mount, status.mount) {
            (Some(own), Some(other)) => own == other,
            _ => self.device == status.node.device,
        }
    }
}

fn refused(errno: Errno) -> Error {
    if errno == Errno::XDEV {
        return Error::AccessDenied;
    }
    error_of(errno)
}
