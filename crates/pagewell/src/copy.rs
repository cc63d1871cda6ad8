//! Copies objects from one tree into another.
//!
//! Whatever a source says, the copy stays inside the target: objects are made by name under the
//! identifier of a directory that was itself found or made so, names are checked, and symbolic
//! links in the target are never followed. Data is written unstable and brought to the device
//! once, at the end; if the target lost data in between, its write verifier tells.
//!
//! One failure does not end the work, unless everything after it would fail the same way: a target
//! that is full or cannot be written ends it with one message.

mod attributes;
mod data;
mod durable;
mod leaf;
mod links;
mod overwrite;
pub(crate) mod rules;
mod within;

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use pagewell_fs::{Entry, Error, FileId, SetAttributes, name};
use pagewell_source_dir::Directory;

use crate::escape;
use crate::failure::{Outcome, OutputFailed};
use crate::identity::FileIdentity;
use crate::location::{Home, Place};
use crate::progress::Progress;
use crate::tree::Tree;
use crate::walk::{Next, Step, walk};

use attributes::Made;
use durable::Unsynced;
use links::Links;
use rules::Rules;

/// Where one object goes.
pub(crate) struct Target {
    /// The directory.
    pub(crate) directory: FileId,
    /// The name there.
    pub(crate) name: Vec<u8>,
    /// For messages.
    pub(crate) label: Vec<u8>,
}

/// An object that is copied.
struct Original<'a> {
    place: &'a Place,
    /// Its path below the place; nothing for the place itself.
    path: Option<&'a [u8]>,
    entry: &'a Entry,
}

impl Original<'_> {
    fn label(&self) -> Vec<u8> {
        match self.path {
            Some(path) => self.place.label_of(path),
            None => self.place.label.clone(),
        }
    }
}

/// Why something was not copied, and which side it is on.
#[derive(Debug)]
enum Trouble {
    /// The original, or what is not done with it.
    Source(anyhow::Error),
    /// The copy.
    Target(Error),
}

impl Trouble {
    fn refused(what: &str) -> Self {
        Self::Source(anyhow::anyhow!("{what}"))
    }

    /// Whether every other copy would fail the same way.
    fn is_final(&self) -> bool {
        let Self::Target(error) = self else {
            return false;
        };
        matches!(
            error,
            Error::NoSpace
                | Error::FullBelow(_)
                | Error::QuotaExceeded
                | Error::QuotaBelow(_)
                | Error::ReadOnly
        )
    }
}

/// The copy ends here.
#[derive(Debug)]
struct Ended;

/// Copies, and counts what could not be copied.
pub(crate) struct Copier {
    tree: Tree,
    home: Home,
    local: Option<Arc<Directory>>,
    is_image: bool,
    /// What the target lies in, when it is an image.
    files: Vec<FileIdentity>,
    rules: Rules,
    is_root: bool,
    verifier: [u8; 8],
    progress: Progress,
    buffer: Vec<u8>,
    links: Links,
    device: Unsynced,
    told: HashSet<String>,
    told_loss: bool,
    output: Option<std::io::Error>,
    copied: u64,
    failures: u64,
    has_ended: bool,
}

/// A directory of the target that is being filled.
struct Filling {
    id: FileId,
    label: Vec<u8>,
    /// The directory that it is a copy of, when it is a new one.
    original: Option<(Entry, Made)>,
}

impl Copier {
    /// Copies into the tree of `target`.
    #[must_use]
    pub(crate) fn new(target: &Place, rules: Rules) -> Self {
        let local = match &target.home {
            Home::Local(local) => Some(local.clone()),
            _ => None,
        };
        Self {
            verifier: target.tree.filesystem.write_verifier(),
            tree: target.tree.clone(),
            home: target.home.clone(),
            local,
            is_image: target.is_image,
            files: target.files.clone(),
            rules,
            is_root: rustix::process::geteuid().is_root(),
            progress: Progress::new(true),
            buffer: Vec::new(),
            links: Links::default(),
            device: Unsynced::default(),
            told: HashSet::new(),
            told_loss: false,
            output: None,
            copied: 0,
            failures: 0,
            has_ended: false,
        }
    }

    /// Whether everything else would fail as the last copy did.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reports and counts a failure.
    pub(crate) fn fail(&mut self, text: &str) {
        self.failures += 1;
        self.progress.report(text);
    }

    /// Tells something that is no failure, the first time.
    fn tell_once(&mut self, text: &str) {
        if self.told.insert(text.to_owned()) {
            self.progress.report(text);
        }
    }

