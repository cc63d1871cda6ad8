//! The bounds of an export: the mount it is used through, and whether an object is in it.
//!
//! *Mounts.* File systems mounted in an export are not exported: their inode numbers and handles
//! would collide. Where the kernel permits (root, Linux 5.12) the export is used through a private
//! mount, which shows the directories beneath mount points. The original mount stays open: it keeps
//! the file system mounted, and only in it objects have paths. Elsewhere mount points are listed,
//! and calls on them are refused.
//!
//! *Containment.* A handle follows its object wherever a local program moves it. Where the export
//! is no whole file system, an object is checked when it is opened by handle, and when the last
//! check is more than a *turn* ago (a second, `directory`), which costs a busy object a readlink
//! each second. A directory is checked at once when its change time has moved.
//!
//! ```text
//!   path in /proc/self/fd beneath the export's? ──yes──────────────────────> inside
//!        │ no, or the kernel does not know it
//!        ├─ directory: `..` again and again leads to the export's root? ───> inside or outside
//!        ├─ file with one name, whose path is known ───────────────────────> outside
//!        └─ other file ────────────────────────────────────────────────────> inside
//! ```
//!
//! Objects just reached by a name are inside, and those that a program has open through a mount of
//! this machine.
//!
//! Weakness: a file that was moved out stays reachable by handles where the kernel has forgotten
//! its path, or where it had several names, as with knfsd's `no_subtree_check`.

use super::access::Access;
use super::identifier;
use super::object::{Inode, Object, Status, link_to, open_directory};
use super::resolve::Resolver;
use super::system::{self, error_of, unless_short};
use super::table::Table;
use pagewell_base::mounts::{fields, mountinfo, plain};
use pagewell_fs::{Error, FileType, OpenFile, Result};
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Bound of directories between an object and the top of the mount.
const DEPTH_MAX: usize = 4096;

pub(super) struct Bounds {
    /// Open for reading: its descriptor names the file system to open_by_handle_at and syncfs.
    root: Arc<Object>,
    access: Arc<Access>,
    table: Arc<Table>,
    resolver: Resolver,
    /// The mount of which that of `root` is a private copy.
    original: Option<Original>,
    is_whole: bool,
}

impl Bounds {
    pub(super) fn new(
        root: &Arc<Object>,
        access: &Arc<Access>,
        table: &Arc<Table>,
        resolver: Resolver,
        (original, is_whole): (Option<Original>, bool),
    ) -> Self {
        Self {
            root: Arc::clone(root),
            access: Arc::clone(access),
            table: Arc::clone(table),
            resolver,
            original,
            is_whole,
        }
    }

