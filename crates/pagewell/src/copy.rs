//! Copies objects from one tree into another.
//!
//! The copy stays inside the target: objects are made by name under the identifier of a directory
//! found or made so, names are checked, and symbolic links in the target are never followed. Data
//! is written unstable and brought to the device once, at the end; if the target lost data in
//! between, its write verifier has changed.
//!
//! One failure does not end the work, unless all that follows would fail too: a full or read-only
//! target ends it with one message.

mod attributes;
mod data;
mod durable;
mod fill;
mod followed;
mod hand;
mod leaf;
mod links;
mod losses;
mod object;
pub(crate) mod rules;
mod terms;
mod turns;

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use pagewell_fs::{Entry, Finish};

use crate::escape;
use crate::failure::{Outcome, OutputFailed};
use crate::location::Place;

pub(crate) use leaf::check_write;
pub(crate) use object::Target;

use fill::Filling;
use followed::Followed;
use hand::{Hand, Notice};
use losses::Losses;
use object::{Original, Trouble, refuse};
use rules::Rules;
use terms::{INTO_ITSELF, Terms};

pub(crate) struct Copier {
    /// The hand of the thread of the walk.
    hand: Hand,
    verifier: [u8; 8],
    /// Subjects of the notices so far.
    said: HashSet<&'static str>,
    losses: Losses,
    followed: Followed,
    output: Option<std::io::Error>,
    /// Objects which are not directories.
    copied: u64,
    told_end: bool,
}

impl Copier {
    pub(crate) fn new(target: &Place, rules: Rules) -> Self {
        Self {
            verifier: target.tree.filesystem.write_verifier(None),
            hand: Hand::first(Arc::new(Terms::new(target, rules))),
            said: HashSet::new(),
            losses: Losses::default(),
            followed: Followed::default(),
            output: None,
            copied: 0,
            told_end: false,
        }
    }

    /// Whether all that follows would fail as the last copy did.
    pub(crate) fn has_ended(&self) -> bool {
        self.hand.terms.has_ended()
    }

    pub(crate) fn fail(&mut self, text: &str) {
        self.hand.progress.fail(text);
    }

    /// Prints or counts the notices of a copy.
    fn tell(&mut self, notices: Vec<Notice>) {
        for notice in notices {
            match notice {
                Notice::Line(line) => self.print(&line),
                Notice::Message(text) => self.hand.progress.report(&text),
                Notice::Failure(text) => self.fail(&text),
                Notice::Lost(part, is_directory, reason) => {
                    self.losses.count(part, is_directory, reason);
                }
                Notice::First(about, text) if self.said.insert(about) => {
                    self.hand.progress.report(&text);
                }
                Notice::First(..) => {}
            }
        }
    }

    fn tell_own(&mut self) {
        let notices = std::mem::take(&mut self.hand.notices);
        self.tell(notices);
    }

    fn print(&mut self, line: &str) {
        if self.output.is_none()
            && let Err(error) = writeln!(std::io::stdout(), "{line}")
        {
            self.output = Some(error);
            self.hand.terms.end();
        }
    }

    /// Counts a copy, or reports and counts a failure by the name of the side at fault; `to` is the
    /// label of the target. Of failures that end the copy only the first is reported.
    fn settle(&mut self, copied: Result<(), Trouble>, original: &Original<'_>, to: &[u8]) {
        let trouble = match copied {
            Ok(()) => {
                let is_directory = original.entry.attributes.file_type.is_directory();
                self.copied += u64::from(!is_directory);
                return;
            }
            Err(trouble) => trouble,
        };
        let mut rest = "";
        if trouble.is_final() {
            if std::mem::replace(&mut self.told_end, true) {
                return;
            }
            self.hand.terms.end();
            rest = ": the copy ends here";
        }
        let (label, error) = match trouble {
            Trouble::Source(error) => (original.label(), format!("{error:#}")),
            Trouble::Target(error) => (to.to_vec(), error.to_string()),
            Trouble::Aliased => (to.to_vec(), "has several names".to_owned()),
        };
        self.fail(&format!("{}: {error}{rest}", escape::text(&label)));
    }

    /// Brings everything to the device and reports the outcome.
    pub(crate) fn finish(self) -> anyhow::Result<Outcome> {
        let (copied, losses) = (self.copied, self.losses);
        let (terms, mut progress) = (self.hand.terms, self.hand.progress);
        progress.begin("to the device");
        let tree = &terms.target.tree;
        match terms.local() {
            Some(_) if !terms.rules.syncs => {}
            Some(_) => terms.unsynced.sync(tree)?,
            None => drop(tree.filesystem.finish(Finish::Sync)?),
        }
        if tree.filesystem.write_verifier(None) != self.verifier {
            anyhow::bail!("data was lost before it reached the device: copy again");
        }
        let lost = losses.sentences();
        for sentence in &lost {
            progress.report(&format!("{}: {sentence}", terms.target.shown()));
        }
        let failures = progress.failures;
        if failures > 0 && failures + copied > 1 {
            progress.report(&format!("{copied} copied, {failures} failed"));
        }
        match self.output {
            Some(error) => Err(OutputFailed(error).into()),
            None if !lost.is_empty() => Ok(Outcome::Incomplete),
            None => Ok(progress.outcome()),
        }
    }

    /// Copies one object, and all that is below a directory.
    pub(crate) fn object(&mut self, place: &Place, entry: &Entry, to: &Target) {
        let original = Original::of_place(place, entry);
        if !self.hand.terms.links.begin(&original, &to.name) {
            let shown = place.shown();
            let text = format!("{shown}: is given more than once: copied once");
            self.hand.progress.report(&text);
            return;
        }
        self.object_at(place, entry, to);
    }

    /// The same for an object that may have been given before.
    fn object_at(&mut self, place: &Place, entry: &Entry, to: &Target) {
        let original = Original::of_place(place, entry);
        if !entry.attributes.file_type.is_directory() {
            self.hand.progress.begin(&place.shown());
            // A stream and a file of /proc have no length before they are read.
            let length = Some(entry.attributes.size).filter(|length| *length > 0);
            self.hand.progress.expect(length);
            let copied = self.hand.leaf(&original, to);
            self.tell_own();
            self.settle(copied, &original, &to.label);
            return;
        }
        let filling = if self.hand.terms.target.is_image {
            refuse(leaf::ONE_FILE)
        } else if self.hand.terms.is_within(place, entry, &to.directory) {
            refuse(INTO_ITSELF)
        } else {
            Filling::make(&mut self.hand, &original, to)
        };
        self.tell_own();
        match filling {
            Ok(filling) => self.fill(place, entry, filling),
            Err(trouble) => self.settle(Err(trouble), &original, &to.label),
        }
    }

    /// Copies what is in a directory into an existing one.
    pub(crate) fn directory_contents(
        &mut self,
        place: &Place,
        entry: &Entry,
        into: (&Entry, &[u8]),
    ) -> anyhow::Result<()> {
        if !entry.attributes.file_type.is_directory() {
            anyhow::bail!("{}: has no name of its own: name the copy", place.shown());
        }
        let (into, label) = into;
        let terms = &self.hand.terms;
        if terms.is_same(place, entry, into) || terms.is_within(place, entry, &into.id) {
            anyhow::bail!("{}: {}", place.shown(), INTO_ITSELF);
        }
        let original = Original::of_place(place, entry);
        terms.links.begin(&original, b"");
        let filling = Filling::existing(terms, into.id, label, entry);
        self.fill(place, entry, filling);
        Ok(())
    }
}
