//! Copies objects from one tree into another.
//!
//! Whatever a source says, the copy stays inside the target: objects are made by name under the
//! identifier of a directory that was itself found or made so, names are checked, and symbolic
//! links in the target are never followed. Data is written unstable and brought to the device
//! once, at the end; if the target lost data in between, its write verifier tells.

mod overwrite;

use pagewell_fs::{
    Attributes, CreateMode, Entry, Error, FileId, FileType, NodeKind, SetAttributes, SetTime,
    Stability, name,
};

use crate::escape;
use crate::failure::Outcome;
use crate::holes::data_of;
use crate::identity::FileIdentity;
use crate::location::Place;
use crate::progress::Progress;
use crate::tree::Tree;
use crate::walk::{Next, Step, walk};

/// Where one object goes.
pub(crate) struct Target {
    /// The directory.
    pub(crate) directory: FileId,
    /// The name there.
    pub(crate) name: Vec<u8>,
    /// For messages.
    pub(crate) label: Vec<u8>,
}

/// Copies, and counts what could not be copied.
pub(crate) struct Copier {
    tree: Tree,
    is_local: bool,
    is_image: bool,
    /// What the target lies in, when it is an image.
    files: Vec<FileIdentity>,
    preserve: bool,
    is_root: bool,
    verifier: [u8; 8],
    progress: Progress,
    buffer: Vec<u8>,
    copied: u64,
    failures: u64,
}

/// A directory of the target that is being filled.
struct Filling {
    id: FileId,
    is_new: bool,
}

impl Copier {
    /// Copies into the tree of `target`. With `preserve`, owners too.
    #[must_use]
    pub(crate) fn new(target: &Place, preserve: bool) -> Self {
        Self {
            verifier: target.tree.filesystem.write_verifier(),
            tree: target.tree.clone(),
            is_local: target.is_local,
            is_image: target.is_image,
            files: target.files.clone(),
            preserve,
            is_root: rustix::process::geteuid().is_root(),
            progress: Progress::new(true),
            buffer: Vec::new(),
            copied: 0,
            failures: 0,
        }
    }

    /// Reports and counts a failure.
    pub(crate) fn fail(&mut self, text: &str) {
        self.failures += 1;
        self.progress.report(text);
    }

    fn fail_at(&mut self, label: &[u8], error: &anyhow::Error) {
        self.fail(&format!("{}: {error:#}", escape::text(label)));
    }

    /// Brings everything to the device and says how it went.
    pub(crate) fn finish(mut self) -> anyhow::Result<Outcome> {
        self.progress.begin("to the device");
        self.tree.filesystem.sync()?;
        if self.tree.filesystem.write_verifier() != self.verifier {
            anyhow::bail!("data was lost before it reached the device: copy again");
        }
        if self.failures > 0 && self.failures + self.copied > 1 {
            let (failures, copied) = (self.failures, self.copied);
            self.progress
                .report(&format!("{copied} copied, {failures} failed"));
        }
        Ok(Outcome::from_failures(self.failures))
    }

    /// Copies one object, and with a directory all that is in it. What is inside and fails is
    /// reported; only the object itself can be an error.
    pub(crate) fn object(
        &mut self,
        place: &Place,
        entry: &Entry,
        to: &Target,
    ) -> anyhow::Result<()> {
        let shown = || place.shown();
        if entry.attributes.file_type.is_directory() {
            if self.is_image {
                anyhow::bail!("{}: {}", shown(), overwrite::ONE_FILE);
            }
            let filling = self.make_directory(entry, to, place.is_local);
            let filling = filling.map_err(|error| error.context(shown()))?;
            self.fill(place, entry, filling);
            return Ok(());
        }
        self.progress.begin(&shown());
        self.progress.expect(Some(entry.attributes.size));
        let copied = self.leaf(place, entry, to);
        copied.map_err(|error| error.context(shown()))
    }

