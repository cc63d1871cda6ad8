//! Copies a file into a disk image: over the bytes that are there, from the first one on.
//!
//! An image has a length, permissions and a name of its own, so a copy is bytes alone. All of them
//! are written, holes as zeros: what was there before must not show through.

use anyhow::bail;
use pagewell_fs::{Entry, Error, FileType};

use super::{Copier, Target, write_all};
use crate::escape;
use crate::tree::Tree;

/// What is answered to copies of anything else.
pub(super) const ONE_FILE: &str = "a disk image is one file, and nothing can be added to it";

impl Copier {
    /// Copies `source` over the beginning of the image's file, which must hold all of it.
    pub(super) fn overwrite(
        &mut self,
        from: &Tree,
        source: &Entry,
        to: &Target,
        existing: Option<Entry>,
    ) -> anyhow::Result<()> {
        let Some(existing) = existing else {
            bail!(ONE_FILE);
        };
        if source.attributes.file_type != FileType::Regular {
            bail!("only a regular file can be copied into a disk image");
        }
        let (length, room) = (source.attributes.size, existing.attributes.size);
        let target = escape::text(&to.label);
        if length > room {
            bail!("its {length} bytes do not fit into {target}, which has {room}");
        }
        let Self {
            tree,
            progress,
            buffer,
            ..
        } = self;
        let copied = from.stream(&source.id, buffer, &mut |offset, bytes| {
            progress.add(bytes.len() as u64);
            write_all(tree, &existing.id, offset, bytes)
        });
        let copied = match copied {
            // It has grown since it was looked at.
            Err(Error::NoSpace) => bail!("more bytes than {target} has"),
            copied => copied?,
        };
        if copied < room {
            let rest = room - copied;
            self.progress.report(&format!(
                "{target}: {copied} bytes are copied, the {rest} bytes behind them are as they were"
            ));
        }
        Ok(())
    }
}
