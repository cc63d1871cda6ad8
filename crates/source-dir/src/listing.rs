//! Listing a directory.
//!
//! Problem: page after page, each untouched name exactly once while others come and go, at few
//! system calls per name, without a lock on the directory.
//!
//! Rule: the cookie of an entry is the position behind it as the file system itself tells it
//! (`d_off` of getdents64): on ext4 a hash of the name, on XFS a place, on btrfs a number given
//! at creation, stable in all of them (`entries` has what is done elsewhere). Each listing has its
//! own descriptor. What the kernel gave and the visitor did not take is kept with the descriptor,
//! for a few listings, so that a call that continues at that cookie neither opens, seeks nor reads
//! again; it is used only while the directory's times have not moved since it was read (and only
//! when they lay 20 ms back then, as a change within the clock's grain would not move them).
//!
//! With attributes, an entry costs one statx when its object is held open (a held inode number
//! cannot mean anything else) or when identifiers need only inode and birth time, and one
//! name_to_handle_at more otherwise. Between the two calls the name may change its meaning: the
//! inode number inside the handle is compared, and where the handle's layout is not known the
//! object is opened and both are asked of the descriptor. What was read is remembered for a moment
//! (`remembered`): then an entry costs no system call at all. Where the names are kept, too
//! (`kept_names`), the names cost none either. Nothing is put into the open-object cache: a listing
//! of a million names would sweep it clean.

use super::Tree;
use super::blocking;
use super::entries::{Filled, Listing, RawEntry, parse};
use super::handle;
use super::identity::Caller;
use super::kept_names::Gathered;
use super::object::{Object, open_directory};
use super::objects::{Naming, Place};
use super::remembered::Moment;
use super::status::Status;
use super::system;
use pagewell_counters::names;
use pagewell_fs::access::{EXECUTE, READ};
use pagewell_fs::{Call, DirectoryEntry, DirectoryPage, Entry, FileId, Result};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

