//! Taking names away.

use pagewell_fs::{Call, Change, Error, FileId, Result, name};

use super::inode::{Body, State, change};
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
        permission::check_delete(credentials, &directory, &state.metadata)?;
        match (is_directory, object.is_directory()) {
            (false, true) => return Err(Error::IsDirectory),
            (true, false) => return Err(Error::NotDirectory),
            _ => {}
        }
        refuse_full_directory(&state)?;
        let before = directory.wcc();
        directory.directory_mut()?.remove(name);
        self.storage.quota.give(name_charge(name));
        if object.is_directory() {
            directory.metadata.link_count -= 1;
        }
        directory.touch_modified();
        let change = change(before, self.attributes_of(&parent, &directory));
        let buried = self.unlink(object.number, &mut state);
        drop(directory);
        drop(state);
        drop(tree);
        drop(buried); // the pages of a big file, with no lock held
        self.table.trim_if_due();
        Ok(change)
    }

    /// Counts one name of the object less (a directory has but one). After the last the object is
    /// gone, unless a program has it open: returns its body, to be dropped when no lock is held.
    pub(super) fn unlink(&self, number: u64, state: &mut State) -> Option<Body> {
        state.touch_changed();
        if state.body.file_type().is_directory() {
            state.metadata.link_count = 0;
        } else {
            state.metadata.link_count -= 1;
        }
        if state.metadata.link_count > 0 || state.holds > 0 {
            return None;
        }
        self.table.remove(number);
        Some(state.bury(&self.storage.quota))
    }
}

/// Refuses a directory that has entries.
pub(super) fn refuse_full_directory(state: &State) -> Result<()> {
    let is_full = matches!(&state.body, Body::Directory(directory) if !directory.is_empty());
    permit(!is_full, Error::NotEmpty)
}
