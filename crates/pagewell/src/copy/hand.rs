//! One thread of a copy: its own state and its messages.
//!
//! Any thread makes a copy; one prints the messages in the order of the walk.

use std::borrow::Cow;
use std::sync::Arc;

use pagewell_fs::{Entry, Error};

use super::losses::Part;
use super::object::{Object, Original, Target, Trouble};
use super::terms::Terms;
use crate::escape;
use crate::location::Place;
use crate::progress::Progress;

/// A message on a copy, besides its failure.
#[derive(Debug)]
pub(super) enum Notice {
    Line(String),
    Message(String),
    /// A failure of the walk.
    Failure(String),
    /// A part of the attributes of a copy (a directory or not) that the target does not take.
    Lost(Part, bool, Error),
    /// A message; only the first on its subject is printed.
    First(&'static str, Cow<'static, str>),
}

pub(super) struct Hand {
    pub(super) terms: Arc<Terms>,
    pub(super) progress: Progress,
    pub(super) buffer: Vec<u8>,
    /// What was made for the present copy, or why not.
    pub(super) made: Option<Result<Object, Error>>,
    /// Messages on the present copy.
    pub(super) notices: Vec<Notice>,
    /// Whether this is the thread of the walk.
    is_first: bool,
    /// Whether all before the present copy in the walk is done, so that it may write to a file with
    /// several names.
    pub(super) is_in_turn: bool,
}

/// An object below the place that is copied, and its target.
pub(super) struct Leaf {
    pub(super) path: Vec<u8>,
    pub(super) entry: Entry,
    pub(super) to: Target,
    /// Its new, empty file, or why there is none, if that was tried before the copy.
    pub(super) made: Option<Result<Object, Error>>,
    /// How the copy went, once it was tried.
    pub(super) tried: Option<Tried>,
}

pub(super) struct Tried {
    pub(super) copied: Result<(), Trouble>,
    pub(super) notices: Vec<Notice>,
    pub(super) bytes: u64,
}

impl Leaf {
    pub(super) fn original<'a>(&'a self, place: &'a Place) -> Original<'a> {
        Original::below(place, &self.path, &self.entry)
    }
}

impl Hand {
    pub(super) fn first(terms: Arc<Terms>) -> Self {
        Self {
            is_first: true,
            progress: Progress::new(true),
            ..Self::further(terms)
        }
    }

    pub(super) fn further(terms: Arc<Terms>) -> Self {
        Self {
            terms,
            progress: Progress::new(false),
            buffer: Vec::new(),
            made: None,
            notices: Vec::new(),
            is_first: false,
            is_in_turn: true,
        }
    }

    /// Notes what is copied where, with -v.
    pub(super) fn tell(&mut self, original: &Original<'_>, to: &Target) {
        if self.terms.rules.verbose {
            let (from, to) = (escape::text(&original.label()), escape::text(&to.label));
            let line = format!("'{from}' -> '{to}'");
            self.notices.push(Notice::Line(line));
        }
    }

    /// Notes that an obstacle was removed.
    pub(super) fn tell_removed(&mut self, to: &Target) {
        if self.terms.rules.verbose {
            let line = format!("removed '{}'", escape::text(&to.label));
            self.notices.push(Notice::Line(line));
        }
    }

    /// Copies objects; after the end of the copy only those with a new file.
    pub(super) fn copy_all(&mut self, place: &Place, leaves: &mut [&mut Leaf]) {
        for leaf in leaves {
            if leaf.made.is_some() || !self.terms.has_ended() {
                self.copy(place, leaf);
            }
        }
    }

    /// Copies an object below a place, out of turn. A failure that ends the copy ends it for all
    /// threads.
    pub(super) fn copy(&mut self, place: &Place, leaf: &mut Leaf) {
        let bytes = self.progress.bytes();
        self.is_in_turn = false;
        self.made = leaf.made.take();
        let copied = self.leaf(&leaf.original(place), &leaf.to);
        self.is_in_turn = true;
        if copied.as_ref().is_err_and(Trouble::is_final) {
            self.terms.end();
        }
        leaf.tried = Some(Tried {
            copied,
            notices: std::mem::take(&mut self.notices),
            bytes: if self.is_first {
                0
            } else {
                self.progress.bytes() - bytes
            },
        });
    }
}
