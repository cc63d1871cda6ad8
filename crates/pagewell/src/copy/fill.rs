//! Copies what is below a directory: one thread walks and makes directories, several copy what is
//! in them ([`pagewell_tree::pipeline`]).
//!
//! The thread of the walk settles the others' work in its order: messages come so, and a directory
//! gets its attributes after all that is in it. It copies large files itself, which shows their
//! progress and bounds memory.
//!
//! Every copy changes one name, so two meet only in an object with several names. Names of one
//! original wait for each other ([`super::links`]); a write to a file of the target with several
//! names waits for its turn in the walk ([`Trouble::Aliased`]). Where names that differ only in
//! case are one, one thread does all.
//!
//! In a directory of this machine all directories are made before the first file: else ext4 without
//! a journal fills the same places again and again, and passes over what was removed there within
//! the last minutes (`scripts/bench-copy.sh`, the row "again").
//!
//! After a failure that ends the copy the threads finish what they have begun, and begin nothing.

use std::collections::VecDeque;

use pagewell_fs::{Entry, Error, FileId, name};
use pagewell_tree::pipeline::{self, Pipeline, Width, Worker};
use pagewell_tree::walk::{Next, Preparation, Step, walk};
use pagewell_tree::{Listed, READ_BYTES};

use super::Copier;
use super::attributes::{Made, with_mode};
use super::hand::{Hand, Leaf, Notice, Tried};
use super::object::{Object, Original, Target, Trouble, refuse};
use super::rules::{self, Existing};
use super::terms::{INTO_ITSELF, Terms, identity};
use super::turns::FILES_OF_A_TURN;
use crate::escape;
use crate::location::Place;

/// The thread of the walk copies larger files: what one read takes.
const SMALL_BYTES: u64 = READ_BYTES as u64;

/// A directory of the target in the making.
pub(super) struct Filling {
    pub(super) id: FileId,
    pub(super) label: Vec<u8>,
    /// Its original, if it gets the attributes of that.
    pub(super) original: Option<(Entry, Made)>,
}

impl Filling {
    /// An existing directory. It gets the attributes of the original when any are kept.
    pub(super) fn existing(terms: &Terms, id: FileId, label: &[u8], original: &Entry) -> Self {
        let keeps = terms.rules.keep != rules::Keep::default();
        let made = Made::Before;
        Self {
            id,
            label: label.to_vec(),
            original: keeps.then_some((*original, made)),
        }
    }