    /// Reports and counts a failure by the name of the side that it is on.
    fn settle(&mut self, copied: Result<(), Trouble>, original: &Original<'_>, to: &Target) {
        let trouble = match copied {
            Ok(()) => {
                self.copied += 1;
                return;
            }
            Err(trouble) => trouble,
        };
        self.has_ended |= trouble.is_final();
        let rest = if self.has_ended {
            ": the copy ends here"
        } else {
            ""
        };
        let (label, error) = match trouble {
            Trouble::Source(error) => (original.label(), format!("{error:#}")),
            Trouble::Target(error) => (to.label.clone(), error.to_string()),
        };
        self.fail(&format!("{}: {error}{rest}", escape::text(&label)));
    }

    /// Tells what is copied where, when that is asked for.
    fn tell(&mut self, original: &Original<'_>, to: &Target) {
        if !self.rules.verbose {
            return;
        }
        let (from, to) = (escape::text(&original.label()), escape::text(&to.label));
        let told = writeln!(std::io::stdout(), "'{from}' -> '{to}'");
        if let Err(error) = told {
            self.output = Some(error);
            self.has_ended = true;
        }
    }

    /// Brings everything to the device and says how it went.
    pub(crate) fn finish(mut self) -> anyhow::Result<Outcome> {
        self.progress.begin("to the device");
        match &self.local {
            Some(_) if !self.rules.syncs => {}
            Some(_) => self.device.sync(&self.tree)?,
            None => self.tree.filesystem.sync()?,
        }
        if self.tree.filesystem.write_verifier() != self.verifier {
            anyhow::bail!("data was lost before it reached the device: copy again");
        }
        if self.failures > 0 && self.failures + self.copied > 1 {
            let (failures, copied) = (self.failures, self.copied);
            self.progress
                .report(&format!("{copied} copied, {failures} failed"));
        }
        match self.output {
            Some(error) => Err(OutputFailed(error).into()),
            None => Ok(Outcome::from_failures(self.failures)),
        }
    }

    /// Copies one object, and with a directory all that is in it.
    pub(crate) fn object(&mut self, place: &Place, entry: &Entry, to: &Target) {
        let original = Original {
            place,
            path: None,
            entry,
        };
        if !self.links.begin(&original, &to.name) {
            let shown = place.shown();
            self.progress
                .report(&format!("{shown}: is given more than once: copied once"));
            return;
        }
        if !entry.attributes.file_type.is_directory() {
            self.progress.begin(&place.shown());
            self.progress.expect(Some(entry.attributes.size));
            self.one(&original, to);
            return;
        }
        let filling = if self.is_image {
            Err(Trouble::refused(overwrite::ONE_FILE))
        } else if self.is_within(place, entry, &to.directory) {
            Err(Trouble::refused(within::INTO_ITSELF))
        } else {
            self.make_directory(&original, to)
        };
        match filling {
            Ok(filling) => self.fill(place, entry, filling),
            Err(trouble) => self.settle(Err(trouble), &original, to),
        }
    }

    /// Copies what is in a directory into another that exists.
    pub(crate) fn directory_contents(
        &mut self,
        place: &Place,
        entry: &Entry,
        into: (&Entry, &[u8]),
    ) -> anyhow::Result<()> {
        if !entry.attributes.file_type.is_directory() {
            anyhow::bail!("{}: has no name to copy it to", place.shown());
        }
        let (into, label) = into;
        if self.is_same(place, entry, into) || self.is_within(place, entry, &into.id) {
            anyhow::bail!("{}: {}", place.shown(), within::INTO_ITSELF);
        }
        let original = Original {
            place,
            path: None,
            entry,
        };
        self.links.begin(&original, b"");
        let keeps = self.rules.keep != rules::Keep::default();
        let made = Made::Before { mode: None };
        let filling = Filling {
            id: into.id,
            label: label.to_vec(),
            original: keeps.then_some((*entry, made)),
        };
        self.fill(place, entry, filling);
        Ok(())
    }

