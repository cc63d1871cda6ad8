//! Copies what is below a directory: one thread walks and makes directories, several copy what is
//! in them ([`pagewell_tree::pipeline`]).
//!
//! The thread of the walk settles what the others have done, in the order of the walk: so messages
//! come in that order, and a directory gets its attributes when all that is in it was copied. It
//! copies large files by itself, which shows their progress and bounds the memory of the others.
//!
//! Every copy makes or changes the one name that it is for, so that two of them meet only in an
//! object with several names: names of one original wait for each other ([`super::links`]), and
//! what would be written to a file of the target with several names waits for its turn in the order
//! of the walk ([`Trouble::Aliased`]). Where names that differ only in their case are one, one
//! thread does all.
//!
//! A failure that ends the copy lets the threads finish what they have begun, and begin nothing.

use pagewell_fs::{Entry, Error, FileId, name};
use pagewell_tree::READ_BYTES;
use pagewell_tree::pipeline::{self, Pipeline, Width, Worker};
use pagewell_tree::walk::{Next, Step, walk};

use super::Copier;
use super::attributes::{Made, with_mode};
use super::hand::{Hand, Leaf, Notice, Tried};
use super::object::{Object, Original, Target, Trouble, refuse};
use super::rules;
use super::terms::{INTO_ITSELF, Terms, identity};
use super::turns::FILES_OF_A_TURN;
use crate::escape;
use crate::location::Place;

/// Larger files are copied by the thread of the walk: what is read at once.
const SMALL_BYTES: u64 = READ_BYTES as u64;

/// A directory of the target that is being filled.
pub(super) struct Filling {
    pub(super) id: FileId,
    pub(super) label: Vec<u8>,
    /// The directory that it is a copy of, when it gets attributes of that.
    pub(super) original: Option<(Entry, Made)>,
}

impl Filling {
    /// A directory that is there. It gets the attributes of the original when any are kept.
    pub(super) fn existing(terms: &Terms, id: FileId, label: &[u8], original: &Entry) -> Self {
        let keeps = terms.rules.keep != rules::Keep::default();
        let made = Made::Before;
        Self {
            id,
            label: label.to_vec(),
            original: keeps.then_some((*original, made)),
        }
    }

    /// Where an object in it goes, whose path ends with its name.
    pub(super) fn target_of(&self, path: &[u8]) -> Option<Target> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        Some(Target {
            directory: self.id,
            name: name.to_vec(),
            label: [self.label.as_slice(), b"/", name].concat(),
        })
    }
}

impl Hand {
    /// Makes a directory, or takes the one that is there.
    pub(super) fn make_directory(
        &mut self,
        original: &Original<'_>,
        to: &Target,
    ) -> Result<Filling, Trouble> {
        name::check_new(&to.name).map_err(|error| Trouble::Source(error.into()))?;
        let terms = self.terms.clone();
        // Writable until it is filled: the mode that it is to have is set at the end.
        let attributes = with_mode(terms.mode_at_first(&original.entry.attributes) | 0o700);
        let (filesystem, call) = terms.at_target();
        let made = terms.turns.at(&to.directory, || {
            filesystem.make_directory(&call, &to.directory, &to.name, &attributes)
        });
        match made {
            Ok(created) => {
                let mode = created.entry.attributes.mode & 0o7777;
                terms.unsynced.note(&Object::Known(to.directory));
                self.tell(original, to);
                Ok(Filling {
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
                Ok(Filling::existing(
                    &terms,
                    existing.id,
                    &to.label,
                    original.entry,
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a directory the attributes that are kept, after its contents were made.
    pub(super) fn close_directory(
        &mut self,
        (place, path): (&Place, Option<&[u8]>),
        filling: &Filling,
    ) -> Result<(), Trouble> {
        let Some((entry, made)) = &filling.original else {
            return Ok(());
        };
        let original = Original { place, path, entry };
        let object = Object::Known(filling.id);
        let dressed = self.dress(&original, &object, *made);
        self.terms.unsynced.note(&object);
        dressed
    }
}

/// The copy ends here.
#[derive(Debug)]
struct Ended;

/// What is settled in the order of the walk.
enum Item {
    /// To be copied, or tried.
    Leaf(Leaf),
    /// The end of a directory.
    Leave(Option<Vec<u8>>, Filling),
    /// Messages.
    Tell(Vec<Notice>),
}

impl Item {
    /// What is to be copied.
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
                let in_one =
                    |one: &&mut Leaf, next: &&mut Leaf| one.to.directory == next.to.directory;
                let directories = leaves.chunk_by_mut(in_one);
                for leaves in directories.flat_map(|all| all.chunks_mut(FILES_OF_A_TURN)) {
                    hand.make_files(place, leaves);
                    hand.copy_all(place, leaves);
                }
            })
        };
        let width = match self.hand.terms.target.width() {
            // No two threads may come to one file by two names.
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

    /// Settles everything that was given.
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
        let mut filling = vec![top];
        // An end is reported where it came about.
        let (tree, listers) = (&place.tree, place.listers());
        let _ = walk(tree, listers, start, &mut |step| -> Result<Next, Ended> {
            let mut next = Next::Go;
            match step {
                Step::Enter(path, entry) => {
                    match self.enter(line, (place, path, entry), (&filling, top_entry.as_ref())) {
                        Some(made) => {
                            filling.push(made);
                            self.followed.above.push(identity(entry));
                        }
                        None => next = Next::Skip,
                    }
                }
                Step::Object(path, entry) => {
                    if let Some(to) = filling.last().and_then(|into| into.target_of(path)) {
                        self.give_leaf(line, (place, path, entry), to);
                    }
                }
                Step::Leave(path) => {
                    self.followed.above.pop();
                    if let Some(made) = filling.pop() {
                        line.give(Item::Leave(Some(path.to_vec()), made));
                    }
                }
                Step::Failed(path, error) => {
                    let shown = escape::text(&place.label_of(path));
                    let failure = Notice::Failure(format!("{shown}: {error}"));
                    line.give(Item::Tell(vec![failure]));
                }
                Step::Listing(..) => {}
            }
            while let Some(item) = line.take() {
                self.settle_item(place, item);
            }
            if self.hand.terms.has_ended() {
                return Err(Ended);
            }
            Ok(next)
        });
        while let Some(made) = filling.pop() {
            line.give(Item::Leave(None, made));
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

    /// Makes a directory of the target; nothing when its original is not to be entered.
    fn enter(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        (place, path, entry): (&Place, &[u8], &Entry),
        (filling, top): (&[Filling], Option<&Entry>),
    ) -> Option<Filling> {
        let to = filling.last()?.target_of(path)?;
        let original = Original::below(place, path, entry);
        let is_top = top.is_some_and(|top| self.hand.terms.is_same(place, entry, top));
        let made = if is_top {
            refuse(INTO_ITSELF)
        } else if self.followed.leads_back_to(entry) {
            refuse("contains itself, by way of a symbolic link")
        } else {
            self.hand.make_directory(&original, &to)
        };
        let notices = std::mem::take(&mut self.hand.notices);
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
                let closed = self.hand.close_directory((place, path), &filling);
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
            // Not begun before the copy ended.
            return;
        };
        self.hand.progress.add_of(tried.bytes, &leaf.to.label);
        self.tell(tried.notices);
        let original = leaf.original(place);
        let copied = match tried.copied {
            // All before it in the order of the walk is done, and no other thread writes to such a
            // file.
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
