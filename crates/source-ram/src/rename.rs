//! Moving names, exactly as rename(2) and renameat2(2).
//!
//! The order of refusals is Linux's: no such name; the new one is there; a directory into its own
//! sub-tree; over an ancestor; two names of one object (done, nothing changes); permission; types;
//! not empty.

use std::sync::Arc;

use pagewell_fs::access::{EXECUTE, WRITE};
use pagewell_fs::{Call, Change, Credentials, Error, FileId, RenameMode, Result, name};

use super::LINKS_MAX;
use super::inode::{Body, Inode, InodeState};
use super::permission::{check_delete, check_mode, permit};
use super::quota::name_charge;
use super::remove::refuse_full_directory;
use super::tree::Tree;

/// The locked directories of a rename, which may be one.
struct Directories<'a> {
    from: &'a mut InodeState,
    to: Option<&'a mut InodeState>,
}

impl Directories<'_> {
    fn to(&self) -> &InodeState {
        self.to.as_deref().unwrap_or(self.from)
    }

    fn to_mut(&mut self) -> &mut InodeState {
        self.to.as_deref_mut().unwrap_or(self.from)
    }
}

impl Tree {
    pub(super) fn rename(
        &self,
        call: &Call<'_>,
        (from_directory, from_name): (&FileId, &[u8]),
        (to_directory, to_name): (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        let credentials = call.credentials;
        name::check_old(from_name)?;
        name::check_old(to_name)?;
        let tree = self.lock_names();
        let (from, source) = self.place(credentials, from_directory, from_name)?;
        let (to, target) = self.place(credentials, to_directory, to_name)?;
        let source = self.numbered(source.ok_or(Error::NotFound)?)?;
        let target = target.map(|number| self.numbered(number)).transpose()?;
        let exchanges = mode == RenameMode::Exchange;
        permit(
            mode != RenameMode::NoReplace || target.is_none(),
            Error::Exists,
        )?;
        permit(!exchanges || target.is_some(), Error::NotFound)?;
        if from.number != to.number {
            if source.is_directory && self.is_within(&to, source.number)? {
                return Err(Error::Invalid);
            }
            if let Some(target) = &target
                && target.is_directory
                && self.is_within(&from, target.number)?
            {
                return Err(match exchanges {
                    true => Error::Invalid,
                    false => Error::NotEmpty,
                });
            }
        }
        if let Some(target) = &target
            && target.number == source.number
        {
            return Ok((from.no_change()?, to.no_change()?));
        }
        let places = [(&*from, from_name), (&*to, to_name)];
        let objects = (&*source, target.as_deref());
        let (changes, buried) = self.move_name(credentials, places, objects, exchanges)?;
        drop(tree);
        self.free(buried);
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

    /// The move itself. Neither source nor target is one of the directories. Returns what is to be
    /// dropped when no lock is held.
    fn move_name(
        &self,
        credentials: &Credentials,
        [(from, from_name), (to, to_name)]: [(&Inode, &[u8]); 2],
        (source, target): (&Inode, Option<&Inode>),
        exchanges: bool,
    ) -> Result<((Change, Change), Option<Body>)> {
        let mut from_state = from.write()?;
        let other = (from.number != to.number).then(|| to.write());
        let mut to_state = other.transpose()?;
        let mut directories = Directories {
            from: &mut from_state,
            to: to_state.as_deref_mut(),
        };
        let mut source_state = source.write()?;
        let mut target_state = target.map(Inode::write).transpose()?;
        let replaced = target_state.as_deref();
        let objects = (&*source_state, replaced);
        check(credentials, &directories, objects, exchanges)?;
        let from_before = directories.from.wcc();
        let to_before = directories.to().wcc();
        match target.filter(|_| exchanges) {
            Some(target) => {
                let entries = directories.from.directory_mut()?;
                entries.insert(from_name, target.number);
            }
            None => {
                let new = target.map_or(name_charge(to_name), |_| 0);
                self.storage.quota.exchange(name_charge(from_name), new)?;
                directories.from.directory_mut()?.remove(from_name);
            }
        }
        let entries = directories.to_mut().directory_mut()?;
        entries.insert(to_name, source.number);
        if source.is_directory {
            directories.from.metadata.link_count -= 1;
            directories.to_mut().metadata.link_count += 1;
            source_state.directory_mut()?.parent = to.number;
        }
        source_state.touch_changed();
        let mut buried = None;
        if let (Some(target), Some(state)) = (target, &mut target_state) {
            if target.is_directory {
                directories.to_mut().metadata.link_count -= 1;
            }
            if exchanges && target.is_directory {
                directories.from.metadata.link_count += 1;
                state.directory_mut()?.parent = from.number;
            }
            if exchanges {
                state.touch_changed();
            } else {
                buried = self.unlink(state);
            }
        }
        directories.from.touch_modified();
        if let Some(to_state) = &mut directories.to {
            to_state.touch_modified();
        }
        let from_change = directories.from.change_since(from_before);
        let to_change = directories.to().change_since(to_before);
        Ok(((from_change, to_change), buried))
    }
}

/// Refuses what the caller may not do, and what cannot replace what.
fn check(
    credentials: &Credentials,
    directories: &Directories<'_>,
    (source, target): (&InodeState, Option<&InodeState>),
    exchanges: bool,
) -> Result<()> {
    let (from, to) = (&directories.from.metadata, &directories.to().metadata);
    check_delete(credentials, from, &source.metadata)?;
    match target {
        None => check_mode(credentials, to, WRITE | EXECUTE)?,
        Some(target) => check_delete(credentials, to, &target.metadata)?,
    }
    let is_directory = |state: &InodeState| state.metadata.file_type.is_directory();
    let moved = is_directory(source);
    let replaced = target.map(is_directory);
    match (moved, replaced) {
        (true, Some(false)) if !exchanges => return Err(Error::NotDirectory),
        (false, Some(true)) if !exchanges => return Err(Error::IsDirectory),
        _ => {}
    }
    if directories.to.is_some() {
        let both = [Some(source), target.filter(|_| exchanges)].into_iter();
        for moved in both.flatten().filter(|state| is_directory(state)) {
            // Its `..` changes, which is a write to it.
            check_mode(credentials, &moved.metadata, WRITE)?;
        }
        let gains = match (moved, replaced) {
            (true, None | Some(false)) => Some(to),
            (false, Some(true)) => Some(from),
            _ => None,
        };
        if gains.is_some_and(|directory| directory.link_count >= LINKS_MAX) {
            return Err(Error::TooManyLinks);
        }
    }
    match target.filter(|_| !exchanges) {
        Some(target) => refuse_full_directory(target),
        None => Ok(()),
    }
}