    /// The target of an object in it; `path` ends with the object's name.
    pub(super) fn target_of(&self, path: &[u8]) -> Option<Target> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        Some(Target {
            directory: self.id,
            name: name.to_vec(),
            label: [self.label.as_slice(), b"/", name].concat(),
        })
    }

    /// Makes a directory, or takes the existing one.
    pub(super) fn make(
        hand: &mut Hand,
        original: &Original<'_>,
        to: &Target,
    ) -> Result<Self, Trouble> {
        name::check_new(&to.name).map_err(|error| Trouble::Source(error.into()))?;
        let terms = hand.terms.clone();
        // Writable until it is filled; its mode is set at the end.
        let attributes = with_mode(terms.mode_at_first(&original.entry.attributes) | 0o700);
        let (filesystem, call) = terms.at_target();
        let made = terms
            .turns
            .take(|| filesystem.make_directory(&call, &to.directory, &to.name, &attributes));
        match made {
            Ok(created) => {
                let mode = created.entry.attributes.mode & 0o7777;
                terms.unsynced.note(&Object::Known(to.directory));
                hand.tell(original, to);
                Ok(Self {
                    id: created.entry.id,
                    label: to.label.clone(),
                    original: Some((*original.entry, Made::Directory { mode })),
                })
            }
            Err(error @ (Error::Exists | Error::ReadOnly | Error::AccessDenied)) => {
                let existing = terms.lookup(to)?.ok_or(error)?;
                if !existing.attributes.file_type.is_directory() {
                    return refuse("exists in the target and is not a directory");
                }
                if terms.is_same(original.place, original.entry, &existing) {
                    return refuse("will not copy a directory onto itself");
                }
                Ok(Self::existing(
                    &terms,
                    existing.id,
                    &to.label,
                    original.entry,
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a directory the attributes to keep, after its contents were made.
    fn close(
        &self,
        hand: &mut Hand,
        (place, path): (&Place, Option<&[u8]>),
    ) -> Result<(), Trouble> {
        let Some((entry, made)) = &self.original else {
            return Ok(());
        };
        let original = Original { place, path, entry };
        let object = Object::Known(self.id);
        let dressed = hand.dress(&original, &object, *made);
        hand.terms.unsynced.note(&object);
        dressed
    }
}

struct Level {
    filling: Filling,
    /// The directories in it that were made before the walk enters them, in its order.
    ahead: VecDeque<Entered>,
}

impl Level {
    fn new(filling: Filling) -> Self {
        Self {
            filling,
            ahead: VecDeque::new(),
        }
    }
}

/// A directory of the target that was made, or why not, with notices.
struct Entered {
    made: Result<Filling, Trouble>,
    notices: Vec<Notice>,
}

#[derive(Debug)]
struct Ended;

/// An item to settle in the order of the walk.
enum Item {
    Leaf(Leaf),
    /// The end of a directory.
    Leave(Option<Vec<u8>>, Filling),
    Tell(Vec<Notice>),
}

impl Item {
    /// The leaf, unless it was tried.
    fn leaf(&mut self) -> Option<&mut Leaf> {
        match self {
            Self::Leaf(leaf) => leaf.tried.is_none().then_some(leaf),
            _ => None,
        }
    }
}

type Line<'scope, 'env, 'work> = Pipeline<'scope, 'env, 'work, Item>;

impl Copier {
    /// Walks a source directory and rebuilds it below `top`.
    pub(super) fn fill(&mut self, place: &Place, start: &Entry, top: Filling) {
        self.hand.progress.expect(None);
        let depth = self.followed.above.len();
        self.followed.above.push(identity(start));
        let terms = self.hand.terms.clone();
        let worker = || -> Worker<'_, Item> {
            let mut hand = Hand::further(terms.clone());
            Box::new(move |items| {
                let mut leaves: Vec<&mut Leaf> = items.iter_mut().filter_map(Item::leaf).collect();
                for leaves in leaves.chunks_mut(FILES_OF_A_TURN) {
                    hand.make_files(place, leaves);
                    hand.copy_all(place, leaves);
                }
            })
        };
        let width = match self.hand.terms.target.width() {
            // No two threads may reach one file by two names.
            _ if self.hand.terms.folds_case => Width::NONE,
            Width::REMOTE => Width::REMOTE,
            _ => place.width(),
        };
        pipeline::run(&worker, width, |line| {
            self.fill_by(line, place, start, top);
            self.finish_line(line, place);
        });
        self.followed.above.truncate(depth);
    }

    fn finish_line(&mut self, line: &mut Line<'_, '_, '_>, place: &Place) {
        while let Some(item) = line.finish() {
            self.settle_item(place, item);
        }
    }

    fn fill_by(&mut self, line: &mut Line<'_, '_, '_>, place: &Place, start: &Entry, top: Filling) {
        let (filesystem, call) = self.hand.terms.at_target();
        let top_entry = filesystem.attributes(&call, &top.id);
        let top_entry = top_entry.ok().map(|attributes| Entry {
            id: top.id,
            attributes,
        });
        let mut levels = vec![Level::new(top)];
        // An end was reported where it came about.
        let tree = &place.tree;
        let ahead = Preparation {
            // Other rules leave many files as they are.
            reads_files: self.hand.terms.rules.existing == Existing::Overwrite,
            ..place.preparation()
        };
        let _ = walk(tree, ahead, start, &mut |step| -> Result<Next, Ended> {
            let mut next = Next::Go;
            match step {
                Step::Enter(path, entry) => {
                    let above = levels.last_mut();
                    let top = top_entry.as_ref();
                    match above.and_then(|above| self.enter(line, (place, path, entry), above, top))
                    {
                        Some(made) => {
                            levels.push(Level::new(made));
                            self.followed.above.push(identity(entry));
                        }
                        None => next = Next::Skip,
                    }
                }
                Step::Listing(path, _, listed) => {
                    if let Some(level) = levels.last_mut() {
                        self.make_ahead((place, path, listed), level, top_entry.as_ref());
                    }
                }
                Step::Object(path, entry) => {
                    let into = levels.last().map(|level| &level.filling);
                    if let Some(to) = into.and_then(|into| into.target_of(path)) {
                        self.give_leaf(line, (place, path, entry), to);
                    }
                }
                Step::Leave(path) => {
                    self.followed.above.pop();
                    if let Some(level) = levels.pop() {
                        line.give(Item::Leave(Some(path.to_vec()), level.filling));
                    }
                }
                Step::Failed(path, error) => {
                    let shown = escape::text(&place.label_of(path));
                    let failure = Notice::Failure(format!("{shown}: {error}"));
                    line.give(Item::Tell(vec![failure]));
                }
            }
            while let Some(item) = line.take() {
                self.settle_item(place, item);
            }
            if self.hand.terms.has_ended() {
                return Err(Ended);
            }
            Ok(next)
        });
        while let Some(level) = levels.pop() {
            line.give(Item::Leave(None, level.filling));
        }
    }

    fn give_leaf(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        (place, path, entry): (&Place, &[u8], &Entry),
        to: Target,
    ) {
        if self.follows(entry) {
            self.finish_line(line, place);
            return self.follow(place, path, &to);
        }
        let mut leaf = Leaf {
            path: path.to_vec(),
            entry: *entry,
            to,
            made: None,
            tried: None,
        };
        if entry.attributes.size > SMALL_BYTES {
            self.hand.progress.begin(&escape::text(&leaf.to.label));
            self.hand.copy(place, &mut leaf);
        }
        line.give(Item::Leaf(leaf));
    }

    /// Makes the directories of a listing, in a directory of this machine.
    fn make_ahead(
        &mut self,
        (place, path, listed): (&Place, &[u8], &[Listed]),
        level: &mut Level,
        top: Option<&Entry>,
    ) {
        // Of names that differ only in case the first one counts.
        if !self.hand.terms.turns.are_taken() || self.hand.terms.folds_case {
            return;
        }
        for Listed { name, entry } in listed {
            let Ok(entry) = entry else { continue };
            if !entry.attributes.file_type.is_directory() {
                continue;
            }
            let path = match path {
                b"" => name.clone(),
                path => [path, b"/", name].concat(),
            };
            let Some(to) = level.filling.target_of(&path) else {
                return;
            };
            let entered = self.make_entered(&Original::below(place, &path, entry), &to, top);
            let is_final = entered.made.as_ref().is_err_and(Trouble::is_final);
            level.ahead.push_back(entered);
            // The walk reports the failure when it enters that directory.
            if is_final || self.hand.terms.has_ended() {
                return;
            }
        }
    }

    fn make_entered(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        top: Option<&Entry>,
    ) -> Entered {
        let (place, entry) = (original.place, original.entry);
        let is_top = top.is_some_and(|top| self.hand.terms.is_same(place, entry, top));
        let made = if is_top {
            refuse(INTO_ITSELF)
        } else if self.followed.leads_back_to(entry) {
            refuse("contains itself, by way of a symbolic link")
        } else {
            Filling::make(&mut self.hand, original, to)
        };
        let notices = std::mem::take(&mut self.hand.notices);
        Entered { made, notices }
    }

    /// Enters a directory of the target, made if need be; nothing when the original is not to be
    /// entered.
    fn enter(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        (place, path, entry): (&Place, &[u8], &Entry),
        above: &mut Level,
        top: Option<&Entry>,
    ) -> Option<Filling> {
        let to = above.filling.target_of(path)?;
        let original = Original::below(place, path, entry);
        let entered = above.ahead.pop_front();
        let Entered { made, notices } =
            entered.unwrap_or_else(|| self.make_entered(&original, &to, top));
        match made {
            Ok(made) => {
                if !notices.is_empty() {
                    line.give(Item::Tell(notices));
                }
                Some(made)
            }
            Err(trouble) => {
                if trouble.is_final() {
                    self.hand.terms.end();
                }
                line.give(Item::Leaf(Leaf {
                    path: path.to_vec(),
                    entry: *entry,
                    to,
                    made: None,
                    tried: Some(Tried {
                        copied: Err(trouble),
                        notices,
                        bytes: 0,
                    }),
                }));
                None
            }
        }
    }

    fn settle_item(&mut self, place: &Place, item: Item) {
        match item {
            Item::Leaf(leaf) => self.settle_leaf(place, leaf),
            Item::Leave(path, filling) => {
                let path = path.as_deref();
                let closed = filling.close(&mut self.hand, (place, path));
                self.tell_own();
                if let Some((entry, _)) = &filling.original {
                    let original = Original { place, path, entry };
                    self.settle(closed, &original, &filling.label);
                }
            }
            Item::Tell(notices) => self.tell(notices),
        }
    }

    fn settle_leaf(&mut self, place: &Place, mut leaf: Leaf) {
        let Some(tried) = leaf.tried.take() else {
            // The copy ended before this leaf was begun.
            return;
        };
        self.hand.progress.add_of(tried.bytes, &leaf.to.label);
        self.tell(tried.notices);
        let original = leaf.original(place);
        let copied = match tried.copied {
            // All before it is done, and no other thread writes to such a file.
            Err(Trouble::Aliased) => {
                let copied = self.hand.leaf(&original, &leaf.to);
                self.tell_own();
                copied
            }
            copied => copied,
        };
        self.settle(copied, &original, &leaf.to.label);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pagewell_base::sync::Mutex;
    use pagewell_fs::{CreateMode, Result, SetAttributes};
    use pagewell_source_ram::RamFileSystem;
    use pagewell_tree::Tree;
    use pagewell_wire::layer::{Event, Hook, Layer};

    use super::super::terms::place;
    use super::*;
    use crate::copy::rules::Rules;

    /// The names of files and directories, in the order in which they are made.
    #[derive(Default)]
    struct Made(Mutex<Vec<String>>);

    impl Hook for Made {
        fn before(&self, event: &Event<'_>) -> Result<()> {
            if matches!(event.operation, "create" | "make_directory") {
                let name = String::from_utf8_lossy(event.name).into_owned();
                self.0.lock().push(name);
            }
            Ok(())
        }
    }

    /// `a-file  b/{below, c-file}  d/{e-file}`.
    fn tree() -> Tree {
        let tree = Tree::new(Arc::new(RamFileSystem::new(1 << 20).unwrap()));
        let (filesystem, call, root) = (&tree.filesystem, tree.call(), tree.filesystem.root());
        let none = SetAttributes::default();
        let file = |directory: &FileId, name: &[u8]| {
            let mode = CreateMode::Guarded(none);
            filesystem.create(&call, directory, name, &mode).unwrap();
        };
        let directory = |above: &FileId, name: &[u8]| {
            let made = filesystem.make_directory(&call, above, name, &none);
            made.unwrap().entry.id
        };
        file(&root, b"a-file");
        let b = directory(&root, b"b");
        directory(&b, b"below");
        file(&b, b"c-file");
        file(&directory(&root, b"d"), b"e-file");
        tree
    }

    fn order(is_remote: bool) -> Vec<String> {
        let memory = Arc::new(RamFileSystem::new(1 << 20).unwrap());
        let (layer, made) = Layer::new(memory, Made::default());
        let source = place(&tree());
        let mut target = place(&Tree::new(layer));
        target.is_remote = is_remote;
        let mut copier = Copier::new(&target, Rules::default());
        let (from, into) = (source.tree.root().unwrap(), target.tree.root().unwrap());
        copier
            .directory_contents(&source, &from, (&into, b""))
            .unwrap();
        copier.finish().unwrap();
        std::mem::take(&mut *made.0.lock())
    }

    #[test]
    fn the_directories_in_a_directory_of_this_machine_are_made_before_its_files() {
        let made = order(false);
        let at = |name: &str| made.iter().position(|made| made == name).unwrap();
        assert_eq!(made.len(), 6, "{made:?}");
        assert_eq!(made[..2], ["b", "d"]);
        assert!(at("below") < at("c-file"));
    }

    #[test]
    fn a_server_is_asked_for_each_name_once() {
        let mut made = order(true);
        made.sort();
        assert_eq!(made, ["a-file", "b", "below", "c-file", "d", "e-file"]);
    }
}
