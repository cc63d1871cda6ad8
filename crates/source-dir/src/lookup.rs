//! From names to objects, and what names meant a moment ago.
//!
//! Problem: names are looked up again and again, by each client for itself. A table of them that
//! all threads share would have to be locked, and each use of it would move a cache line from one
//! processor to another.
//!
//! Rule: a small table for each thread, in which what is new overwrites what was at its place. What
//! a name means is only a guess: in a later moment ([`pagewell_fs::moment`]) it must be looked at,
//! with one system call instead of the three that open it. The table keeps nothing open.
//!
//! Weakness: a name that was taken away, and that the kernel does not remember, makes the thread
//! wait for the directory once.

use super::Tree;
use super::blocking;
use super::object::Object;
use super::objects::{Held, Place};
use super::status::Status;
use pagewell_fs::access::EXECUTE;
use pagewell_fs::{Call, Entry, Error, FileId, Result, moment};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

/// Names of a thread: those of a source tree's busiest directory.
const NAMES: usize = 256;

struct Found {
    directory: Weak<Object>,
    name: Box<[u8]>,
    object: Weak<Object>,
    /// The moment in which it was looked at, and how it was.
    seen: Option<(NonZeroU64, Status)>,
}

impl Found {
    fn is_of(&self, directory: &Arc<Object>, name: &[u8]) -> bool {
        *self.name == *name && self.directory.as_ptr() == Arc::as_ptr(directory)
    }
}

thread_local! {
    static FOUND: RefCell<Vec<Option<Found>>> = const { RefCell::new(Vec::new()) };
}

/// The object that `name` meant when this thread last found it, and how it is if that was in this
/// moment.
fn named(directory: &Arc<Object>, name: &[u8]) -> Option<(Arc<Object>, Option<Status>)> {
    FOUND.with_borrow(|all| {
        let found = all.get(slot_of(directory, name))?.as_ref()?;
        let is_same = found.is_of(directory, name);
        let object = is_same.then(|| found.object.upgrade())??;
        let seen = found.seen.filter(|seen| moment::current() == Some(seen.0));
        Some((object, seen.map(|seen| seen.1)))
    })
}

/// A name means this object, which is so.
fn note(directory: &Arc<Object>, name: &[u8], object: &Arc<Object>, status: &Status) {
    let seen = moment::current().map(|moment| (moment, *status));
    FOUND.with_borrow_mut(|all| {
        all.resize_with(NAMES, || None);
        match &mut all[slot_of(directory, name)] {
            Some(found)
                if found.is_of(directory, name) && found.object.as_ptr() == Arc::as_ptr(object) =>
            {
                found.seen = seen;
            }
            slot => {
                *slot = Some(Found {
                    directory: Arc::downgrade(directory),
                    name: name.into(),
                    object: Arc::downgrade(object),
                    seen,
                });
            }
        }
    });
}

#[allow(clippy::cast_possible_truncation)] // only the low bits are wanted
fn slot_of(directory: &Arc<Object>, name: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    directory.node.hash(&mut hasher);
    name.hash(&mut hasher);
    hasher.finish() as usize % NAMES
}

impl Tree {
    /// [`pagewell_fs::FileSystem::lookup`].
    pub(super) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let directory = self.directory(call, directory)?;
        match name {
            b"." => self.lookup_itself(call, &directory),
            b".." => self.lookup_parent(call, &directory),
            _ => {
                let (object, status) = match self.find_again(call, &directory, name)? {
                    Some(found) => found,
                    None => self.find(call, &directory, name)?,
                };
                note(&directory, name, &object, &status);
                Ok(object.entry(&status))
            }
        }
    }

    /// The object that `name` means, judged as the caller.
    pub(super) fn find(
        &self,
        call: &Call<'_>,
        directory: &Object,
        name: &[u8],
    ) -> Result<(Arc<Object>, Status)> {
        self.acting.become_caller(&self.acting.caller(call))?;
        let (directory_fd, may_wait) = (directory.as_fd(), call.may_block);
        let open = || self.resolver.child(directory_fd, name, may_wait);
        let opened = match self.with_room(may_wait, open) {
            Err(Error::NotFound) => {
                // there is no such name in a directory that is itself gone
                self.look(directory, may_wait)?;
                return Err(Error::NotFound);
            }
            opened => opened?,
        };
        let status = Status::of(&opened)?;
        self.resolver.check_mount(&status)?;
        let place = Place::Child(directory, name);
        let object = self.adopt(opened, &status, &place, call.may_block)?;
        Ok((object, status))
    }

    /// What `name` meant a moment ago, if it still does: one look, and in the same moment none.
    /// The object is held open, so the kernel has its name in memory and the look does not wait.
    fn find_again(
        &self,
        call: &Call<'_>,
        directory: &Held,
        name: &[u8],
    ) -> Result<Option<(Arc<Object>, Status)>> {
        let Some((object, status)) = named(directory, name) else {
            return Ok(None);
        };
        self.acting.become_caller(&self.acting.caller(call))?;
        let status = match status {
            Some(status) => {
                // another caller may not be allowed to
                let around = self.look_once(call, directory)?;
                if !self.judge(call, directory, &around).permits(EXECUTE)? {
                    return Ok(None);
                }
                status
            }
            None => match Status::of_name(directory.as_fd(), name) {
                Ok(status) if object.node == status.node => status,
                _ => return Ok(None),
            },
        };
        object.mark();
        Ok(Some((object, status)))
    }

    fn lookup_itself(&self, call: &Call<'_>, directory: &Held) -> Result<Entry> {
        let status = self.look_once(call, directory)?;
        self.judge(call, directory, &status).check(EXECUTE)?;
        Ok(directory.entry(&status))
    }

    fn lookup_parent(&self, call: &Call<'_>, directory: &Held) -> Result<Entry> {
        if directory.node == self.root.node {
            return self.lookup_itself(call, directory);
        }
        blocking::may_wait(call)?;
        self.look(directory, call.may_block)?;
        self.acting.become_caller(&self.acting.caller(call))?;
        let (parent, status) = self.parent_of(directory)?;
        Ok(parent.entry(&status))
    }

    /// The parent of a directory that is not the root; stale when the directory was moved out.
    pub(super) fn parent_of(&self, directory: &Object) -> Result<(Arc<Object>, Status)> {
        let opened = match self.with_room(true, || self.resolver.parent(directory.as_fd())) {
            Err(Error::AccessDenied | Error::NotFound)
                if !self.walks_to_root(directory.as_fd(), true)? =>
            {
                return Err(Error::Stale);
            }
            opened => opened?,
        };
        let status = Status::of(&opened)?;
        let inside = self.resolver.same_mount(&status)
            && (status.node == self.root.node || self.walks_to_root(opened.as_fd(), true)?);
        if !inside {
            return Err(Error::Stale);
        }
        let object = self.adopt(opened, &status, &Place::ParentOf(directory), true)?;
        Ok((object, status))
    }
}
