//! Whether an object is in the export.
//!
//! Problem: an identifier, and an object that is held open, lead to the object wherever it is. A
//! local program may have moved it, or a directory above it, out of the export.
//!
//! Rule: nothing can leave an export that is a whole file system. In any other, where an object is
//! gets asked when it is opened by handle, and again when it was last asked more than a
//! *turn* ago (a second, counted by the sweeper): so a call costs the comparison of two numbers,
//! and a busy object a readlink each second. A directory is asked at once when its change time has
//! moved, as being moved does, by each call that looks at it anyway.
//!
//! ```text
//!   path in /proc/self/fd beneath the export's? ──yes──────────────────────> inside
//!        │ no, or the kernel does not know it
//!        ├─ directory: `..` again and again leads to the export's root? ───> inside or outside
//!        ├─ file with one name, whose path is known ───────────────────────> outside
//!        └─ other file: has it a name anywhere in the export? (census) ────> inside or outside
//! ```
//!
//! What was just reached by a name in a directory of the export is inside. So is, for as long as it
//! is open, what a program has open through a mount of this machine: as on a local file system.
//!
//! Not detected: a file of which the census has found a name in this life of the server, that left
//! the export later, while nobody used it and the kernel forgot its path, or by the removal of that
//! one of its several names.

use super::object::{Object, link_to};
use super::status::Status;
use super::{Tree, mount, unless_short};
use pagewell_fs::{Error, FileType, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Directories between an object and the top of the mount that are walked at most.
const DEPTH_MAX: usize = 4096;

impl Tree {
    /// The time by which it is decided whether an object was asked lately where it is.
    pub(super) fn turn(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// From here on all objects are asked again.
    pub(super) fn end_turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Refuses a held object that has left the export, and lets go of it.
    pub(super) fn check_place(&self, object: &Object, may_wait: bool) -> Result<()> {
        if self.whole_mount || object.was_asked(self.turn()) {
            return Ok(());
        }
        self.check_place_of(object, &object.status()?, may_wait)
    }

    /// The same of an object that was just looked at, also when it was asked in this turn.
    pub(super) fn check_place_of(
        &self,
        object: &Object,
        status: &Status,
        may_wait: bool,
    ) -> Result<()> {
        let turn = self.turn();
        let stays = object.is_held() || self.is_gone(status);
        if stays || self.is_inside(object.as_fd(), status, may_wait)? {
            object.set_asked(turn, status);
            return Ok(());
        }
        self.release(object);
        Err(Error::Stale)
    }

    /// Whether an object is in the export. With `may_wait` false, [`Error::WouldBlock`] when the
    /// export has to be read to tell.
    pub(super) fn is_inside(
        &self,
        fd: BorrowedFd<'_>,
        status: &Status,
        may_wait: bool,
    ) -> Result<bool> {
        if self.whole_mount || status.node == self.root.node {
            return Ok(true);
        }
        let seen = match &self.original {
            Some(original) => {
                self.acting.become_server()?;
                unless_short(self.with_room(may_wait, || original.see(fd)))?
            }
            None => None,
        };
        let root = self.root_path();
        let path = path_of(seen.as_ref().map_or(fd, AsFd::as_fd));
        let known = path.as_ref().is_some_and(|path| is_known(path));
        if let (Some(root), Some(path), true) = (&root, &path, known)
            && let Some(below) = beneath(root, path)
            // where "/" is exported, what is outside has a path that begins so, too
            && (root != b"/" || self.leads_to(below, status, may_wait)?)
        {
            return Ok(true);
        }
        if status.attributes.file_type == FileType::Directory {
            return self.walks_to_root(fd, may_wait);
        }
        // the export itself may have been renamed between the two looks
        let settled = root.is_some() && self.root_path() == root;
        if known && settled && status.attributes.link_count == 1 {
            return Ok(false);
        }
        self.is_listed(status.node, may_wait)
    }

    /// The path of the export's root.
    pub(super) fn root_path(&self) -> Option<Vec<u8>> {
        let original = self.original.as_ref().map(mount::Original::root);
        path_of(original.unwrap_or_else(|| self.root.as_fd()))
    }

    /// Whether a path from the export's root leads to this object.
    fn leads_to(&self, path: &[u8], status: &Status, may_wait: bool) -> Result<bool> {
        let names = path.split(|byte| *byte == b'/');
        self.acting.become_server()?;
        let found = self.open_below(names.filter(|name| !name.is_empty()), may_wait)?;
        Ok(found.is_some_and(|(_, found)| found.node == status.node))
    }

    /// Opens what these names lead to from the export's root; `None` without any, or where they
    /// lead nowhere.
    pub(super) fn open_below<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]>,
        may_wait: bool,
    ) -> Result<Option<(OwnedFd, Status)>> {
        let mut at: Option<OwnedFd> = None;
        for name in names {
            let directory = at.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            at = self.child_if_any(directory, name, may_wait)?;
            if at.is_none() {
                return Ok(None);
            }
        }
        let found = at.and_then(|opened| {
            let status = Status::of(&opened).ok()?;
            Some((opened, status))
        });
        Ok(found)
    }

    /// Opens what a name means, if that can be opened; an error only where descriptors or memory
    /// are short.
    pub(super) fn child_if_any(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        may_wait: bool,
    ) -> Result<Option<OwnedFd>> {
        unless_short(self.with_room(may_wait, || self.resolver.child(directory, name, true)))
    }

    /// Whether `..`, again and again, leads from a directory to the export's root.
    pub(super) fn walks_to_root(&self, fd: BorrowedFd<'_>, may_wait: bool) -> Result<bool> {
        self.acting.become_server()?;
        let mut below = Status::of(fd)?.node;
        let mut at: Option<OwnedFd> = None;
        for _ in 0..DEPTH_MAX {
            let below_it = at.as_ref().map_or(fd, AsFd::as_fd);
            let parent = match self.with_room(may_wait, || self.resolver.parent(below_it)) {
                Ok(parent) => parent,
                // the top of the mount, or a directory that the mount does not show
                Err(Error::AccessDenied | Error::NotFound) => return Ok(false),
                Err(error) => return Err(error),
            };
            let status = Status::of(&parent)?;
            if status.node == self.root.node {
                return Ok(true);
            }
            if status.node == below || !self.resolver.same_mount(&status) {
                return Ok(false);
            }
            below = status.node;
            at = Some(parent);
        }
        Ok(false)
    }
}

/// The path of an open object as this process sees it.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let path = rustix::fs::readlink(link_to(fd), Vec::new())
        .ok()?
        .into_bytes();
    path.starts_with(b"/").then_some(path)
}

/// Whether the kernel knows the path: not of an object that was opened by handle and whose name is
/// not in memory, nor of one by a name that is gone.
fn is_known(path: &[u8]) -> bool {
    path.len() > 1 && !path.ends_with(b" (deleted)")
}

/// What of `path` is beneath `root`.
pub(super) fn beneath<'a>(root: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    path.strip_prefix(root)
        .filter(|rest| root.ends_with(b"/") || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beneath_means_a_whole_component() {
        assert_eq!(beneath(b"/a", b"/a/b"), Some(&b"/b"[..]));
        assert_eq!(beneath(b"/a", b"/ab"), None);
        assert_eq!(beneath(b"/a/b", b"/a"), None);
        assert_eq!(beneath(b"/", b"/x"), Some(&b"x"[..]));
    }
}
