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
//! of the walk ([`Trouble::Aliased`]).
//!
//! A failure that ends the copy lets the threads finish what they have begun, and begin nothing.

use std::sync::Arc;

use pagewell_fs::Entry;
use pagewell_tree::READ_BYTES;
use pagewell_tree::pipeline::{self, Pipeline, Width, Work};
use pagewell_tree::walk::{Next, Step, walk};

use super::Copier;
use super::directory::Filling;
use super::hand::{Copied, Hand, Leaf, Notice};
use super::object::{Original, Trouble};
use super::terms::{INTO_ITSELF, Terms};
use crate::escape;
use crate::location::{Home, Place};

/// Larger files are copied by the thread of the walk: what is read at once.
const SMALL_BYTES: u64 = READ_BYTES as u64;

/// The copy ends here.
#[derive(Debug)]
struct Ended;

/// What is settled in the order of the walk.
enum Item {
    /// To be copied.
    Leaf(Leaf),
    /// Copied, or not.
    Copied(Copied),
    /// The end of a directory.
    Leave(Option<Vec<u8>>, Filling),
    /// Messages.
    Tell(Vec<Notice>),
    /// A failure of the walk.
    Failed(String),
}

/// Copies below one place.
struct Copying<'a> {
    place: &'a Place,
    terms: Arc<Terms>,
}

impl Work for Copying<'_> {
    type Item = Item;
    type Tools = Hand;

    fn tools(&self) -> Hand {
        Hand::further(self.terms.clone())
    }

    fn work(&self, hand: &mut Hand, item: &mut Item) {
        if !matches!(item, Item::Leaf(_)) || self.terms.has_ended() {
            return;
        }
        if let Item::Leaf(leaf) = std::mem::replace(item, Item::Tell(Vec::new())) {
            *item = Item::Copied(hand.copy(self.place, leaf));
        }
    }
}

type Line<'scope, 'env, 'a> = Pipeline<'scope, 'env, Copying<'a>>;

impl Copier {
    /// Walks a source directory and rebuilds it below `top`.
    pub(super) fn fill(&mut self, place: &Place, start: &Entry, top: Filling) {
        self.hand.progress.expect(None);
        let copying = Copying {
            place,
            terms: self.terms.clone(),
        };
        let is_remote = |home: &Home| matches!(home, Home::Server(_));
        let width = if is_remote(&place.home) || is_remote(&self.terms.target.home) {
            Width::REMOTE
        } else {
            Width::local()
        };
        pipeline::run(&copying, width, |line| {
            self.fill_by(line, place, start, top);
            while let Some(item) = line.finish() {
                self.settle_item(place, item);
            }
        });
    }

    fn fill_by(&mut self, line: &mut Line<'_, '_, '_>, place: &Place, start: &Entry, top: Filling) {
        let (filesystem, call) = self.terms.at_target();
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
                        Some(made) => filling.push(made),
                        None => next = Next::Skip,
                    }
                }
                Step::Object(path, entry) => {
                    if let Some(to) = filling.last().and_then(|into| into.target_of(path)) {
                        let leaf = Leaf {
                            path: path.to_vec(),
                            entry: *entry,
                            to,
                        };
                        line.give(self.leaf_or_copied(place, leaf));
                    }
                }
                Step::Leave(path) => {
                    if let Some(made) = filling.pop() {
                        line.give(Item::Leave(Some(path.to_vec()), made));
                    }
                }
                Step::Failed(path, error) => {
                    let shown = escape::text(&place.label_of(path));
                    line.give(Item::Failed(format!("{shown}: {error}")));
                }
                Step::Listing(..) => {}
            }
            while let Some(item) = line.take() {
                self.settle_item(place, item);
            }
            if self.terms.has_ended() {
                return Err(Ended);
            }
            Ok(next)
        });
        while let Some(made) = filling.pop() {
            line.give(Item::Leave(None, made));
        }
    }

    /// What the threads copy, and what this one has copied.
    fn leaf_or_copied(&mut self, place: &Place, leaf: Leaf) -> Item {
        if leaf.entry.attributes.size <= SMALL_BYTES {
            return Item::Leaf(leaf);
        }
        self.hand.progress.begin(&escape::text(&leaf.to.label));
        Item::Copied(self.hand.copy(place, leaf))
    }

    /// Makes a directory of the target; nothing when its original is not to be entered.
    fn enter(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        (place, path, entry): (&Place, &[u8], &Entry),
        (filling, top): (&[Filling], Option<&Entry>),
    ) -> Option<Filling> {
        let to = filling.last()?.target_of(path)?;
        let original = Original {
            place,
            path: Some(path),
            entry,
        };
        let is_top = top.is_some_and(|top| self.terms.is_same(place, entry, top));
        let made = if is_top {
            Err(Trouble::refused(INTO_ITSELF))
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
                    self.terms.end();
                }
                line.give(Item::Copied(Copied {
                    leaf: Leaf {
                        path: path.to_vec(),
                        entry: *entry,
                        to,
                    },
                    copied: Err(trouble),
                    notices,
                    bytes: 0,
                }));
                None
            }
        }
    }

    fn settle_item(&mut self, place: &Place, item: Item) {
        match item {
            Item::Copied(copied) => self.settle_copied(place, copied),
            // Not begun before the copy ended.
            Item::Leaf(_) => {}
            Item::Leave(path, filling) => {
                let path = path.as_deref();
                let closed = self.hand.close_directory((place, path), &filling);
                self.tell_own();
                let Some((entry, _)) = &filling.original else {
                    self.copied += 1;
                    return;
                };
                let original = Original { place, path, entry };
                self.settle(closed, &original, &filling.label);
            }
            Item::Tell(notices) => self.tell(notices),
            Item::Failed(text) => self.fail(&text),
        }
    }

    fn settle_copied(&mut self, place: &Place, copied: Copied) {
        let Copied {
            leaf,
            copied,
            notices,
            bytes,
        } = copied;
        self.hand.progress.add_of(bytes, &leaf.to.label);
        self.tell(notices);
        let original = leaf.original(place);
        let copied = match copied {
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
