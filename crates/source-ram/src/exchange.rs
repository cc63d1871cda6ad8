//! Two names that change places (renameat2(2) with `RENAME_EXCHANGE`).

use pagewell_fs::access::WRITE;
use pagewell_fs::{Change, Credentials, Error, Result};

use super::LINKS_MAX;
use super::inode::{Inode, State, change};
use super::permission;
use super::rename::{Directories, Place};
use super::tree::Tree;

impl Tree {
    /// Neither of the objects is one of the directories, nor the other object.
    pub(super) fn exchange_places(
        &self,
        credentials: &Credentials,
        from: &Place<'_>,
        to: &Place<'_>,
        source: &Inode,
        target: &Inode,
    ) -> Result<(Change, Change)> {
        let mut from_state = from.directory.write()?;
        let mut to_state = match from.directory.number == to.directory.number {
            true => None,
            false => Some(to.directory.write()?),
        };
        let mut directories = Directories {
            from: &mut from_state,
            to: to_state.as_deref_mut(),
        };
        let mut source_state = source.write()?;
        let mut target_state = target.write()?;
        check(credentials, &directories, &source_state, &target_state)?;
        let from_before = directories.from.wcc();
        let to_before = directories.to().wcc();
        let entries = directories.from.directory_mut()?;
        entries.insert(from.name, target.number);
        let entries = directories.to_mut().directory_mut()?;
        entries.insert(to.name, source.number);
        if source.is_directory() {
            directories.from.metadata.link_count -= 1;
            directories.to_mut().metadata.link_count += 1;
            source_state.directory_mut()?.parent = to.directory.number;
        }
        if target.is_directory() {
            directories.to_mut().metadata.link_count -= 1;
            directories.from.metadata.link_count += 1;
            target_state.directory_mut()?.parent = from.directory.number;
        }
        source_state.touch_changed();
        target_state.touch_changed();
        directories.from.touch_modified();
        if let Some(to_state) = &mut directories.to {
            to_state.touch_modified();
        }
        let from_after = self.attributes_of(&from.directory, directories.from);
        let to_after = self.attributes_of(&to.directory, directories.to());
        Ok((change(from_before, from_after), change(to_before, to_after)))
    }
}

/// Refuses what the caller may not do.
fn check(
    credentials: &Credentials,
    directories: &Directories<'_>,
    source: &State,
    target: &State,
) -> Result<()> {
    let (from, to) = (&*directories.from, directories.to());
    permission::check_delete(credentials, from, &source.metadata)?;
    permission::check_delete(credentials, to, &target.metadata)?;
    if directories.to.is_none() {
        return Ok(());
    }
    let is_directory = |state: &State| state.body.file_type().is_directory();
    for moved in [source, target] {
        if is_directory(moved) {
            // Its `..` changes, which is a write to it.
            permission::check_directory(credentials, moved, WRITE)?;
        }
    }
    let gains = match (is_directory(source), is_directory(target)) {
        (true, false) => to,
        (false, true) => from,
        _ => return Ok(()),
    };
    if gains.metadata.link_count >= LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    Ok(())
}
