//! Copies files, links and special files.

use pagewell_fs::{
    Access, CreateMode, Entry, Error, FileId, FileType, NodeKind, OpenFile, SetAttributes, SetTime,
    name,
};
use pagewell_tree::{READ_BYTES, Tree, type_text};

use super::attributes::{Made, with_mode};
use super::data::{Moved, Sink};
use super::hand::{Hand, Leaf, Notice};
use super::object::{Object, Original, Target, Trouble, refuse};
use super::rules::Existing;
use crate::escape;
use crate::listing::is_device;
use crate::location::Place;

const NO_DEVICE: &str =
    "is a device, which could be any of this machine: only -p and -a copy devices";

pub(super) const ONE_FILE: &str = "a disk image is one file, and nothing can be added to it";

impl Hand {
    pub(super) fn leaf(&mut self, original: &Original<'_>, to: &Target) -> Result<(), Trouble> {
        name::check_new(&to.name).map_err(|error| Trouble::Source(error.into()))?;
        let source = original.entry;
        let keep = self.terms.rules.keep;
        if is_device(&source.attributes)
            && !self.terms.target.is_image
            && !(keep.mode && keep.ownership)
        {
            return refuse(NO_DEVICE);
        }
        let terms = self.terms.clone();
        let claim = terms.links.claim(original, terms.has_names(original));
        let at_once = claim.linked.is_none() && self.is_made_at_once(original);
        let mut refusal = None;
        if at_once {
            let made = self.made.take();
            match made.unwrap_or_else(|| self.new_file(original, to)) {
                Ok(object) => return self.file(original, to, &object, Made::New),
                // The answer may come before a look whether the name exists.
                Err(
                    error @ (Error::Exists
                    | Error::AccessDenied
                    | Error::NotPermitted
                    | Error::ReadOnly),
                ) => refusal = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        self.over(original, to, claim.linked, refusal)
    }

    /// Whether to try to make a new file before a look at the target.
    fn is_made_at_once(&self, original: &Original<'_>) -> bool {
        original.entry.attributes.file_type == FileType::Regular
            && !self.terms.target.is_image
            && self.terms.rules.existing == Existing::Overwrite
            && !self.terms.shares_bytes(original, None)
    }

    /// Makes the files of the next copies, in one turn, but for those that may become links.
    pub(super) fn make_files(&self, place: &Place, leaves: &mut [&mut Leaf]) {
        let terms = &self.terms;
        if !terms.turns.are_taken() || terms.has_ended() {
            return;
        }
        terms.turns.take(|| {
            for leaf in leaves {
                let original = leaf.original(place);
                if self.is_made_at_once(&original) && !terms.needs_id(&original) {
                    leaf.made = Some(self.make_file(&original, &leaf.to));
                }
            }
        });
    }

    /// Copies to a name that may exist. `refusal`: why no new file was made, if that was tried.
    fn over(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        linked: Option<FileId>,
        refusal: Option<Error>,
    ) -> Result<(), Trouble> {
        let source = original.entry;
        let existing = self.terms.lookup(to)?;
        match refusal {
            Some(refusal) if existing.is_none() => return Err(refusal.into()),
            _ => {}
        }
        if self.terms.shares_bytes(original, existing.as_ref()) {
            return refuse("its copy would be written over what is being read");
        }
        if self.terms.target.is_image {
            return self.overwrite(original, to, existing);
        }
        if let Some(existing) = existing {
            if self.terms.is_same(original.place, source, &existing) {
                return refuse("is the same file as its copy would be");
            }
            if self.stays(original, &existing) {
                return Ok(());
            }
            let may_go = self.terms.rules.forces && self.terms.is_named(&existing);
            if let Some(reason) = obstacle(source, &existing, may_go) {
                return refuse(reason);
            }
            if self.terms.links.is_made(&existing) {
                return refuse("will not overwrite what this copy has just made there");
            }
        }
        if let Some(Error::ReadOnly) = refusal {
            return Err(Error::ReadOnly.into());
        }
        if let Some(id) = linked
            && self.link(original, &id, to, existing.as_ref())?
        {
            return Ok(());
        }
        match source.attributes.file_type {
            FileType::Regular => self.over_file(original, to, existing),
            FileType::Symlink => self.symlink(original, to, existing),
            _ => self.special(original, to, existing),
        }
    }

    /// Copies a file into a disk image, over the beginning of its file, which must hold all of it.
    ///
    /// An image keeps its length, permissions and name. Holes are written as zeros: what was there
    /// must not show through.
    fn overwrite(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Trouble> {
        let source = original.entry;
        let Some(existing) = existing else {
            return refuse(ONE_FILE);
        };
        if self.stays(original, &existing) {
            return Ok(());
        }
        if source.attributes.file_type != FileType::Regular {
            return refuse("only a regular file can be copied into a disk image");
        }
        let (length, space) = (source.attributes.size, existing.attributes.size);
        let target = escape::text(&to.label);
        if length > space {
            let what = format!("its {length} bytes do not fit into {target}, which has {space}");
            return refuse(&what);
        }
        self.tell(original, to);
        let terms = self.terms.clone();
        let sink = Sink::Tree(&terms.target.tree, existing.id);
        let mut moved = Moved::default();
        match sink.fill(self, original, false, &mut moved) {
            // The original has grown since the look.
            Err(Trouble::Target(Error::NoSpace)) => {
                return refuse(&format!("more bytes than {target} has"));
            }
            copied => copied?,
        }
        let copied = moved.size;
        if copied < space {
            let rest = space - copied;
            self.notices.push(Notice::Message(format!(
                "{target}: {copied} bytes are copied, the {rest} bytes behind them are as they were"
            )));
        }
        Ok(())
    }

    /// Whether to leave an existing file alone.
    fn stays(&mut self, original: &Original<'_>, existing: &Entry) -> bool {
        let (new, old) = (&original.entry.attributes, &existing.attributes);
        match self.terms.rules.existing {
            Existing::Overwrite => false,
            Existing::Stay => true,
            Existing::Update if old.modified < new.modified => false,
            Existing::Update => {
                let is_directory = old.file_type.is_directory();
                let is_alike = old.file_type == new.file_type && !is_directory;
                if is_alike && self.terms.has_names(original) {
                    self.terms.links.remember(original, existing.id);
                }
                true
            }
        }
    }

    /// Links an earlier copy to this name; false when the target has no such links.
    fn link(
        &mut self,
        original: &Original<'_>,
        id: &FileId,
        to: &Target,
        existing: Option<&Entry>,
    ) -> Result<bool, Trouble> {
        let (filesystem, call) = self.terms.at_target();
        let object = filesystem.object_of(id);
        if existing.is_some_and(|existing| filesystem.object_of(&existing.id) == object) {
            return Ok(true);
        }
        let linked = self.terms.replace(to, (existing.is_some(), true), |name| {
            filesystem.link(&call, id, &to.directory, name)
        });
        match linked {
            Ok(_) => {
                self.tell(original, to);
                self.terms.unsynced.note(&Object::Known(to.directory));
                Ok(true)
            }
            // File systems without links (FAT) answer these, too.
            Err(
                error @ (Error::NotSupported
                | Error::NotPermitted
                | Error::Invalid
                | Error::TooManyLinks
                | Error::CrossDevice),
            ) => {
                let who = match self.terms.target.is_remote {
                    true => "the server",
                    false => "the target",
                };
                let more = match error {
                    Error::TooManyLinks => "more ",
                    _ => "",
                };
                let what = format!(
                    "{who} makes no {more}hard links ({error}): a file with several names is \
                     copied for each"
                );
                self.notices.push(Notice::First("links", what.into()));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes an empty file; fails if the name exists.
    fn new_file(&self, original: &Original<'_>, to: &Target) -> Result<Object, Error> {
        let turns = &self.terms.turns;
        turns.take(|| self.make_file(original, to))
    }

    fn make_file(&self, original: &Original<'_>, to: &Target) -> Result<Object, Error> {
        let terms = &self.terms;
        let (filesystem, call) = terms.at_target();
        let mode = terms.mode_at_first(&original.entry.attributes);
        if let Some(local) = terms.local()
            && !terms.needs_id(original)
        {
            let file = local.new_file(&call, &to.directory, &to.name, mode)?;
            return Ok(Object::Open(file));
        }
        let mode = CreateMode::Guarded(with_mode(mode));
        let created = filesystem.create(&call, &to.directory, &to.name, &mode)?;
        Ok(Object::Known(created.entry.id))
    }

    /// Makes a file, or empties the existing one.
    fn over_file(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Trouble> {
        let has_others = |existing: &Entry| existing.attributes.link_count > 1;
        let (keeps_links, is_in_turn) = (self.terms.rules.keep.links, self.is_in_turn);
        if existing.as_ref().is_some_and(has_others) && !keeps_links && !is_in_turn {
            return Err(Trouble::Aliased);
        }
        if existing.is_some() {
            // As cp(1) does: the old file stays when the original cannot be opened.
            let reader = original.place.tree.reader(original.entry);
            let opened = reader.read(0, READ_BYTES);
            opened.map_err(|error| {
                self.tell(original, to);
                Trouble::Source(error.into())
            })?;
        }
        let (object, made) = match existing {
            None => (self.new_file(original, to)?, Made::New),
            Some(existing) if has_others(&existing) && keeps_links => {
                // Its other names must not get the new bytes.
                self.terms.remove(to)?;
                (self.new_file(original, to)?, Made::New)
            }
            Some(existing) => match empty(&self.terms.target.tree, &existing.id) {
                Ok(()) => (Object::Known(existing.id), Made::Before),
                Err(_) if self.terms.rules.forces => {
                    self.terms.remove(to)?;
                    self.tell_removed(to);
                    (self.new_file(original, to)?, Made::New)
                }
                Err(error) => {
                    self.tell(original, to);
                    return Err(error.into());
                }
            },
        };
        self.file(original, to, &object, made)
    }

    /// Fills an empty file, and gives it its attributes. A new file that cannot be filled is
    /// removed, unless the original fails after some bytes: these stay, older than the original, so
    /// that a copy with -u begins anew.
    fn file(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        object: &Object,
        made: Made,
    ) -> Result<(), Trouble> {
        self.tell(original, to);
        let mut moved = Moved::default();
        let filled = self.fill_file(original, object, &mut moved);
        if let Err(trouble) = &filled {
            let is_useless = matches!(trouble, Trouble::Target(_)) || moved.size == 0;
            let _ = if made == Made::New && is_useless {
                self.terms.remove(to)
            } else {
                self.terms.set(object, &of_a_part(original.entry))
            };
            return filled;
        }
        // All bytes are there, whatever becomes of the attributes.
        let dressed = self.dress(original, object, made);
        self.terms.unsynced.note(object);
        self.made(original, to, object);
        dressed
    }

    fn fill_file(
        &mut self,
        original: &Original<'_>,
        object: &Object,
        moved: &mut Moved,
    ) -> Result<(), Trouble> {
        let terms = self.terms.clone();
        let call = terms.target.tree.call();
        let sink = match (object, terms.local()) {
            (Object::Open(file), _) => Sink::File(file.clone()),
            (Object::Known(id), Some(local)) => Sink::File(local.open_to_write(&call, id)?),
            (Object::Known(id), None) => Sink::Tree(&terms.target.tree, *id),
        };
        let attributes = &original.entry.attributes;
        let is_sparse = attributes.used < attributes.size;
        sink.fill(self, original, is_sparse, moved)?;
        if moved.end < moved.size {
            let attributes = SetAttributes {
                size: Some(moved.size),
                ..SetAttributes::default()
            };
            terms.set(object, &attributes)?;
        }
        Ok(())
    }

    /// Copies a link; replaces an existing one, as another run of the same copy needs.
    fn symlink(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Trouble> {
        self.tell(original, to);
        let source = original.entry;
        let target = original.place.tree.link_target(&source.id);
        let target = target.map_err(|error| Trouble::Source(error.into()))?;
        let terms = self.terms.clone();
        let (filesystem, call) = terms.at_target();
        let none = SetAttributes::default();
        let made = terms.replace(to, (existing.is_some(), false), |name| {
            filesystem.make_symlink(&call, &to.directory, name, &target, &none)
        });
        let made = made.map_err(|error| not_made(source, error))?;
        let object = Object::Known(made.entry.id);
        self.made(original, to, &object);
        self.give(original, &object, &terms.kept(&source.attributes))
    }

    /// Makes a device, socket or pipe like the original, unless it exists.
    fn special(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Trouble> {
        if let Some(existing) = existing {
            let existing = Object::Known(existing.id);
            return self.dress(original, &existing, Made::Before);
        }
        self.tell(original, to);
        let source = &original.entry.attributes;
        let (major, minor) = source.device;
        let kind = match source.file_type {
            FileType::BlockDevice => NodeKind::BlockDevice(major, minor),
            FileType::CharacterDevice => NodeKind::CharacterDevice(major, minor),
            FileType::Socket => NodeKind::Socket,
            _ => NodeKind::Fifo,
        };
        let attributes = with_mode(self.terms.mode_at_first(source));
        let (filesystem, call) = self.terms.at_target();
        let made = self
            .terms
            .turns
            .take(|| filesystem.make_node(&call, &to.directory, &to.name, kind, &attributes));
        let made = made.map_err(|error| not_made(original.entry, error))?;
        let object = Object::Known(made.entry.id);
        self.made(original, to, &object);
        self.dress(original, &object, Made::New)
    }

    /// Notes that a name was made in the target, and of what.
    fn made(&self, original: &Original<'_>, to: &Target, object: &Object) {
        let terms = &self.terms;
        terms.unsynced.note(&Object::Known(to.directory));
        let Object::Known(id) = object else {
            return;
        };
        if terms.has_names(original) {
            terms.links.remember(original, *id);
        }
        if terms.folds_case || terms.rules.several && original.path.is_none() {
            terms.links.note_made(*id);
        }
    }
}

fn not_made(original: &Entry, error: Error) -> Trouble {
    match error {
        Error::NotSupported | Error::BadType => {
            let what = type_text(original.attributes.file_type);
            Trouble::Source(anyhow::anyhow!("the target makes no {what}s"))
        }
        error => error.into(),
    }
}

/// Whether an existing file of the target may be written, as open(2) would say. A server lets
/// owners write to protected files (RFC 1813 section 4.4), so it is asked by ACCESS. A file of this
/// machine is opened.
pub(crate) fn check_write(tree: &Tree, id: &FileId) -> Result<Option<OpenFile>, Error> {
    let call = tree.call();
    if let Some(local) = tree.local() {
        return local.open_to_write(&call, id).map(Some);
    }
    let wanted = Access::MODIFY | Access::EXTEND;
    let (granted, _) = tree.filesystem.access(&call, id, wanted)?;
    Error::AccessDenied.unless(granted & wanted == wanted)?;
    Ok(None)
}

/// Empties a file, if it may be written.
fn empty(tree: &Tree, id: &FileId) -> Result<(), Error> {
    if let Some(file) = check_write(tree, id)? {
        return rustix::fs::ftruncate(&file, 0).map_err(Error::from);
    }
    let none = SetAttributes {
        size: Some(0),
        ..SetAttributes::default()
    };
    let set = tree
        .filesystem
        .set_attributes(&tree.call(), id, &none, None);
    set.map(drop)
}

/// The attributes of a partial copy: a time before that of the original.
fn of_a_part(original: &Entry) -> SetAttributes {
    let mut before = original.attributes.modified;
    before.seconds = before.seconds.saturating_sub(1);
    SetAttributes {
        modified: Some(SetTime::To(before)),
        ..SetAttributes::default()
    }
}

/// Why an object of the target cannot become a copy of `source`. `may_go`: a link may be removed.
fn obstacle(source: &Entry, existing: &Entry, may_go: bool) -> Option<&'static str> {
    let (new, old) = (&source.attributes, &existing.attributes);
    match (new.file_type, old.file_type) {
        (FileType::Regular | FileType::Symlink, same) if same == new.file_type => None,
        (FileType::Regular, FileType::Symlink) if may_go => None,
        (_, FileType::Directory) => Some("is a directory in the target"),
        (FileType::Regular, FileType::BlockDevice) => {
            Some("is a block device in the target: image:PATH writes to what is on it")
        }
        (FileType::Regular, _) => Some("exists in the target and is not a regular file"),
        (_, same) if same == new.file_type && old.device == new.device => None,
        _ => Some("exists in the target and is something else"),
    }
}