    pub(super) fn root(&self) -> &Arc<Object> {
        &self.root
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(super) fn has_own_mount(&self) -> bool {
        self.original.is_some()
    }

    pub(super) fn inode_of(&self, opened: impl AsFd, status: &Status) -> Result<Inode> {
        Inode::of(opened, status, self.root.node().device)
    }

    pub(super) fn mounts_inside(&self) -> Vec<PathBuf> {
        self.root_path().map_or_else(Vec::new, |path| below(&path))
    }

    pub(super) fn is_inside(
        &self,
        fd: BorrowedFd<'_>,
        status: &Status,
        may_wait: bool,
    ) -> Result<bool> {
        if self.is_whole || status.node == self.root.node() {
            return Ok(true);
        }
        let seen = match &self.original {
            Some(original) => {
                self.access.become_server()?;
                unless_short(self.table.with_room(may_wait, || original.see(fd)))?
            }
            None => None,
        };
        let root = self.root_path();
        let path = path_of(seen.as_ref().map_or(fd, AsFd::as_fd));
        let known = path.as_ref().is_some_and(|path| is_known(path));
        if let (Some(root), Some(path), true) = (&root, &path, known)
            && let Some(below) = beneath(root, path)
            // Where "/" is exported, paths outside begin so, too.
            && (root != b"/" || self.leads_to(below, status, may_wait)?)
        {
            return Ok(true);
        }
        if status.attributes.file_type == FileType::Directory {
            return self.walks_to_root(fd, may_wait);
        }
        // The export may have been renamed between the two looks.
        let settled = root.is_some() && self.root_path() == root;
        let is_only_name = status.attributes.link_count == 1;
        Ok(!(known && settled && is_only_name))
    }

    pub(super) fn root_path(&self) -> Option<Vec<u8>> {
        let original = self.original.as_ref().map(|original| original.root.as_fd());
        path_of(original.unwrap_or_else(|| self.root.as_fd()))
    }

    fn leads_to(&self, path: &[u8], status: &Status, may_wait: bool) -> Result<bool> {
        let names = path.split(|byte| *byte == b'/');
        self.access.become_server()?;
        let found = self.open_below(names.filter(|name| !name.is_empty()), may_wait)?;
        Ok(found.is_some_and(|(_, found)| found.node == status.node))
    }

    /// `None` for an empty or missing path.
    pub(super) fn open_below<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]>,
        may_wait: bool,
    ) -> Result<Option<(OwnedFd, Status)>> {
        let mut at: Option<OwnedFd> = None;
        for name in names {
            let directory = at.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            at = self.child(directory, name, may_wait)?;
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

    /// An error only where descriptors or memory are short.
    pub(super) fn child(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        may_wait: bool,
    ) -> Result<Option<OwnedFd>> {
        unless_short(
            self.table
                .with_room(may_wait, || self.resolver.child(directory, name, true)),
        )
    }

    pub(super) fn walks_to_root(&self, fd: BorrowedFd<'_>, may_wait: bool) -> Result<bool> {
        self.access.become_server()?;
        let mut below = Status::of(fd)?.node;
        let mut at: Option<OwnedFd> = None;
        for _ in 0..DEPTH_MAX {
            let below_it = at.as_ref().map_or(fd, AsFd::as_fd);
            let parent = match self
                .table
                .with_room(may_wait, || self.resolver.parent(below_it))
            {
                Ok(parent) => parent,
                // The top of the mount, or a directory that the mount does not show.
                Err(Error::AccessDenied | Error::NotFound) => return Ok(false),
                Err(error) => return Err(error),
            };
            let status = Status::of(&parent)?;
            if status.node == self.root.node() {
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

pub(super) struct Original {
    root: OpenFile,
    _own: OwnedFd,
}

impl Original {
    fn see(&self, object: BorrowedFd<'_>) -> Result<OwnedFd> {
        let made = system::name_to_handle(object, b"").map_err(error_of)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        system::open_by_handle(self.root.as_fd(), &made, flags).map_err(error_of)
    }
}

/// Replaces the mount by a private one, where the kernel permits.
pub(super) fn own(root: OpenFile) -> Result<(OpenFile, Option<Original>)> {
    let Ok(own) = system::own_mount(root.as_fd()) else {
        return Ok((root, None));
    };
    // The rule of a sandbox for a directory above does not cover the private mount.
    let opened = open_directory(own.as_fd());
    let Some(opened) = opened
        .ok()
        .filter(|opened| identifier::works(opened.as_fd()))
    else {
        return Ok((root, None));
    };
    let original = Original { root, _own: own };
    Ok((opened, Some(original)))
}

/// The root of a mount that shows the file system from its own root (a bind mount may show a part).
pub(super) fn is_whole(root: &Status) -> bool {
    let Some(number) = root.mount.filter(|_| root.is_mount_root) else {
        return false;
    };
    let number = number.to_string();
    fields(&mountinfo()).any(|fields| {
        fields.first() == Some(&number.as_bytes()) && fields.get(3) == Some(&&b"/"[..])
    })
}

fn below(root: &[u8]) -> Vec<PathBuf> {
    let mounts = mountinfo();
    let points = fields(&mounts).filter_map(|fields| fields.get(4).map(|point| plain(point)));
    let mut below: Vec<PathBuf> = points
        .filter(|point| beneath(root, point).is_some_and(|rest| rest != b""))
        .map(|point| PathBuf::from(OsString::from_vec(point)))
        .collect();
    below.sort();
    below.dedup();
    below
}

pub(super) fn path_of(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let path = rustix::fs::readlink(link_to(fd), Vec::new())
        .ok()?
        .into_bytes();
    path.starts_with(b"/").then_some(path)
}

/// Not for an object opened by handle whose name is not in memory, nor for a removed name.
fn is_known(path: &[u8]) -> bool {
    path.len() > 1 && !path.ends_with(b" (deleted)")
}

fn beneath<'a>(root: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
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
