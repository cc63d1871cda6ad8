//! Taking names away, and what outlives its last name because a program has it open. A directory
//! without a name is empty and stays so.
//!
//! A hold is counted under the lock of the inode, so an unlink sees it or comes first. What has
//! neither name nor hold is gone: the call that takes the last of the two buries it.

use std::sync::Arc;

use pagewell_fs::{Call, Change, Error, FileId, Opened, Result, name};

use super::inode::{Body, Inode, InodeState};
use super::permission::{self, permit};
use super::quota::name_charge;
use super::tree::Tree;

impl Tree {
    pub(super) fn remove(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
    ) -> Result<Change> {
        self.remove_if(call, directory, name, false)
    }

    pub(super) fn remove_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
    ) -> Result<Change> {
        self.remove_if(call, directory, name, true)
    }

    /// Removes an empty directory, or anything but a directory.
    fn remove_if(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<Change> {
        let credentials = call.credentials;
        name::check_old(name)?;
        let tree = self.lock_names();
        let (parent, found) = self.place(credentials, directory, name)?;
        let object = self.numbered(found.ok_or(Error::NotFound)?)?;
        let mut directory = parent.write()?;
        let mut state = object.write()?;
        permission::check_delete(credentials, &directory.metadata, &state.metadata)?;
        match (is_directory, object.is_directory) {
            (false, true) => return Err(Error::IsDirectory),
            (true, false) => return Err(Error::NotDirectory),
            _ => {}
        }
        refuse_full_directory(&state)?;
        let before = directory.wcc();
        directory.directory_mut()?.remove(name);
        self.storage.quota.give(name_charge(name));
        if is_directory {
            directory.metadata.link_count -= 1;
        }
        directory.touch_modified();
        let change = directory.change_since(before);
        let buried = self.unlink(&mut state);
        drop((directory, state, tree));
        self.free(buried);
        Ok(change)
    }

    /// Counts one name of the object less (a directory has but one), and buries it if it may be.
    pub(super) fn unlink(&self, state: &mut InodeState) -> Option<Body> {
        state.touch_changed();
        if state.metadata.file_type.is_directory() {
            state.metadata.link_count = 0;
        } else {
            state.metadata.link_count -= 1;
        }
        self.bury_unused(state)
    }

    /// Ends an object that has neither name nor hold: returns its body for [`Tree::free`].
    fn bury_unused(&self, state: &mut InodeState) -> Option<Body> {
        if state.metadata.link_count > 0 || state.holds > 0 {
            return None;
        }
        self.table.remove(state.metadata.file_id);
        Some(state.bury(&self.storage.quota))
    }

    /// Frees what was buried, perhaps the pages of a big file. To be called without locks.
    pub(super) fn free(&self, buried: Option<Body>) {
        drop(buried);
        self.table.trim_if_due();
    }

    /// [`pagewell_fs::FileSystem::open`].
    pub(super) fn open(self: &Arc<Self>, _call: &Call<'_>, id: &FileId) -> Result<Opened> {
        let inode = self.inode(id)?;
        let mut state = inode.write()?;
        state.holds += 1;
        let attributes = state.attributes();
        drop(state);
        Ok(Opened {
            hold: Some(self.held(inode)),
            ..Opened::plain(attributes)
        })
    }

    /// [`pagewell_fs::FileSystem::hold`].
    pub(super) fn hold(
        self: &Arc<Self>,
        _call: &Call<'_>,
        id: &FileId,
    ) -> Result<Option<pagewell_fs::Hold>> {
        let inode = self.inode(id)?;
        inode.write()?.holds += 1;
        Ok(Some(self.held(inode)))
    }

    fn held(self: &Arc<Self>, inode: Arc<Inode>) -> pagewell_fs::Hold {
        let tree = self.clone();
        Box::new(Hold { inode, tree })
    }
}

struct Hold {
    inode: Arc<Inode>,
    tree: Arc<Tree>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.inode.lock();
        state.holds -= 1;
        let buried = self.tree.bury_unused(&mut state);
        drop(state);
        if buried.is_some() {
            self.tree.free(buried);
        }
    }
}

/// Refuses a directory that has entries.
pub(super) fn refuse_full_directory(state: &InodeState) -> Result<()> {
    let is_full = matches!(&state.body, Body::Directory(directory) if !directory.is_empty());
    permit(!is_full, Error::NotEmpty)
}
