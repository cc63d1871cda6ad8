//! What all threads of one copy share.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_fs::{
    Call, Entry, Error, FileId, FileSystem, FileType, LocalFiles, OpenFile, RenameMode,
    SetAttributes, SetTime, Timestamp,
};
use pagewell_tree::Tree;
use rustix::fs::{Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

use super::durable::Unsynced;
use super::links::Links;
use super::object::{Object, Original, Target};
use super::rules::{Dereference, Extended, Rules};
use super::turns::Turns;
use crate::identity::FileIdentity;
use crate::location::Place;

/// Why a directory is not copied into itself, which would never end. Checked before anything is
/// made.
pub(super) const INTO_ITSELF: &str = "will not copy a directory into itself";

/// Directories above each other: beyond any path.
const DEPTH_MAX: usize = 4096;

/// How often to look at two objects, one of which changes all the time.
const LOOKS_MAX: usize = 8;

/// The target, the rules, and the work so far.
pub(super) struct Terms {
    pub(super) target: Place,
    pub(super) rules: Rules,
    /// Whether two names that differ only in case are one there.
    pub(super) folds_case: bool,
    pub(super) links: Links,
    pub(super) unsynced: Unsynced,
    pub(super) turns: Turns,
    /// Every further copy would fail as one has.
    has_ended: AtomicBool,
}

impl Terms {
    pub(super) fn new(target: &Place, rules: Rules) -> Self {
        Self {
            target: target.clone(),
            rules,
            folds_case: target.tree.filesystem.limits().case_insensitive,
            links: Links::default(),
            unsynced: Unsynced::default(),
            turns: Turns::new(target.is_remote),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(super) fn at_target(&self) -> (&dyn FileSystem, Call<'_>) {
        (&*self.target.tree.filesystem, self.target.tree.call())
    }

    /// Whether root makes the copy, and may give files away.
    pub(super) fn is_root(&self) -> bool {
        self.target.tree.call().credentials.uid == 0
    }

    /// The target, if it is a directory of this machine.
    pub(super) fn local(&self) -> Option<&dyn LocalFiles> {
        self.target.tree.local()
    }

    /// Whether the copy has ended early.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Ends the copy: threads finish what they have begun, and begin nothing.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether writing one would change the other: a file and an image in it, or two images with a
    /// common file.
    pub(super) fn shares_bytes(&self, original: &Original<'_>, existing: Option<&Entry>) -> bool {
        let (place, target) = (original.place, &self.target);
        let within = |is_local: bool, files: &[FileIdentity], entry: &Entry| {
            is_local && files.contains(&FileIdentity::of_local(&entry.attributes))
        };
        within(place.is_local(), &target.files, original.entry)
            || existing.is_some_and(|entry| within(target.is_local(), &place.files, entry))
            || place.files.iter().any(|file| target.files.contains(file))
    }

    /// Whether further names of an original are to be links to its copy.
    pub(super) fn has_names(&self, original: &Original<'_>) -> bool {
        let may_be_followed_to = match self.rules.dereference {
            Dereference::Never => false,
            Dereference::Given => original.path.is_none(),
            Dereference::Always => true,
        };
        let is_linked = original.entry.attributes.link_count > 1;
        self.rules.keep.links && (is_linked || may_be_followed_to)
    }

    /// Whether a descriptor is not enough: the copy may get other names or extended attributes, or
    /// another original may be meant for its name.
    pub(super) fn needs_id(&self, original: &Original<'_>) -> bool {
        let Rules { keep, several, .. } = &self.rules;
        self.folds_case
            || self.has_names(original)
            || *several && original.path.is_none()
            || keep.extended != Extended::Nothing && original.place.has_extended_attributes()
    }

    /// Whether two objects are one. Directories of this machine and exports of a server can be open
    /// twice. Any two servers may be one, or this machine; an export inside a larger one has other
    /// handles or numbers there. Equal handles prove one object. Equal numbers do not: two servers
    /// may give the same to their file systems, and root directories have few.
    pub(super) fn is_same(&self, place: &Place, one: &Entry, other: &Entry) -> bool {
        let target = &self.target;
        if place.is_alone() || target.is_alone() {
            return false;
        }
        let have_one_number = identity(one) == identity(other);
        let may_be_same = match (place.is_local(), target.is_local()) {
            (true, true) => return have_one_number,
            (false, false) => have_one_number,
            // A handle of Pagewell's server ends with the directory's identifier of the object.
            _ => {
                one.attributes.file_id == other.attributes.file_id
                    || ends_with(&one.id, &other.id)
                    || ends_with(&other.id, &one.id)
            }
        };
        one.id == other.id || may_be_same && self.are_alike(place, &one.id, &other.id)
    }

    /// Whether what servers now say of two objects does not tell them apart. It does if the
    /// original was the same before and after the look at the other.
    fn are_alike(&self, place: &Place, one: &FileId, other: &FileId) -> bool {
        for _ in 0..LOOKS_MAX {
            let looked = (look(&place.tree, one), look(&self.target.tree, other));
            let (Ok(before), Ok(at_target)) = looked else {
                break;
            };
            if before == at_target {
                return true;
            }
            if look(&place.tree, one) == Ok(before) {
                return false;
            }
        }
        // Unknown: not to copy loses nothing.
        true
    }

    /// Whether a directory of the target is `source`, or below it.
    pub(super) fn is_within(&self, place: &Place, source: &Entry, directory: &FileId) -> bool {
        let (filesystem, call) = self.at_target();
        let mut below: Option<Entry> = None;
        let mut id = *directory;
        for _ in 0..DEPTH_MAX {
            let Ok(attributes) = filesystem.attributes(&call, &id) else {
                break;
            };
            let here = Entry { id, attributes };
            if self.is_same(place, source, &here) {
                return true;
            }
            if below.is_some_and(|below| identity(&below) == identity(&here)) {
                break;
            }
            below = Some(here);
            match filesystem.lookup(&call, &id, b"..") {
                Ok(parent) => id = parent.id,
                Err(_) => break,
            }
        }
        self.is_root_within(place, source)
    }

    /// The same for the directories above the root of the target.
    fn is_root_within(&self, place: &Place, source: &Entry) -> bool {
        let (Some(local), true) = (self.local(), place.is_local()) else {
            return false;
        };
        let Ok(root) = local.path().canonicalize() else {
            return false;
        };
        let wanted = FileIdentity::of_local(&source.attributes);
        root.ancestors()
            .any(|path| FileIdentity::of_path(path).is_ok_and(|found| found == wanted))
    }

    /// What exists in the target, if anything.
    pub(super) fn lookup(&self, to: &Target) -> Result<Option<Entry>, Error> {
        let (filesystem, call) = self.at_target();
        match filesystem.lookup(&call, &to.directory, &to.name) {
            Err(Error::NotFound) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Whether an object is the one that the target names.
    pub(super) fn is_named(&self, existing: &Entry) -> bool {
        let named = self.target.entry;
        named.is_some_and(|named| named.id == existing.id)
    }

    /// Removes an object of the target which is not a directory.
    pub(super) fn remove(&self, to: &Target) -> Result<(), Error> {
        let (filesystem, call) = self.at_target();
        self.turns
            .take(|| filesystem.remove(&call, &to.directory, &to.name).map(drop))
    }

    /// Makes a name in the target. An existing one stays until a new one beside it takes its place.
    /// `is_link`: `make` links an object that has another name.
    pub(super) fn replace<T>(
        &self,
        to: &Target,
        (is_there, is_link): (bool, bool),
        make: impl FnOnce(&[u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !is_there {
            return self.turns.take(|| make(&to.name));
        }
        let (filesystem, call) = self.at_target();
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, GetRandomFlags::empty())?;
        let beside = format!(".pagewell-{:016x}", u64::from_ne_bytes(random)).into_bytes();
        let directory = &to.directory;
        self.turns.take(|| {
            let made = make(&beside).and_then(|made| {
                let (from, to) = ((directory, &*beside), (directory, &*to.name));
                let moved = filesystem.rename(&call, from, to, RenameMode::Replace);
                moved.map(|_| made)
            });
            // The name beside remains when the move failed, and when both were names of one object.
            // It can also exist after a failed `make`, whose first answer was lost.
            if made.is_err() || is_link {
                let _ = filesystem.remove(&call, directory, &beside);
            }
            made
        })
    }

    /// Sets attributes of an object of the target, if any are wanted.
    pub(super) fn set(&self, object: &Object, wanted: &SetAttributes) -> Result<(), Error> {
        if *wanted == SetAttributes::default() {
            return Ok(());
        }
        match object {
            Object::Known(id) => {
                let (filesystem, call) = self.at_target();
                filesystem.set_attributes(&call, id, wanted, None).map(drop)
            }
            Object::Open(file) => set_open(file, wanted).map_err(Error::from),
        }
    }
}

/// What distinguishes an object from another with the same number.
fn look(tree: &Tree, id: &FileId) -> Result<(FileType, u64, Timestamp), Error> {
    let (filesystem, call) = (&tree.filesystem, tree.call());
    // This writes out what the server lacks; opening then asks anew.
    filesystem.attributes(&call, id)?;
    let opened = filesystem.open(&call, id)?;
    filesystem.close(&call, id)?;
    let found = opened.attributes;
    Ok((found.file_type, found.size, found.changed))
}

/// What distinguishes the objects of a source.
pub(super) fn identity(entry: &Entry) -> (u64, u64) {
    (entry.attributes.filesystem_id, entry.attributes.file_id)
}

fn ends_with(one: &FileId, other: &FileId) -> bool {
    one.as_bytes().ends_with(other.as_bytes())
}

/// Sets attributes of a file that this process has just made. The owner first: a new owner clears
/// bits of the mode. The times last.
fn set_open(file: &OpenFile, wanted: &SetAttributes) -> Result<(), Errno> {
    if let Some(size) = wanted.size {
        rustix::fs::ftruncate(file, size)?;
    }
    if wanted.uid.is_some() || wanted.gid.is_some() {
        let (uid, gid) = (wanted.uid.map(Uid::from_raw), wanted.gid.map(Gid::from_raw));
        rustix::fs::fchown(file, uid, gid)?;
    }
    if let Some(mode) = wanted.mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    if wanted.accessed.is_some() || wanted.modified.is_some() {
        let times = Timestamps {
            last_access: timespec(wanted.accessed),
            last_modification: timespec(wanted.modified),
        };
        rustix::fs::futimens(file, &times)?;
    }
    Ok(())
}

fn timespec(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::ToServerTime) => (0, UTIME_NOW),
        Some(SetTime::To(time)) => (time.seconds, time.nanoseconds.into()),
    };
    Timespec { tv_sec, tv_nsec }
}

#[cfg(test)]
pub(super) use tests::place;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pagewell_tree::Tree;

    use super::*;
    use crate::location::Links;

    pub(crate) fn place(tree: &Tree) -> Place {
        Place {
            tree: tree.clone(),
            links: Links::Source(Vec::new()),
            label: Vec::new(),
            label_below: Vec::new(),
            directory: tree.filesystem.root(),
            name: Vec::new(),
            copy_name: Vec::new(),
            entry: None,
            is_remote: false,
            means_directory: true,
            is_image: false,
            files: Vec::new(),
            disc: None,
        }
    }

    #[test]
    fn what_was_made_beside_a_name_is_removed_though_making_it_is_said_to_have_failed() {
        let memory = pagewell_source_ram::RamFileSystem::new(1 << 20).unwrap();
        let tree = Tree::new(Arc::new(memory));
        let root = tree.filesystem.root();
        let terms = Terms::new(&place(&tree), Rules::default());
        let to = Target {
            directory: root,
            name: b"link".to_vec(),
            label: b"link".to_vec(),
        };
        let (filesystem, call) = terms.at_target();
        let make = |name: &[u8]| {
            filesystem.make_symlink(&call, &root, name, b"target", &SetAttributes::default())
        };
        make(b"link").unwrap();
        let failed = terms.replace(&to, (true, false), |name| {
            make(name)?;
            Err::<(), Error>(Error::Exists)
        });
        assert!(matches!(failed, Err(Error::Exists)));
        let names = tree.list(&root, false).unwrap();
        assert_eq!(names.listed.len(), 1);
    }
}
