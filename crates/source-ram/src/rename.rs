//! Moving names, exactly as rename(2) and renameat2(2).
//!
//! The order of refusals is Linux's: no such name; the new one is there; a directory into its own
//! sub-tree; over an ancestor; two names of one object (done, nothing changes); permission; types;
//! not empty.

use std::sync::Arc;

use pagewell_fs::access::{EXECUTE, WRITE};
use pagewell_fs::{Change, Credentials, Error, FileId, Move, Result, name};

use super::LINKS_MAX;
use super::inode::{Body, Inode, State, change};
use super::permission::{self, permit};
use super::quota::name_charge;
use super::remove::refuse_full_directory;
use super::tree::Tree;

/// A name and the directory that it is in.
struct Place<'a> {
    directory: Arc<Inode>,
    name: &'a [u8],
}

/// The locked directories of a rename, which may be one.
struct Directories<'a> {
    from: &'a mut State,
    to: Option<&'a mut State>,
}

impl Directories<'_> {
    fn to(&self) -> &State {
        self.to.as_deref().unwrap_or(self.from)
    }

    fn to_mut(&mut self) -> &mut State {
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
        let exchanges = how == Some(Move::Exchange);
        permit(how != Some(Move::ToNew) || target.is_none(), Error::Exists)?;
        permit(!exchanges || target.is_some(), Error::NotFound)?;
        if from.number != to.number {
            if source.is_directory() && self.is_within(&to, source.number)? {
                return Err(Error::Invalid);
            }
            if let Some(target) = &target
                && target.is_directory()
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
        let target = target.as_deref();
        let moved = self.move_place(credentials, (&from, &to), (&source, target), exchanges);
        let (changes, buried) = moved?;
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

    /// The move itself. Neither source nor target is one of the directories. Returns what is to be
    /// dropped when no lock is held.
    fn move_place(
        &self,
        credentials: &Credentials,
        (from, to): (&Place<'_>, &Place<'_>),
        (source, target): (&Inode, Option<&Inode>),
        exchanges: bool,
    ) -> Result<((Change, Change), Option<Body>)> {
        let mut from_state = from.directory.write()?;
        let is_one = from.directory.number == to.directory.number;
        let other = (!is_one).then(|| to.directory.write());
        let mut to_state = other.transpose()?;
        let mut directories = Directories {
            from: &mut from_state,
            to: to_state.as_deref_mut(),
        };
        let mut source_state = source.write()?;
        let mut target_state = target.map(Inode::write).transpose()?;
        let replaced = target_state.as_deref();
        check(
            credentials,
            &directories,
            &source_state,
            replaced,
            exchanges,
        )?;
        let from_before = directories.from.wcc();
        let to_before = directories.to().wcc();
        match target.filter(|_| exchanges) {
            Some(target) => {
                let entries = directories.from.directory_mut()?;
                entries.insert(from.name, target.number);
            }
            None => {
                let new = target.map_or(name_charge(to.name), |_| 0);
                self.storage.quota.exchange(name_charge(from.name), new)?;
                directories.from.directory_mut()?.remove(from.name);
            }
        }
        let entries = directories.to_mut().directory_mut()?;
        entries.insert(to.name, source.number);
        if source.is_directory() {
            directories.from.metadata.link_count -= 1;
            directories.to_mut().metadata.link_count += 1;
            source_state.directory_mut()?.parent = to.directory.number;
        }
        source_state.touch_changed();
        let mut buried = None;
        if let (Some(target), Some(state)) = (target, &mut target_state) {
            if target.is_directory() {
                directories.to_mut().metadata.link_count -= 1;
            }
            if !exchanges {
                buried = self.unlink(target.number, state);
            } else if target.is_directory() {
                directories.from.metadata.link_count += 1;
                state.directory_mut()?.parent = from.directory.number;
            }
            if exchanges {
                state.touch_changed();
            }
        }
        directories.from.touch_modified();
        if let Some(to_state) = &mut directories.to {
            to_state.touch_modified();
        }
        let from_after = self.attributes_of(&from.directory, directories.from);
        let to_after = self.attributes_of(&to.directory, directories.to());
        let changes = (change(from_before, from_after), change(to_before, to_after));
        Ok((changes, buried))
    }
}

/// Refuses what the caller may not do, and what cannot replace what.
fn check(
    credentials: &Credentials,
    directories: &Directories<'_>,
    source: &State,
    target: Option<&State>,
    exchanges: bool,
) -> Result<()> {
    let (from, to) = (&*directories.from, directories.to());
    permission::check_delete(credentials, from, &source.metadata)?;
    match target {
        None => permission::check_directory(credentials, to, WRITE | EXECUTE)?,
        Some(target) => permission::check_delete(credentials, to, &target.metadata)?,
    }
    let is_directory = |state: &State| state.body.file_type().is_directory();
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
            permission::check_directory(credentials, moved, WRITE)?;
        }
        let gains = match (moved, replaced) {
            (true, None | Some(false)) => Some(to),
            (false, Some(true)) => Some(from),
            _ => None,
        };
        if gains.is_some_and(|directory| directory.metadata.link_count >= LINKS_MAX) {
            return Err(Error::TooManyLinks);
        }
    }
    match target.filter(|_| !exchanges) {
        Some(target) => refuse_full_directory(target),
        None => Ok(()),
    }
}
