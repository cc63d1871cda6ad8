//! Moving names, exactly as rename(2) and renameat2(2).
//!
//! The order of refusals is Linux's: no such name; the new one is there; a directory into its own
//! sub-tree; over an ancestor; two names of one object (done, nothing changes); permission; types;
//! not empty.

use std::sync::Arc;

use pagewell_fs::access::{EXECUTE, WRITE};
use pagewell_fs::{Change, Credentials, Error, FileId, FileType, Move, Result, name};

use super::LINKS_MAX;
use super::inode::{Body, Inode, State, change};
use super::permission;
use super::quota::name_charge;
use super::remove::refuse_full_directory;
use super::tree::Tree;

/// A name and where it is: directory and what the name means in it, or nothing.
pub(super) struct Place<'a> {
    pub(super) directory: Arc<Inode>,
    pub(super) name: &'a [u8],
}

/// The locked directories of a rename, which may be one.
pub(super) struct Directories<'a> {
    pub(super) from: &'a mut State,
    pub(super) to: Option<&'a mut State>,
}

impl Directories<'_> {
    pub(super) fn to(&self) -> &State {
        self.to.as_deref().unwrap_or(self.from)
    }

    pub(super) fn to_mut(&mut self) -> &mut State {
        self.to.as_deref_mut().unwrap_or(self.from)
    }
}

impl Tree {
    pub(super) fn rename_name(
        &self,
        credentials: &Credentials,
        (from_directory, from_name): (&FileId, &[u8]),
        (to_directory, to_name): (&FileId, &[u8]),
        how: Option<Move>,
    ) -> Result<(Change, Change)> {
        name::check_old(from_name)?;
        name::check_old(to_name)?;
        let tree = self.lock_names();
        let (from, source) = self.place(credentials, from_directory, from_name)?;
        let (to, target) = self.place(credentials, to_directory, to_name)?;
        let source = self.numbered(source.ok_or(Error::NotFound)?)?;
        let target = target.map(|number| self.numbered(number)).transpose()?;
        match (how, &target) {
            (Some(Move::ToNew), Some(_)) => return Err(Error::Exists),
            (Some(Move::Exchange), None) => return Err(Error::NotFound),
            _ => {}
        }
        if from.number != to.number {
            if source.is_directory() && self.is_within(&to, source.number)? {
                return Err(Error::Invalid);
            }
            if let Some(target) = &target
                && target.is_directory()
                && self.is_within(&from, target.number)?
            {
                return Err(match how {
                    Some(Move::Exchange) => Error::Invalid,
                    _ => Error::NotEmpty,
                });
            }
        }
        if let Some(target) = &target
            && target.number == source.number
        {
            return Ok((self.no_change(&from)?, self.no_change(&to)?));
        }
        let from = Place {
            directory: from,
            name: from_name,
        };
        let to = Place {
            directory: to,
            name: to_name,
        };
        if let (Some(Move::Exchange), Some(target)) = (how, &target) {
            return self.exchange_places(credentials, &from, &to, &source, target);
        }
        let (changes, buried) = self.rename_place(credentials, &from, &to, &source, target)?;
        drop(tree);
        drop(buried); // the pages of a big file, with no lock held
        self.table.trim_if_due();
        Ok(changes)
    }

    /// Whether `directory` is the directory `ancestor` or below it. The tree is locked, so the
    /// way up does not change.
    fn is_within(&self, directory: &Arc<Inode>, ancestor: u64) -> Result<bool> {
        let mut at = directory.clone();
        loop {
            if at.number == ancestor {
                return Ok(true);
            }
            let parent = at.read()?.directory()?.parent;
            if parent == at.number {
                return Ok(false);
            }
            at = self.numbered(parent)?;
        }
    }

    fn no_change(&self, directory: &Inode) -> Result<Change> {
        let state = directory.read()?;
        Ok(change(state.wcc(), self.attributes_of(directory, &state)))
    }

    /// The move itself. Neither source nor target is one of the directories.
    fn rename_place(
        &self,
        credentials: &Credentials,
        from: &Place<'_>,
        to: &Place<'_>,
        source: &Inode,
        target: Option<Arc<Inode>>,
    ) -> Result<((Change, Change), Option<Body>)> {
        let same = from.directory.number == to.directory.number;
        let mut from_state = from.directory.write()?;
        let mut to_state = if same {
            None
        } else {
            Some(to.directory.write()?)
        };
        let mut directories = Directories {
            from: &mut from_state,
            to: to_state.as_deref_mut(),
        };
        let mut source_state = source.write()?;
        let mut target_state = match &target {
            Some(target) => Some(target.write()?),
            None => None,
        };
        check(
            credentials,
            &directories,
            &source_state,
            target_state.as_deref(),
        )?;
        let from_before = directories.from.wcc();
        let to_before = directories.to().wcc();
        self.charge_names(from.name, to.name, target.is_some())?;
        directories.from.directory_mut()?.remove(from.name);
        directories
            .to_mut()
            .directory_mut()?
            .insert(to.name, source.number);
        if source.is_directory() {
            directories.from.metadata.link_count -= 1;
            directories.to_mut().metadata.link_count += 1;
            source_state.directory_mut()?.parent = to.directory.number;
        }
        if target.as_ref().is_some_and(|target| target.is_directory()) {
            directories.to_mut().metadata.link_count -= 1;
        }
        source_state.touch_changed();
        directories.from.touch_modified();
        if let Some(to_state) = &mut directories.to {
            to_state.touch_modified();
        }
        let from_after = self.attributes_of(&from.directory, directories.from);
        let to_after = self.attributes_of(&to.directory, directories.to());
        let buried = match (&target, &mut target_state) {
            (Some(target), Some(state)) => self.unlink(target.number, state),
            _ => None,
        };
        let changes = (change(from_before, from_after), change(to_before, to_after));
        Ok((changes, buried))
    }

    /// Exchanges the charge of the old name for that of the new one.
    fn charge_names(&self, from: &[u8], to: &[u8], replaces: bool) -> Result<()> {
        let old = name_charge(from);
        let new = if replaces { 0 } else { name_charge(to) };
        if new > old {
            self.storage.quota.take_or_refuse(new - old)
        } else {
            self.storage.quota.give(old - new);
            Ok(())
        }
    }
}

/// Refuses what the caller may not do, and what cannot replace what.
fn check(
    credentials: &Credentials,
    directories: &Directories<'_>,
    source: &State,
    target: Option<&State>,
) -> Result<()> {
    let to = directories.to();
    permission::check_delete(credentials, directories.from, &source.metadata)?;
    let source_is_directory = source.body.file_type().is_directory();
    match target {
        None => permission::check_directory(credentials, to, WRITE | EXECUTE)?,
        Some(target) => {
            permission::check_delete(credentials, to, &target.metadata)?;
            match (source_is_directory, target.body.file_type()) {
                (true, FileType::Directory) => {}
                (true, _) => return Err(Error::NotDirectory),
                (false, FileType::Directory) => return Err(Error::IsDirectory),
                (false, _) => {}
            }
        }
    }
    if source_is_directory && directories.to.is_some() {
        // Its `..` changes, which is a write to it.
        permission::check_directory(credentials, source, WRITE)?;
        if target.is_none() && to.metadata.link_count >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
    }
    target.map_or(Ok(()), refuse_full_directory)
}