    /// Copies what is in a directory into another that exists.
    pub(crate) fn directory_contents(
        &mut self,
        place: &Place,
        entry: &Entry,
        into: &Entry,
    ) -> anyhow::Result<()> {
        if !entry.attributes.file_type.is_directory() {
            anyhow::bail!("{}: has no name to copy it to", place.shown());
        }
        if self.is_same(place.is_local, entry, into) {
            anyhow::bail!("{}: will not copy a directory into itself", place.shown());
        }
        let filling = Filling {
            id: into.id,
            is_new: false,
        };
        self.fill(place, entry, filling);
        Ok(())
    }

    /// Whether two objects are one. Only directories of this machine can be open twice.
    fn is_same(&self, is_local: bool, one: &Entry, other: &Entry) -> bool {
        let identity = |entry: &Entry| (entry.attributes.filesystem_id, entry.attributes.file_id);
        self.is_local && is_local && identity(one) == identity(other)
    }

    /// Walks a source directory and rebuilds it below `top`.
    fn fill(&mut self, place: &Place, start: &Entry, top: Filling) {
        self.progress.expect(None);
        let top_entry = self.tree.filesystem.attributes(&self.tree.call(), &top.id);
        let top_entry = top_entry.ok().map(|attributes| Entry {
            id: top.id,
            attributes,
        });
        let mut filling = vec![top];
        let walked = walk(&place.tree, start, &mut |step| -> Result<Next, Error> {
            match step {
                Step::Enter(path, entry) => {
                    if top_entry.is_some_and(|top| self.is_same(place.is_local, entry, &top)) {
                        let error = anyhow::anyhow!("will not copy a directory into itself");
                        self.fail_at(&place.label_of(path), &error);
                        return Ok(Next::Skip);
                    }
                    let Some(to) = target_of(place, path, &filling) else {
                        return Ok(Next::Skip);
                    };
                    match self.make_directory(entry, &to, place.is_local) {
                        Ok(made) => filling.push(made),
                        Err(error) => {
                            self.fail_at(&to.label, &error);
                            return Ok(Next::Skip);
                        }
                    }
                }
                Step::Object(path, entry) => {
                    if let Some(to) = target_of(place, path, &filling) {
                        self.progress.begin(&escape::text(&to.label));
                        if let Err(error) = self.leaf(place, entry, &to) {
                            self.fail_at(&to.label, &error);
                        }
                    }
                }
                Step::Leave(path, entry) => {
                    if let Some(made) = filling.pop() {
                        self.close_directory(&made, entry, &place.label_of(path));
                    }
                }
                Step::Failed(path, error) => {
                    self.fail_at(&place.label_of(path), &error.into());
                }
                Step::Listing(..) => {}
            }
            Ok(Next::Go)
        });
        // The visitor returns no error, so the walk has none.
        debug_assert!(walked.is_ok());
        if let Some(made) = filling.pop() {
            self.close_directory(&made, start, &place.label);
        }
    }

