//! Changing names: remove, rename, link. The kernel judges the caller; what is done here is to
//! take true looks before and after, to let go of objects that lost their last name, and to bring
//! the names to the device.

use super::Tree;
use super::blocking;
use super::create::removal_flags;
use super::error_of;
use super::object::Object;
use super::objects::Place;
use super::status::Status;
use pagewell_fs::{Attributes, Call, Change, Error, FileId, RenameMode, Result};
use rustix::fs::{AtFlags, RenameFlags};
use std::os::fd::AsFd;
use std::sync::Arc;

impl Tree {
    /// [`pagewell_fs::FileSystem::remove`] and [`pagewell_fs::FileSystem::remove_directory`].
    pub(super) fn remove(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<Change> {
        blocking::may_wait(call)?;
        let directory = self.directory(call, directory)?;
        pagewell_fs::name::check_old(name)?;
        let caller = self.acting.caller(call);
        let (victim, change) = self.change_directory(&directory, || {
            self.acting.become_caller(&caller)?;
            let victim = self.held_name(&directory, name);
            let running = victim.as_ref().map(|victim| victim.changes.begin());
            rustix::fs::unlinkat(directory.as_fd(), name, removal_flags(is_directory))
                .map_err(error_of)?;
            drop(running);
            Ok(victim)
        })?;
        if let Some(victim) = victim {
            let _ = self.look(&victim, true); // lets go of it if that was its last name
        }
        self.sync_names(&[&directory])?;
        Ok(change)
    }

    /// The object of a name, if it is held open.
    fn held_name(&self, directory: &Object, name: &[u8]) -> Option<Arc<Object>> {
        let status = Status::of_name(directory.as_fd(), name).ok()?;
        self.held(&status, &Place::Child(directory, name))
    }

    /// [`pagewell_fs::FileSystem::rename`].
    pub(super) fn rename(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        blocking::may_wait(call)?;
        let (from_name, to_name) = (from.1, to.1);
        let from = self.directory(call, from.0)?;
        let to = self.directory(call, to.0)?;
        pagewell_fs::name::check_old(from_name)?;
        pagewell_fs::name::check_old(to_name)?;
        let (held, changes) = self.change_directories(&from, &to, || {
            self.acting.become_caller(&self.acting.caller(call))?;
            let moved = self.key_at(&from, from_name);
            let moved_back = match flags.contains(RenameFlags::EXCHANGE) {
                true => self.key_at(&to, to_name),
                false => None,
            };
            let held = [
                self.held_name(&from, from_name),
                self.held_name(&to, to_name),
            ];
            let touching: Vec<_> = held.iter().flatten().map(|o| o.changes.begin()).collect();
            rustix::fs::renameat_with(from.as_fd(), from_name, to.as_fd(), to_name, flags)
                .map_err(error_of)?;
            drop(touching);
            if let Some(moved) = moved {
                self.naming.note(&moved, &Place::Child(&to, to_name));
            }
            if let Some(moved) = moved_back {
                self.naming.note(&moved, &Place::Child(&from, from_name));
            }
            Ok(held)
        })?;
        for object in held.iter().flatten() {
            let _ = self.look(object, true); // lets go of what was replaced
        }
        if from.node == to.node {
            self.sync_names(&[&to])?;
        } else {
            self.sync_names(&[&to, &from])?;
        }
        Ok(changes)
    }

    /// [`Self::change_directory`] of two directories, which may be the same.
    fn change_directories<R>(
        &self,
        one: &Object,
        other: &Object,
        act: impl FnOnce() -> Result<R>,
    ) -> Result<(R, (Change, Change))> {
        if one.node == other.node {
            let (done, change) = self.change_directory(one, act)?;
            return Ok((done, (change, change)));
        }
        // The lower is locked first: two threads cannot wait for each other.
        if one.node > other.node {
            let (done, (other, one)) = self.change_directories(other, one, act)?;
            return Ok((done, (one, other)));
        }
        let both = || self.change_directory(other, act);
        let ((done, other), one) = self.change_directory(one, both)?;
        Ok((done, (one, other)))
    }

    /// [`pagewell_fs::FileSystem::link`].
    pub(super) fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        blocking::may_wait(call)?;
        let object = self.object(call, id)?;
        let directory = self.directory(call, directory)?;
        pagewell_fs::name::check_new(name)?;
        self.look(&object, true)?;
        Error::NotPermitted.when(object.is_directory())?; // as link(2) says
        let caller = self.acting.caller(call);
        let (status, change) = self.change_directory(&directory, || {
            let running = object.changes.begin();
            self.acting.become_caller(&caller)?;
            let flags = AtFlags::SYMLINK_FOLLOW; // through /proc, to the object itself
            let source = object.link();
            rustix::fs::linkat(rustix::fs::CWD, source, directory.as_fd(), name, flags)
                .map_err(error_of)?;
            drop(running);
            object.status()
        })?;
        self.naming
            .note(&object.id, &Place::Child(&directory, name));
        self.sync_new(&object, (false, false), &directory)?;
        Ok((object.entry(&status).attributes, change))
    }
}
