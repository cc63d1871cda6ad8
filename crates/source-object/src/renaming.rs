//! Renames of files and directories.
//!
//! An object cannot be renamed: it is copied and then deleted (`moves/`). So a file has another
//! identifier afterwards, to which the old one leads as long as memory knows it.

use std::sync::Arc;

use pagewell_base::sync::MutexGuard;
use pagewell_fs::{Change, Error, FileId, RenameMode, Result};

use super::directory::Directory;
use super::file::File;
use super::identifier::Kind;
use super::listing::{Found, Item};
use super::making::{Names, Place};
use super::moves::{Carried, Failure};
use super::node::Node;
use super::sending::note_made;

/// Tries with a file that changes while it is moved, or replaced.
const TRIES_MAX: usize = 4;

impl Names<'_> {
    /// [`pagewell_fs::FileSystem::rename`].
    pub(super) fn rename(
        &self,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        Error::Invalid.when(mode == RenameMode::Exchange)?;
        pagewell_fs::name::check_old(from.1)?;
        let source = self.place(from.0, from.1)?;
        let target = self.new_place(to.0, to.1)?;
        let (item, node) = self.existing(&source)?;
        let there = self.find(&target)?;
        if source.key() != target.key() {
            Error::Exists.when(mode == RenameMode::NoReplace && there.is_some())?;
            Error::CrossDevice.unless(self.writer.handling().renames)?;
            match item.kind() {
                Kind::File => self.rename_file((&source, &item, &node), &target, there.as_ref())?,
                Kind::Directory => {
                    let is_file = |there: &Item| there.kind() == Kind::File;
                    Error::NotDirectory.when(there.as_ref().is_some_and(is_file))?;
                    self.rename_directory((&source, &item, &node), &target)?;
                }
            }
            self.keep_directory(&source.directory);
        }
        let changes = [&source, &target].map(|place| self.change_of(&place.directory));
        Ok(changes.into())
    }

    fn rename_file(
        &self,
        (source, item, node): (&Place<'_>, &Item, &Arc<Node>),
        target: &Place<'_>,
        there: Option<&Item>,
    ) -> Result<()> {
        Error::IsDirectory.when(there.is_some_and(|there| there.kind() == Kind::Directory))?;
        let file = node.file().ok_or(Error::IsDirectory)?;
        let key = target.key();
        let moved = self.writer.moving().begin(node.key(), &key)?;
        Error::NotFound.when(file.is_moved())?;
        let new = self.tree().made(&target.directory, Kind::File, &key);
        let replaced = new.file().ok_or(Error::IsDirectory)?;
        let alone = hold_both((node, file), (&new, replaced));
        self.writer.send_held(node, file)?;
        let carried = self.move_object((node, file), (&new, replaced), there)?;
        self.writer.forget(&new);
        let is_known = there.is_some() || replaced.is_open();
        let new = match is_known {
            true => self.in_place_of(&new, replaced, target),
            false => new.clone(),
        };
        self.writer.note_moved(node, &new, Some(&carried));
        if let Some(directory) = source.directory.directory() {
            directory.note_removed(item);
        }
        note_made(&new, Found::File(carried.made), true);
        drop((alone, moved));
        Ok(())
    }

    /// The file that has a name from now on: another than before, so that programs that know that
    /// one neither get nor write its bytes.
    fn in_place_of(&self, old: &Arc<Node>, file: &File, target: &Place<'_>) -> Arc<Node> {
        if !file.remove() {
            self.writer.give_up(file);
        }
        self.tree().orphaned(old);
        let key = target.key();
        self.tree().made(&target.directory, Kind::File, &key)
    }

    fn move_object(
        &self,
        (node, file): (&Node, &File),
        (new, replaced): (&Node, &File),
        there: Option<&Item>,
    ) -> Result<Carried> {
        let data = self.tree().data();
        let rights = self.writer.rights(self.call)?;
        let mover = self.writer.sender().mover(rights.guards_deletes);
        let mut target = match there.map(|there| &there.found) {
            Some(Found::File(version)) => Some(replaced.known().unwrap_or_else(|| version.clone())),
            _ => None,
        };
        // The store does not know one that was never sent.
        target = target.filter(|_| !replaced.is_only_here());
        for _ in 0..TRIES_MAX {
            let version = match file.known() {
                Some(version) if !version.is_weak() => version,
                _ => {
                    file.ask(node.key(), data)?;
                    file.known().ok_or(Error::NotFound)?
                }
            };
            match mover.rename_file((node.key(), &version), new.key(), target.as_ref()) {
                Ok(carried) => return Ok(carried),
                // It is another version, or one of both is gone.
                Err(Failure::Target) => {
                    target = match replaced.ask(new.key(), data) {
                        Ok(_) => replaced.known(),
                        Err(Error::NotFound) => None,
                        Err(error) => return Err(error),
                    };
                }
                Err(Failure::NoSource) => {
                    file.ask(node.key(), data)?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(Error::TryLater)
    }

    fn rename_directory(
        &self,
        (source, item, node): (&Place<'_>, &Item, &Arc<Node>),
        target: &Place<'_>,
    ) -> Result<()> {
        let to = format!("{}/", target.key());
        Error::Invalid.when(to.starts_with(node.key()))?;
        // It has this directory. The call holds it, and would wait for itself.
        Error::NotEmpty.when(node.key().starts_with(&to))?;
        let moved = self.writer.move_directory(self.call, node.key(), &to);
        if moved.as_ref().is_err_and(|error| *error != Error::NotEmpty) {
            // Some of it may have been moved.
            for place in [source, target] {
                place.directory.directory().map(Directory::expire);
            }
        }
        let moved = moved?;
        let new = self.tree().made(&target.directory, Kind::Directory, &to);
        if let Some(directory) = source.directory.directory() {
            directory.note_removed(item);
        }
        note_made(&new, Found::Directory, true);
        drop(moved);
        Ok(())
    }
}

/// Takes [`File::hold_to_send`] of two files, in an order that is the same for all.
fn hold_both<'a>(
    one: (&Node, &'a File),
    other: (&Node, &'a File),
) -> (MutexGuard<'a, ()>, MutexGuard<'a, ()>) {
    let (first, second) = if one.0.key() < other.0.key() {
        (one.1, other.1)
    } else {
        (other.1, one.1)
    };
    (first.hold_to_send(), second.hold_to_send())
}