type Visitor<'a> = &'a mut dyn FnMut(&DirectoryEntry<'_>) -> bool;

impl Tree {
    /// [`pagewell_fs::FileSystem::read_directory`].
    pub(super) fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: Visitor<'_>,
    ) -> Result<DirectoryPage> {
        blocking::may_wait(call)?;
        let directory = self.directory(call, directory)?;
        let status = self.look(&directory, true)?;
        self.judge(call, &directory, &status).check(READ)?;
        let memory = match with_attributes {
            true => self.memory_for(call, &directory, &status)?,
            false => None,
        };
        let mut listing = self.listing_at(&directory, &status, cookie, memory)?;
        let detail = with_attributes.then_some(memory);
        let end = self.list(call, &directory, &mut listing, detail, visit)?;
        // Of names that were kept the times are those from before: a client that knew later times
        // would take the names for those of a later state, and not ask again.
        let after = match listing.is_kept() {
            true => status,
            false => self.look(&directory, true)?,
        };
        if !end {
            listing.note_times(&status, &after);
            self.listings.leave(directory.node, listing);
        } else if let Some(gathered) = listing.gathered {
            let inode = directory.node.inode;
            self.remembered.end_names(inode, gathered);
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
        memory: Option<Moment>,
    ) -> Result<Listing> {
        let memory = memory.filter(|_| !status.is_encrypted);
        let inode = directory.node.inode;
        let names = memory.and_then(|moment| self.remembered.names(moment, inode));
        if let Some(listing) = names.and_then(|names| Listing::of_names(names, cookie)) {
            names::DIR_LISTINGS_REMEMBERED.add(1);
            return Ok(listing);
        }
        if let Some(listing) = self.listings.take(directory.node, cookie)
            && listing.is_current(status)
        {
            return Ok(listing);
        }
        self.acting.become_server()?;
        if self.orders_listings.load(Ordering::Relaxed) {
            return self.ordered_at(directory, cookie, cookie);
        }
        let open = || Listing::open(directory.as_fd(), cookie);
        let mut listing = self.with_room(true, open)?;
        if cookie == 0 {
            let ticket = memory.and_then(|moment| self.remembered.begin_names(moment, inode));
            listing.gathered = ticket.map(Gathered::new);
        }
        Ok(listing)
    }

    /// A listing in an order of our own that stands behind the entry of `cookie`, when all entries
    /// up to `from` were given. With the identity of the server.
    fn ordered_at(&self, directory: &Object, cookie: u64, from: u64) -> Result<Listing> {
        let look = || self.look(directory, true);
        let open = || self.with_room(true, || open_directory(directory.as_fd()));
        let window = self.ordered.window(&open, directory.node, from, &look)?;
        let mut listing = Listing::of_window(window, from);
        listing.cookie = cookie;
        Ok(listing)
    }

    /// Whether what is remembered of objects may be used: the kernel reports changes here, and
    /// this caller may search the directory, as asking for the attributes of a name requires.
    fn memory_for(
        &self,
        call: &Call<'_>,
        directory: &Object,
        status: &Status,
    ) -> Result<Option<Moment>> {
        let known = [handle::EXT4_MAGIC, handle::XFS_MAGIC, handle::TMPFS_MAGIC];
        let usable = matches!(self.naming, Naming::Handles)
            && known.contains(&self.magic)
            && self.judge(call, directory, status).permits(EXECUTE)?;
        let begin = || self.remembered.begin(self.root.as_fd(), self.magic);
        Ok(usable.then(begin).flatten())
    }

    /// Gives the entries that follow to `visit`, with attributes if a detail is wanted: with what
    /// is remembered of them, where that may be used.
    fn list(
        &self,
        call: &Call<'_>,
        directory: &Object,
        listing: &mut Listing,
        detail: Option<Option<Moment>>,
        visit: Visitor<'_>,
    ) -> Result<bool> {
        let caller = self.acting.caller(call);
        loop {
            let from = match listing.fill()? {
                Filled::Entries => None,
                Filled::End => return Ok(true),
                Filled::Further(from) => Some(from),
                Filled::Unsound => {
                    self.orders_listings.store(true, Ordering::Relaxed);
                    Some(listing.cookie)
                }
            };
            if let Some(from) = from {
                self.acting.become_server()?;
                *listing = self.ordered_at(directory, listing.cookie, from)?;
                continue;
            }
            let bytes = std::mem::take(&mut listing.bytes);
            let mut more = true;
            while more && let Some((raw, next)) = parse(&bytes, listing.at) {
                let entry = match detail {
                    None => None,
                    Some(memory) => self.recall(directory, &raw, &caller, memory)?,
                };
                let entry = DirectoryEntry {
                    name: raw.name,
                    file_id: self.listed_number(directory, &raw, entry.as_ref()),
                    cookie: raw.cookie,
                    entry,
                };
                more = visit(&entry);
                if more {
                    listing.at = next;
                    listing.cookie = raw.cookie;
                }
            }
            listing.bytes = bytes;
            if !more {
                return Ok(false);
            }
            listing.at = listing.bytes.len();
        }
    }

    fn listed_number(&self, directory: &Object, raw: &RawEntry<'_>, entry: Option<&Entry>) -> u64 {
        let is_root = directory.node == self.root.node;
        match (entry, raw.name) {
            (Some(entry), _) => entry.attributes.file_id,
            (None, b".") => directory.node.inode,
            (None, b"..") if is_root => directory.node.inode,
            _ => raw.inode,
        }
    }

    /// Identifier and attributes of a listed name: what is remembered, or what is there.
    fn recall(
        &self,
        directory: &Object,
        raw: &RawEntry<'_>,
        caller: &Caller<'_>,
        memory: Option<Moment>,
    ) -> Result<Option<Entry>> {
        let memory = memory.filter(|_| !raw.is_dots());
        if let Some(moment) = memory
            && let Some(entry) = self.remembered.get(moment, raw.inode)
        {
            names::DIR_ATTRIBUTES_REMEMBERED.add(1);
            return Ok(Some(entry));
        }
        self.acting.become_caller(caller)?;
        let entry = self.examine(directory, raw);
        if let (Some(moment), Some(entry)) = (memory, entry)
            && entry.attributes.file_id == raw.inode
            && entry.attributes.may_be_kept
        {
            self.remembered.put(moment, raw.inode, entry);
        }
        Ok(entry)
    }

    /// Identifier and attributes of a listed name, judged as the caller whom the thread acts for.
    fn examine(&self, directory: &Object, raw: &RawEntry<'_>) -> Option<Entry> {
        let is_root = directory.node == self.root.node;
        if raw.name == b"." || raw.name == b".." && is_root {
            let status = directory.status().ok()?;
            return Some(directory.entry(&status));
        }
        if raw.name == b".." {
            let (parent, status) = self.parent_of(directory).ok()?;
            return Some(parent.entry(&status));
        }
        let status = Status::of_name(directory.as_fd(), raw.name).ok()?;
        if !self.resolver.same_mount(&status) {
            return None;
        }
        let place = Place::Child(directory, raw.name);
        let id = match (self.held(&status, &place), &self.naming) {
            (Some(object), _) => return Some(object.entry(&status)),
            (None, Naming::PathHints(_)) if status.node.device == directory.node.device => {
                self.identify(directory.as_fd(), &status, &place).ok()?
            }
            (None, Naming::PathHints(_)) => return self.examine_opened(directory, raw),
            (None, Naming::Handles) => {
                let made = system::name_to_handle(directory.as_fd(), raw.name).ok()?;
                if handle::inode_in(self.magic, &made) != Some(status.node.inode) {
                    return self.examine_opened(directory, raw);
                }
                handle::id_of(&made)?
            }
        };
        Some(Entry {
            id,
            attributes: status.attributes,
        })
    }

    /// The slower way that cannot mix two objects.
    fn examine_opened(&self, directory: &Object, raw: &RawEntry<'_>) -> Option<Entry> {
        let opened = self
            .resolver
            .child(directory.as_fd(), raw.name, true)
            .ok()?;
        let status = Status::of(&opened).ok()?;
        let place = Place::Child(directory, raw.name);
        Some(Entry {
            id: self.identify(opened.as_fd(), &status, &place).ok()?,
            attributes: status.attributes,
        })
    }
}
