//! Listing a directory.
//!
//! Problem: page after page, each untouched name exactly once while others come and go, at few
//! system calls per name, without a lock on the directory.
//!
//! Rule: the cookie of an entry is the position behind it as the file system itself tells it
//! (`d_off` of getdents64): on ext4 a hash of the name, on btrfs and tmpfs a number given at
//! creation, stable in all of them. Each listing has its own descriptor. What the kernel gave and
//! the visitor did not take is kept with the descriptor in the directory's object, so that
//! whoever continues at that cookie neither opens, seeks nor reads again; it is used only while
//! the directory's times have not moved since it was read (and only when they lay
//! [`SETTLED_NANOSECONDS`] back then, as a change within the clock's grain would not move them).
//!
//! With attributes, an entry costs one statx when its object is held open (a held inode number
//! cannot mean anything else) or when identifiers need only inode and birth time, and one
//! name_to_handle_at more otherwise. Between the two calls the name may change its meaning: the
//! inode number inside the handle is compared, and where the handle's layout is not known the
//! object is opened and both are asked of the descriptor. Nothing is put into the open-object
//! cache: a listing of a million names would sweep it clean.

use super::Tree;
use super::blocking;
use super::error_of;
use super::handle;
use super::naming::{Naming, Place};
use super::object::{Descriptor, Object, open_directory};
use super::status::Status;
use super::system;
use crate::{Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, Result, Timestamp};
use pagewell_counters::names;
use rustix::fs::SeekFrom;
use std::os::fd::{AsFd, BorrowedFd};

/// What one getdents64 may return: some 500 names, about what a page of 64 KiB with attributes
/// holds.
const BUFFER_BYTES: usize = 16 * 1024;
/// Timer ticks of the slowest kernels are 10 ms apart.
const SETTLED_NANOSECONDS: i128 = 20_000_000;

/// One entry as the kernel gives it.
#[derive(Clone, Copy)]
pub(super) struct RawEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: u64,
    /// Position behind the entry.
    pub(super) cookie: u64,
    /// It is a directory, or the file system does not say.
    pub(super) may_be_directory: bool,
}

/// A directory open for listing, standing behind an entry, with what was read ahead.
pub(super) struct Listing {
    file: Descriptor,
    /// Of the last entry taken; 0 at the start.
    pub(super) cookie: u64,
    bytes: Vec<u8>,
    at: usize,
    /// Times of the directory when `bytes` was read; `None`: not to be used later.
    read_when: Option<(Timestamp, Timestamp)>,
}

impl Listing {
    fn open(directory: BorrowedFd<'_>, cookie: u64) -> Result<Self> {
        let file = open_directory(directory)?;
        if cookie != 0 {
            if i64::try_from(cookie).is_err() {
                return Err(Error::BadCookie);
            }
            rustix::fs::seek(&file, SeekFrom::Start(cookie)).map_err(|_| Error::BadCookie)?;
        }
        Ok(Self {
            file: Descriptor::new(file),
            cookie,
            bytes: Vec::with_capacity(BUFFER_BYTES),
            at: 0,
            read_when: None,
        })
    }

    /// Reads more when everything was taken; false at the end of the directory.
    fn fill(&mut self) -> Result<bool> {
        if self.at < self.bytes.len() {
            return Ok(true);
        }
        self.bytes.clear();
        self.at = 0;
        system::read_entries(self.file.file().as_fd(), &mut self.bytes).map_err(error_of)
    }

    /// Whether what was read ahead is still what the directory holds.
    fn is_current(&self, status: &Status) -> bool {
        self.at >= self.bytes.len() || self.read_when == Some(times_of(status))
    }
}

fn times_of(status: &Status) -> (Timestamp, Timestamp) {
    (status.modified(), status.changed())
}

