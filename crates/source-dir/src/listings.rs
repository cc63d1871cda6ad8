//! Listing a directory: each untouched name exactly once while others come and go, page by page.
//!
//! The cookie of an entry is the file system's position behind it (`d_off` of getdents64): on ext4
//! a hash of the name, on XFS a place, on btrfs a number given at creation, stable in all of them.
//! Each listing has its own descriptor. Entries that the visitor did not take stay with it, for a
//! few listings: a call that continues there neither opens, seeks nor reads. They are used only
//! while the directory's times have not moved since the reading (and were 20 ms old then, the
//! clock's grain).
//!
//! With attributes, an entry costs one statx when its object is held open or when identifiers need
//! only inode and birth time, and one name_to_handle_at more otherwise. Between the two calls the
//! name may change its meaning: the inode number inside the handle is compared, and where its
//! layout is not known an open object is asked for both. Attributes (`memory`) and names
//! (`kept_names`) are remembered for a moment: a repeated listing of 1000 names costs 10 system
//! calls with them, 2,022 without. Listed objects do not enter the table: they would evict all
//! others.

mod cursor;
mod kept_names;
mod memory;
mod ordered;
mod watch;

use super::access::Caller;
use super::entries::RawEntry;
use super::identifier::{self, EXT4_MAGIC, TMPFS_MAGIC, XFS_MAGIC};
use super::object::{Object, Status, open_directory};
use super::objects::{Naming, Objects, Reached};
use super::system;
use pagewell_counters::names;
use pagewell_fs::access::{EXECUTE, READ};
use pagewell_fs::{Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cursor::{Cursor, Filled};
use memory::{Memory, Snapshot};

pub(super) use cursor::OpenListings;

type Visitor<'a> = &'a mut dyn FnMut(&DirectoryEntry<'_>) -> bool;

pub(super) struct Listings {
    objects: Arc<Objects>,
    open: Arc<OpenListings>,
    memory: Memory,
    /// Statfs `f_type`.
    magic: i64,
    /// The file system has no positions that can be cookies.
    are_ordered: AtomicBool,
}

impl Listings {
    pub(super) fn new(
        objects: &Arc<Objects>,
        open: &Arc<OpenListings>,
        magic: i64,
        are_ordered: bool,
    ) -> Self {
        Self {
            objects: Arc::clone(objects),
            open: Arc::clone(open),
            memory: Memory::default(),
            magic,
            are_ordered: AtomicBool::new(are_ordered),
        }
    }

    /// After a change that the kernel does not report.
    pub(super) fn forget(&self, object: &Object) {
        self.memory.forget(object.node().inode);
    }

    pub(super) fn rest(&self) {
        self.memory.rest(Instant::now());
    }

    pub(super) fn end(&self) {
        self.open.forget_all();
        self.memory.end();
    }

    #[cfg(test)]
    pub(super) fn are_ordered(&self) -> &AtomicBool {
        &self.are_ordered
    }

    pub(super) fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: Visitor<'_>,
    ) -> Result<DirectoryPage> {
        Error::WouldBlock.unless(call.may_block)?;
        let directory = self.objects.directory(call, directory)?;
        let status = self.objects.look(&directory, true)?;
        self.objects
            .access()
            .judge(call, &directory, &status)
            .check(READ)?;
        let memory = match with_attributes {
            true => self.memory_for(call, &directory, &status)?,
            false => None,
        };
        let mut listing = self.listing_at(&directory, &status, cookie, memory)?;
        let detail = with_attributes.then_some(memory);
        let end = self.list(call, &directory, &mut listing, detail, visit)?;
        // For kept names, the times from before: later ones would show a later state.
        let after = match listing.is_kept() {
            true => status,
            false => self.objects.look(&directory, true)?,
        };
        if !end {
            listing.note_times(&status, &after);
            self.open.leave(directory.node(), listing);
        } else if let Some(gathered) = listing.into_gathered() {
            self.memory.end_names(directory.node().inode, gathered);
        }
        Ok(DirectoryPage {
            attributes: after.attributes,
            end,
            unusable: 0,
        })
    }

    fn listing_at(
        &self,
        directory: &Object,
        status: &Status,
        cookie: u64,
        memory: Option<Snapshot>,
    ) -> Result<Cursor> {
        let memory = memory.filter(|_| !status.is_encrypted);
        let inode = directory.node().inode;
        let names = memory.and_then(|snapshot| self.memory.names(snapshot, inode));
        if let Some(listing) = names.and_then(|names| Cursor::of_names(names, cookie)) {
            names::DIR_LISTINGS_REMEMBERED.add(1);
            return Ok(listing);
        }
        if let Some(listing) = self.open.take(directory.node(), cookie)
            && listing.is_current(status)
        {
            return Ok(listing);
        }
        self.objects.access().become_server()?;
        if self.are_ordered.load(Ordering::Relaxed) {
            return self.ordered_at(directory, cookie, cookie);
        }
        let open = || Cursor::open(directory.as_fd(), cookie);
        let mut listing = self.objects.table().with_room(true, open)?;
        if cookie == 0 {
            listing.gather(memory.and_then(|snapshot| self.memory.begin_names(snapshot, inode)));
        }
        Ok(listing)
    }

    /// A listing in an order of our own behind the entry of `from`, with the cookie `cookie`. Runs
    /// as the server.
    fn ordered_at(&self, directory: &Object, cookie: u64, from: u64) -> Result<Cursor> {
        let objects = &self.objects;
        let look = || objects.look(directory, true);
        let open_it = || open_directory(directory.as_fd());
        let open = || objects.table().with_room(true, open_it);
        let ordered = self.open.ordered();
        let window = ordered.window(&open, directory.node(), from, &look)?;
        Ok(Cursor::of_window(window, from).after(cookie))
    }

    /// Where the kernel reports changes and the caller may search the directory, as attributes of a
    /// name require.
    fn memory_for(
        &self,
        call: &Call<'_>,
        directory: &Object,
        status: &Status,
    ) -> Result<Option<Snapshot>> {
        let known = [EXT4_MAGIC, XFS_MAGIC, TMPFS_MAGIC];
        let usable = matches!(self.objects.naming(), Naming::Handles)
            && known.contains(&self.magic)
            && self
                .objects
                .access()
                .judge(call, directory, status)
                .permits(EXECUTE)?;
        let begin = || self.memory.begin(self.objects.root().as_fd(), self.magic);
        Ok(usable.then(begin).flatten())
    }

    /// Visits the entries that follow; with attributes if `detail` is given, from the memory where
    /// it has one.
    fn list(
        &self,
        call: &Call<'_>,
        directory: &Object,
        listing: &mut Cursor,
        detail: Option<Option<Snapshot>>,
        visit: Visitor<'_>,
    ) -> Result<bool> {
        let caller = self.objects.access().caller(call);
        loop {
            let from = match listing.fill()? {
                Filled::Entries => None,
                Filled::End => return Ok(true),
                Filled::Further(from) => Some(from),
                Filled::Unsound => {
                    self.are_ordered.store(true, Ordering::Relaxed);
                    Some(listing.cookie())
                }
            };
            if let Some(from) = from {
                self.objects.access().become_server()?;
                *listing = self.ordered_at(directory, listing.cookie(), from)?;
                continue;
            }
            let more = listing.visit(|raw| {
                let entry = match detail {
                    None => None,
                    Some(memory) => self.recall(directory, raw, &caller, memory)?,
                };
                Ok(visit(&DirectoryEntry {
                    name: raw.name,
                    file_id: self.listed_number(directory, raw, entry.as_ref()),
                    cookie: raw.cookie,
                    entry,
                }))
            })?;
            if !more {
                return Ok(false);
            }
        }
    }

    fn listed_number(&self, directory: &Object, raw: &RawEntry<'_>, entry: Option<&Entry>) -> u64 {
        let is_root = directory.node() == self.objects.root().node();
        match (entry, raw.name) {
            (Some(entry), _) => entry.attributes.file_id,
            (None, b".") => directory.node().inode,
            (None, b"..") if is_root => directory.node().inode,
            _ => raw.inode,
        }
    }

    fn recall(
        &self,
        directory: &Object,
        raw: &RawEntry<'_>,
        caller: &Caller<'_>,
        memory: Option<Snapshot>,
    ) -> Result<Option<Entry>> {
        let memory = memory.filter(|_| !raw.is_dots());
        if let Some(snapshot) = memory
            && let Some(entry) = self.memory.get(snapshot, raw.inode)
        {
            names::DIR_ATTRIBUTES_REMEMBERED.add(1);
            return Ok(Some(entry));
        }
        self.objects.access().become_caller(caller)?;
        let entry = self.examine(directory, raw);
        if let (Some(snapshot), Some(entry)) = (memory, entry)
            && entry.attributes.file_id == raw.inode
            && entry.attributes.may_be_kept
        {
            self.memory.put(snapshot, raw.inode, entry);
        }
        Ok(entry)
    }

    /// Judged by the thread's identity.
    fn examine(&self, directory: &Object, raw: &RawEntry<'_>) -> Option<Entry> {
        let is_root = directory.node() == self.objects.root().node();
        if raw.name == b"." || raw.name == b".." && is_root {
            let status = directory.status().ok()?;
            return Some(directory.entry(&status));
        }
        if raw.name == b".." {
            let (parent, status) = self.objects.parent_of(directory).ok()?;
            return Some(parent.entry(&status));
        }
        let status = Status::of_name(directory.as_fd(), raw.name).ok()?;
        let (objects, bounds) = (&self.objects, self.objects.bounds());
        if !bounds.resolver().same_mount(&status) {
            return None;
        }
        let reached = Reached::Child(directory, raw.name);
        let id = match (objects.held(&status, &reached), objects.naming()) {
            (Some(object), _) => return Some(object.entry(&status)),
            (None, Naming::PathHints(_)) if status.node.device == directory.node().device => {
                objects
                    .identify(directory.as_fd(), &status, &reached)
                    .ok()?
            }
            (None, Naming::PathHints(_)) => return self.examine_opened(directory, raw),
            (None, Naming::Handles) => {
                let made = system::name_to_handle(directory.as_fd(), raw.name).ok()?;
                if identifier::inode_in(self.magic, &made) != Some(status.node.inode) {
                    return self.examine_opened(directory, raw);
                }
                identifier::id_of(&made)?
            }
        };
        Some(Entry {
            id,
            attributes: status.attributes,
        })
    }

    /// Slower, but cannot mix two objects.
    fn examine_opened(&self, directory: &Object, raw: &RawEntry<'_>) -> Option<Entry> {
        let resolver = self.objects.bounds().resolver();
        let opened = resolver.child(directory.as_fd(), raw.name, true).ok()?;
        let status = Status::of(&opened).ok()?;
        let reached = Reached::Child(directory, raw.name);
        let id = self.objects.identify(opened.as_fd(), &status, &reached);
        Some(Entry {
            id: id.ok()?,
            attributes: status.attributes,
        })
    }
}