    fn make_directory(
        &mut self,
        source: &Entry,
        to: &Target,
        is_local: bool,
    ) -> anyhow::Result<Filling> {
        name::check_new(&to.name)?;
        // Writable until it is filled: the mode of the original is set at the end.
        let attributes = SetAttributes {
            mode: Some(source.attributes.mode & 0o777 | 0o700),
            ..SetAttributes::default()
        };
        let (filesystem, call) = (&self.tree.filesystem, self.tree.call());
        match filesystem.make_directory(&call, &to.directory, &to.name, &attributes) {
            Ok(created) => Ok(Filling {
                id: created.entry.id,
                is_new: true,
            }),
            Err(Error::Exists) => {
                let existing = filesystem.lookup(&call, &to.directory, &to.name)?;
                if !existing.attributes.file_type.is_directory() {
                    anyhow::bail!("exists in the target and is not a directory");
                }
                if self.is_same(is_local, source, &existing) {
                    anyhow::bail!("will not copy a directory onto itself");
                }
                Ok(Filling {
                    id: existing.id,
                    is_new: false,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a new directory the attributes of the original, after its contents were made.
    fn close_directory(&mut self, made: &Filling, source: &Entry, label: &[u8]) {
        self.copied += 1;
        if made.is_new
            && let Err(error) = self.set_attributes(&made.id, &source.attributes)
        {
            self.fail_at(label, &error.into());
        }
    }

    /// Whether writing the one would change what is read of the other: a file and an image that
    /// lies in it, or two images that have a file in common.
    fn shares_bytes(&self, place: &Place, source: &Entry, existing: Option<&Entry>) -> bool {
        let within = |is_local: bool, files: &[FileIdentity], entry: &Entry| {
            is_local && files.contains(&FileIdentity::of_local(&entry.attributes))
        };
        within(place.is_local, &self.files, source)
            || existing.is_some_and(|entry| within(self.is_local, &place.files, entry))
            || place.files.iter().any(|file| self.files.contains(file))
    }

    /// Copies what is not a directory.
    fn leaf(&mut self, place: &Place, source: &Entry, to: &Target) -> anyhow::Result<()> {
        name::check_new(&to.name)?;
        let from = &place.tree;
        let found = self
            .tree
            .filesystem
            .lookup(&self.tree.call(), &to.directory, &to.name);
        let existing = match found {
            Ok(entry) => Some(entry),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        if self.shares_bytes(place, source, existing.as_ref()) {
            anyhow::bail!("its copy would be written over what is being read");
        }
        if self.is_image {
            self.overwrite(from, source, to, existing)?;
            self.copied += 1;
            return Ok(());
        }
        if existing.is_some_and(|entry| self.is_same(place.is_local, source, &entry)) {
            anyhow::bail!("is the same file as its copy would be");
        }
        if let Some(reason) = existing.and_then(|existing| obstacle(source, &existing)) {
            anyhow::bail!(reason);
        }
        match source.attributes.file_type {
            FileType::Regular => self.file(from, source, to, existing)?,
            FileType::Symlink => self.symlink(from, source, to, existing)?,
            _ => self.special(source, to, existing)?,
        }
        self.copied += 1;
        Ok(())
    }

    /// Makes an empty file, or empties the one that is there. One without permission to write is
    /// given it first: the copy gets the permissions of the original in the end, and copying a
    /// second time from an image, where most files are read-only, must work like the first.
    fn empty_file(
        &self,
        source: &Entry,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<FileId, Error> {
        let (filesystem, call) = (&self.tree.filesystem, self.tree.call());
        let mode = CreateMode::Unchecked(SetAttributes {
            mode: Some(source.attributes.mode & 0o777),
            size: Some(0),
            ..SetAttributes::default()
        });
        let create = || filesystem.create(&call, &to.directory, &to.name, &mode);
        let created = match (create(), existing) {
            (Err(Error::AccessDenied), Some(existing)) => {
                let writable = SetAttributes {
                    mode: Some(existing.attributes.mode | 0o200),
                    ..SetAttributes::default()
                };
                filesystem.set_attributes(&call, &existing.id, &writable, None)?;
                create()?
            }
            (created, _) => created?,
        };
        Ok(created.entry.id)
    }

    fn file(
        &mut self,
        from: &Tree,
        source: &Entry,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Error> {
        let id = self.empty_file(source, to, existing)?;
        let Self {
            tree,
            progress,
            buffer,
            ..
        } = self;
        let is_sparse = source.attributes.used < source.attributes.size;
        let mut end = 0;
        let size = from.stream(&source.id, buffer, &mut |offset, bytes| {
            progress.add(bytes.len() as u64);
            for (start, data) in data_of(bytes, is_sparse) {
                write_all(tree, &id, offset + start, data)?;
                end = offset + start + data.len() as u64;
            }
            Ok(())
        })?;
        if end < size {
            let attributes = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            let call = tree.call();
            tree.filesystem
                .set_attributes(&call, &id, &attributes, None)?;
        }
        self.set_attributes(&id, &source.attributes)
    }

    /// Copies a link; one that is in the way is replaced, as another run of the same copy needs.
    fn symlink(
        &self,
        from: &Tree,
        source: &Entry,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Error> {
        let target = from.link_target(&source.id)?;
        if existing.is_some() {
            let call = self.tree.call();
            self.tree
                .filesystem
                .remove(&call, &to.directory, &to.name)?;
        }
        let modified = Some(SetTime::To(source.attributes.modified));
        let owned = self.preserve && self.is_root;
        let attributes = SetAttributes {
            uid: owned.then_some(source.attributes.uid),
            gid: owned.then_some(source.attributes.gid),
            modified,
            ..SetAttributes::default()
        };
        self.tree.filesystem.make_symlink(
            &self.tree.call(),
            &to.directory,
            &to.name,
            &target,
            &attributes,
        )?;
        Ok(())
    }

    /// Makes a device, socket or pipe like the original, unless there is one.
    fn special(&self, source: &Entry, to: &Target, existing: Option<Entry>) -> anyhow::Result<()> {
        if let Some(existing) = existing {
            return Ok(self.set_attributes(&existing.id, &source.attributes)?);
        }
        if !self.is_root {
            anyhow::bail!("is a special file, which only root can copy");
        }
        let (major, minor) = source.attributes.device;
        let kind = match source.attributes.file_type {
            FileType::BlockDevice => NodeKind::BlockDevice(major, minor),
            FileType::CharacterDevice => NodeKind::CharacterDevice(major, minor),
            FileType::Socket => NodeKind::Socket,
            _ => NodeKind::Fifo,
        };
        let attributes = SetAttributes {
            mode: Some(source.attributes.mode & 0o777),
            ..SetAttributes::default()
        };
        let created = self.tree.filesystem.make_node(
            &self.tree.call(),
            &to.directory,
            &to.name,
            kind,
            &attributes,
        )?;
        self.set_attributes(&created.entry.id, &source.attributes)?;
        Ok(())
    }

    /// Sets mode and modification time, and with `preserve` the rest.
    fn set_attributes(&self, id: &FileId, source: &Attributes) -> Result<(), Error> {
        let owned = self.preserve && self.is_root;
        let bits = if self.preserve { 0o7777 } else { 0o777 };
        let attributes = SetAttributes {
            mode: Some(source.mode & bits),
            uid: owned.then_some(source.uid),
            gid: owned.then_some(source.gid),
            size: None,
            accessed: self.preserve.then_some(SetTime::To(source.accessed)),
            modified: Some(SetTime::To(source.modified)),
        };
        let call = self.tree.call();
        self.tree
            .filesystem
            .set_attributes(&call, id, &attributes, None)?;
        Ok(())
    }
}

/// Why an object of the target cannot become a copy of `source`.
fn obstacle(source: &Entry, existing: &Entry) -> Option<&'static str> {
    let (new, old) = (&source.attributes, &existing.attributes);
    match (new.file_type, old.file_type) {
        (FileType::Regular | FileType::Symlink, same) if same == new.file_type => None,
        (_, FileType::Directory) => Some("is a directory in the target"),
        (FileType::Regular, FileType::BlockDevice) => {
            Some("is a block device in the target: image:PATH writes to what is on it")
        }
        (FileType::Regular, _) => Some("exists in the target and is not a regular file"),
        (_, same) if same == new.file_type && old.device == new.device => None,
        _ => Some("exists in the target and is something else"),
    }
}

fn target_of(place: &Place, path: &[u8], filling: &[Filling]) -> Option<Target> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    Some(Target {
        directory: filling.last()?.id,
        name: name.to_vec(),
        label: place.label_of(path),
    })
}

fn write_all(tree: &Tree, id: &FileId, mut offset: u64, mut data: &[u8]) -> Result<(), Error> {
    while !data.is_empty() {
        let call = tree.call();
        let written = tree
            .filesystem
            .write(&call, id, offset, data, Stability::Unstable)?;
        let rest = data.get(written.count as usize..);
        match rest {
            Some(rest) if written.count > 0 => data = rest,
            _ => return Err(Error::Io("a write made no progress".to_owned())),
        }
        offset += u64::from(written.count);
    }
    Ok(())
}