/// Parses the entry at `at` and says where the next one begins; `None` when there is no whole one.
fn parse(bytes: &[u8], at: usize) -> Option<(RawEntry<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let number = |from: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(
            rest.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    let length = u16::from_ne_bytes(rest.get(16..18)?.try_into().ok()?);
    let kind = *rest.get(18)?;
    let name = rest.get(19..usize::from(length))?;
    let name = name.split(|byte| *byte == 0).next()?;
    let entry = RawEntry {
        name,
        inode: number(0)?,
        cookie: number(8)?,
        may_be_directory: kind == libc::DT_DIR || kind == libc::DT_UNKNOWN,
    };
    Some((entry, at + usize::from(length)))
}

/// All entries of an open directory from where it stands, until `visit` returns false.
pub(super) fn each_entry(
    directory: BorrowedFd<'_>,
    visit: &mut dyn FnMut(&RawEntry<'_>) -> bool,
) -> Result<()> {
    let mut bytes = Vec::with_capacity(BUFFER_BYTES);
    while system::read_entries(directory, &mut bytes).map_err(error_of)? {
        let mut at = 0;
        while let Some((entry, next)) = parse(&bytes, at) {
            if !visit(&entry) {
                return Ok(());
            }
            at = next;
        }
        bytes.clear();
    }
    Ok(())
}

type Visitor<'a> = &'a mut dyn FnMut(&DirectoryEntry<'_>) -> bool;

impl Tree {
    /// [`crate::FileSystem::read_directory`].
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
        let status = self.look(&directory)?;
        let mut listing = self.listing_at(call, &directory, &status, cookie)?;
        let end = self.list(call, &directory, &mut listing, with_attributes, visit)?;
        let after = self.look(&directory)?;
        if !end {
            let times = times_of(&status);
            let settled =
                nanoseconds(Timestamp::now()) - nanoseconds(times.1) > SETTLED_NANOSECONDS;
            listing.read_when = (settled && times == times_of(&after)).then_some(times);
            directory.leave_listing(listing);
        }
        Ok(DirectoryPage {
            attributes: self.attributes_of(&after)?,
            end,
        })
    }

    fn listing_at(
        &self,
        call: &Call<'_>,
        directory: &Object,
        status: &Status,
        cookie: u64,
    ) -> Result<Listing> {
        let caller = self.acting.caller(call);
        if let Some(listing) = directory.take_listing(cookie)
            && listing.is_current(status)
            && self.permits(directory, status, &caller, 4)?
        {
            names::DIR_LISTINGS_CONTINUED.add(1);
            return Ok(listing);
        }
        names::DIR_LISTINGS_OPENED.add(1);
        self.acting.become_caller(&caller)?;
        Listing::open(directory.as_fd(), cookie)
    }

    fn list(
        &self,
        call: &Call<'_>,
        directory: &Object,
        listing: &mut Listing,
        with_attributes: bool,
        visit: Visitor<'_>,
    ) -> Result<bool> {
        let caller = self.acting.caller(call);
        while listing.fill()? {
            let bytes = std::mem::take(&mut listing.bytes);
            let mut more = true;
            while more && let Some((raw, next)) = parse(&bytes, listing.at) {
                let entry = if with_attributes {
                    self.acting.become_caller(&caller)?;
                    self.examine(directory, &raw)
                } else {
                    None
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
        Ok(true)
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

    /// Identifier and attributes of a listed name, judged as the caller whom the thread acts for.
    fn examine(&self, directory: &Object, raw: &RawEntry<'_>) -> Option<Entry> {
        let is_root = directory.node == self.root.node;
        if raw.name == b"." || raw.name == b".." && is_root {
            let status = directory.status().ok()?;
            return self.entry_of(directory, &status).ok();
        }
        if raw.name == b".." {
            let (parent, status) = self.parent_of(directory).ok()?;
            return self.entry_of(&parent, &status).ok();
        }
        let status = Status::of_name(directory.as_fd(), raw.name).ok()?;
        if !self.same_mount(&status) {
            return None;
        }
        let place = Place::Child(directory, raw.name);
        let attributes = self.attributes_of(&status).ok()?;
        if let Some(object) = self.held(&status, &place) {
            return Some(Entry {
                id: object.id,
                attributes,
            });
        }
        let id = match &self.naming {
            Naming::Trails(_) => self.identify(directory.as_fd(), &status, &place).ok()?,
            Naming::Handles => {
                let made = system::name_to_handle(directory.as_fd(), raw.name).ok()?;
                if handle::inode_in(self.magic, &made) != Some(status.node().inode) {
                    return self.examine_opened(directory, raw);
                }
                handle::id_of(&made)?
            }
        };
        Some(Entry { id, attributes })
    }

    /// The slower way that cannot mix two objects.
    fn examine_opened(&self, directory: &Object, raw: &RawEntry<'_>) -> Option<Entry> {
        names::DIR_LISTING_DOUBTS.add(1);
        let opened = self
            .resolver
            .child(directory.as_fd(), raw.name, true)
            .ok()?;
        let status = Status::of(&opened).ok()?;
        let place = Place::Child(directory, raw.name);
        Some(Entry {
            id: self.identify(opened.as_fd(), &status, &place).ok()?,
            attributes: self.attributes_of(&status).ok()?,
        })
    }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}
