//! Copies a file into a disk image: over the bytes that are there, from the first one on.
//!
//! An image has a length, permissions and a name of its own, so a copy is bytes alone. All of them
//! are written, holes as zeros: what was there before must not show through.

use pagewell_fs::{Entry, Error, FileType};

use super::data::{self, Moved, Sink};
use super::hand::{Hand, Notice};
use super::object::{Original, Target, Trouble};
use crate::escape;

/// What is answered to copies of anything else.
pub(super) const ONE_FILE: &str = "a disk image is one file, and nothing can be added to it";

impl Hand {
    /// Copies a file over the beginning of the image's file, which must hold all of it.
    pub(super) fn overwrite(
        &mut self,
        original: &Original<'_>,
        to: &Target,
        existing: Option<Entry>,
    ) -> Result<(), Trouble> {
        let source = original.entry;
        let Some(existing) = existing else {
            return Err(Trouble::refused(ONE_FILE));
        };
        if source.attributes.file_type != FileType::Regular {
            let what = "only a regular file can be copied into a disk image";
            return Err(Trouble::refused(what));
        }
        let (length, space) = (source.attributes.size, existing.attributes.size);
        let target = escape::text(&to.label);
        if length > space {
            let what = format!("its {length} bytes do not fit into {target}, which has {space}");
            return Err(Trouble::refused(&what));
        }
        self.tell(original, to);
        let sink = Sink::Tree(&self.terms.tree, existing.id);
        let mut moved = Moved::default();
        let work = (&mut self.buffer, &mut self.progress);
        match data::copy(
            &original.place.tree,
            (source, false),
            &sink,
            work,
            &mut moved,
        ) {
            // It has grown since it was looked at.
            Err(Trouble::Target(Error::NoSpace)) => {
                return Err(Trouble::refused(&format!("more bytes than {target} has")));
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
}