    /// Copies what is not a directory.
    fn one(&mut self, original: &Original<'_>, to: &Target) {
        let copied = self.leaf(original, to);
        self.settle(copied, original, to);
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
        // An end is told by what brought it about.
        let _ = walk(&place.tree, start, &mut |step| -> Result<Next, Ended> {
            match step {
                Step::Enter(path, entry) => {
                    let original = Original {
                        place,
                        path: Some(path),
                        entry,
                    };
                    let Some(to) = target_of(path, &filling) else {
                        return Ok(Next::Skip);
                    };
                    let is_top = top_entry.is_some_and(|top| self.is_same(place, entry, &top));
                    let made = if is_top {
                        Err(Trouble::refused(within::INTO_ITSELF))
                    } else {
                        self.make_directory(&original, &to)
                    };
                    match made {
                        Ok(made) => filling.push(made),
                        Err(trouble) => {
                            self.settle(Err(trouble), &original, &to);
                            return self.go_on(Next::Skip);
                        }
                    }
                }
                Step::Object(path, entry) => {
                    if let Some(to) = target_of(path, &filling) {
                        self.progress.begin(&escape::text(&to.label));
                        let original = Original {
                            place,
                            path: Some(path),
                            entry,
                        };
                        self.one(&original, &to);
                    }
                }
                Step::Leave(path) => {
                    if let Some(made) = filling.pop() {
                        self.close_directory(place, Some(path), made);
                    }
                }
                Step::Failed(path, error) => {
                    let shown = escape::text(&place.label_of(path));
                    self.fail(&format!("{shown}: {error}"));
                }
                Step::Listing(..) => {}
            }
            self.go_on(Next::Go)
        });
        while let Some(made) = filling.pop() {
            self.close_directory(place, None, made);
        }
    }

    fn go_on(&self, next: Next) -> Result<Next, Ended> {
        if self.has_ended { Err(Ended) } else { Ok(next) }
    }

    fn make_directory(&mut self, original: &Original<'_>, to: &Target) -> Result<Filling, Trouble> {
        name::check_new(&to.name).map_err(|error| Trouble::Source(error.into()))?;
        // Writable until it is filled: the mode that it is to have is set at the end.
        let attributes = SetAttributes {
            mode: Some(self.mode_at_first(&original.entry.attributes) | 0o700),
            ..SetAttributes::default()
        };
        let (filesystem, call) = (&self.tree.filesystem, self.tree.call());
        match filesystem.make_directory(&call, &to.directory, &to.name, &attributes) {
            Ok(created) => {
                let inherited = created.entry.attributes.mode & 0o2000;
                self.device.note(&to.directory);
                self.tell(original, to);
                Ok(Filling {
                    id: created.entry.id,
                    label: to.label.clone(),
                    original: Some((*original.entry, Made::Directory { inherited })),
                })
            }
            Err(error @ (Error::Exists | Error::ReadOnly | Error::AccessDenied)) => {
                let existing = match filesystem.lookup(&call, &to.directory, &to.name) {
                    Ok(existing) => existing,
                    Err(Error::NotFound) => return Err(Trouble::Target(error)),
                    Err(error) => return Err(Trouble::Target(error)),
                };
                if !existing.attributes.file_type.is_directory() {
                    let what = "exists in the target and is not a directory";
                    return Err(Trouble::refused(what));
                }
                if self.is_same(original.place, original.entry, &existing) {
                    let what = "will not copy a directory onto itself";
                    return Err(Trouble::refused(what));
                }
                let keeps = self.rules.keep != rules::Keep::default();
                let made = Made::Before { mode: None };
                Ok(Filling {
                    id: existing.id,
                    label: to.label.clone(),
                    original: keeps.then_some((*original.entry, made)),
                })
            }
            Err(error) => Err(Trouble::Target(error)),
        }
    }

    /// Gives a directory the attributes that are kept, after its contents were made.
    fn close_directory(&mut self, place: &Place, path: Option<&[u8]>, filling: Filling) {
        let Some((entry, made)) = filling.original else {
            self.copied += 1;
            return;
        };
        let original = Original {
            place,
            path,
            entry: &entry,
        };
        let to = Target {
            directory: filling.id,
            name: Vec::new(),
            label: filling.label,
        };
        let dressed = self.dress(&original, &filling.id, made);
        self.device.note(&filling.id);
        self.settle(dressed, &original, &to);
    }

    /// Whether writing the one would change what is read of the other: a file and an image that
    /// lies in it, or two images that have a file in common.
    fn shares_bytes(&self, original: &Original<'_>, existing: Option<&Entry>) -> bool {
        let place = original.place;
        let within = |is_local: bool, files: &[FileIdentity], entry: &Entry| {
            is_local && files.contains(&FileIdentity::of_local(&entry.attributes))
        };
        within(place.is_local(), &self.files, original.entry)
            || existing.is_some_and(|entry| within(self.local.is_some(), &place.files, entry))
            || place.files.iter().any(|file| self.files.contains(file))
    }
}

fn target_of(path: &[u8], filling: &[Filling]) -> Option<Target> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let directory = filling.last()?;
    Some(Target {
        directory: directory.id,
        name: name.to_vec(),
        label: [directory.label.as_slice(), b"/", name].concat(),
    })
}
