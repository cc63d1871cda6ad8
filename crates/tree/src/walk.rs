//! Everything below a directory, in the order of the names, on an explicit stack.
//!
//! A hostile image can make a walk endless: a directory that contains itself, or a few that each
//! contain the next twice. So no directory is entered below itself, or more than [`VISITS_MAX`]
//! times. Weakness: a directory that truly appears more often (bind mounts) is reported, not
//! walked.
//!
//! Files lie in another order than their names. For a visitor that reads them, the file system gets
//! the next small ones of a directory, a mebibyte at a time, and asks for them as they lie.

mod ahead;

use std::collections::HashMap;

use pagewell_fs::{Entry, Error, FileId, FileType};

use crate::{Listed, NAMES_MAX, Names, Tree};

use ahead::Ahead;

/// Times that a walk enters one directory.
const VISITS_MAX: u32 = 16;

/// Of one walk: their identifiers take memory, and a server can invent others without end.
const DIRECTORIES_MAX: usize = 16 << 20;

/// Deeper than any path that can be named.
const DEPTH_MAX: usize = 4096;

/// Directories above each other, and next names of each, where directories to list ahead are looked
/// for.
const FRAMES_LOOKED_AT: usize = 16;
const NAMES_LOOKED_AT: usize = 256;

/// Read ahead together: more than a request, less than any cache.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// An event of a walk, with a path from the start, without a leading slash.
#[derive(Debug)]
pub enum Step<'a> {
    /// A directory; its contents follow unless the answer is [`Next::Skip`].
    Enter(&'a [u8], &'a Entry),
    /// All names of the start (an empty path), or of an entered directory.
    Listing(&'a [u8], &'a Entry, &'a [Listed]),
    /// The end of an entered directory.
    Leave(&'a [u8]),
    /// An object other than a directory.
    Object(&'a [u8], &'a Entry),
    /// A name not examined, or a directory not listed.
    Failed(&'a [u8], Error),
}

/// The visitor's answer, used after [`Step::Enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Go,
    /// Do not enter this directory; no [`Step::Leave`] comes.
    Skip,
}

/// What a walk prepares for its visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preparation {
    /// Threads that list directories ahead, for a visitor that enters nearly all.
    pub listers: usize,
    /// Whether small files are brought into memory, for a visitor that reads nearly all.
    pub reads_files: bool,
}

struct Frame {
    entry: Entry,
    path_length: usize,
    /// Names that it holds of those that a walk may.
    names: usize,
    rest: std::vec::IntoIter<Listed>,
    /// How many of the rest are being read.
    read_ahead: usize,
}

impl Frame {
    /// Has the next files read, at the last of those before.
    fn read_ahead(&mut self, tree: &Tree) {
        if let Some(left) = self.read_ahead.checked_sub(1) {
            self.read_ahead = left;
            return;
        }
        let rest = self.rest.as_slice();
        let (mut files, mut bytes) = (Vec::new(), 0);
        let mut seen = 0_usize;
        for listed in rest.iter().take(NAMES_LOOKED_AT) {
            seen += 1;
            if let Ok(entry) = &listed.entry
                && entry.attributes.file_type == FileType::Regular
                && entry.attributes.size <= READ_AHEAD_BYTES
            {
                files.push(entry.id);
                bytes += entry.attributes.size;
            }
            if bytes >= READ_AHEAD_BYTES {
                break;
            }
        }
        self.read_ahead = seen.saturating_sub(1);
        // A single one is read as well by its reader.
        if files.len() > 1 {
            tree.filesystem.read_ahead(&files);
        }
    }
}

/// Walks everything below the directory `start`, without it. An error of the visitor ends the walk.
pub fn walk<E>(
    tree: &Tree,
    preparation: Preparation,
    start: &Entry,
    visit: &mut dyn FnMut(Step<'_>) -> Result<Next, E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        let walk = Walk {
            tree,
            ahead: (preparation.listers > 0).then(|| Ahead::new(scope, tree, preparation.listers)),
            reads_files: preparation.reads_files,
            visits: HashMap::new(),
            names_left: NAMES_MAX,
            stack: Vec::new(),
        };
        walk.run(start, visit)
    })
}

struct Walk<'a, 'scope, 'env> {
    tree: &'a Tree,
    ahead: Option<Ahead<'scope, 'env>>,
    reads_files: bool,
    visits: HashMap<FileId, u32>,
    /// How many more the directories above each other may have, together.
    names_left: usize,
    stack: Vec<Frame>,
}

impl Walk<'_, '_, '_> {
    fn run<E>(
        mut self,
        start: &Entry,
        visit: &mut dyn FnMut(Step<'_>) -> Result<Next, E>,
    ) -> Result<(), E> {
        let mut path = Vec::new();
        self.descend(*start, &path, visit)?;
        while let Some(frame) = self.stack.last_mut() {
            path.truncate(frame.path_length);
            if self.reads_files {
                frame.read_ahead(self.tree);
            }
            let Some(listed) = frame.rest.next() else {
                self.names_left += self.stack.pop().map_or(0, |frame| frame.names);
                if !self.stack.is_empty() {
                    visit(Step::Leave(&path))?;
                }
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&listed.name);
            let entry = match listed.entry {
                Ok(entry) => entry,
                Err(error) => {
                    visit(Step::Failed(&path, error))?;
                    continue;
                }
            };
            if !entry.attributes.file_type.is_directory() {
                visit(Step::Object(&path, &entry))?;
                continue;
            }
            if visit(Step::Enter(&path, &entry))? == Next::Skip {
                continue;
            }
            if !self.descend(entry, &path, visit)? {
                visit(Step::Leave(&path))?;
            }
        }
        Ok(())
    }

    /// Lists a directory, reports its names, and continues in it; false: not listed.
    fn descend<E>(
        &mut self,
        entry: Entry,
        path: &[u8],
        visit: &mut dyn FnMut(Step<'_>) -> Result<Next, E>,
    ) -> Result<bool, E> {
        let names = match self.enter(&entry) {
            Ok(names) => names,
            Err(error) => {
                visit(Step::Failed(path, error))?;
                return Ok(false);
            }
        };
        if names.unusable > 0 {
            let reason = format!("{} names that cannot be used are left out", names.unusable);
            visit(Step::Failed(path, Error::Io(reason)))?;
        }
        let held = names.listed.len().min(self.names_left);
        self.names_left -= held;
        self.stack.push(Frame {
            entry,
            path_length: path.len(),
            names: held,
            rest: names.listed.into_iter(),
            read_ahead: 0,
        });
        self.look_ahead();
        if let Some(frame) = self.stack.last() {
            visit(Step::Listing(path, &entry, frame.rest.as_slice()))?;
        }
        Ok(true)
    }

    /// Has the next directories listed.
    fn look_ahead(&mut self) {
        let Some(ahead) = &mut self.ahead else {
            return;
        };
        for frame in self.stack.iter().rev().take(FRAMES_LOOKED_AT) {
            let names = frame.rest.as_slice().iter().take(NAMES_LOOKED_AT);
            let entries = names.flat_map(|listed| &listed.entry);
            let directories = entries.filter(|entry| entry.attributes.file_type.is_directory());
            for directory in directories.take(ahead::FRAME_MAX) {
                if !ahead.want(&directory.id) {
                    return;
                }
            }
        }
    }

    fn enter(&mut self, directory: &Entry) -> Result<Names, Error> {
        let refuse = |reason: &str| Err(Error::Io(reason.to_owned()));
        let ahead = self.ahead.as_mut();
        let listed = ahead.and_then(|ahead| ahead.take(&directory.id));
        let mut above = self.stack.iter();
        if above.any(|frame| frame.entry.id == directory.id) {
            return refuse("the directory contains itself");
        }
        if self.stack.len() >= DEPTH_MAX {
            return refuse("directories are nested too deeply");
        }
        if self.visits.len() >= DIRECTORIES_MAX {
            return refuse("there are too many directories");
        }
        if self.names_left == 0 {
            return refuse("the directories above it have too many names");
        }
        let count = self.visits.entry(directory.id).or_insert(0);
        *count += 1;
        if *count > VISITS_MAX {
            return refuse("the same directory appears in too many places");
        }
        match listed {
            Some(names) => Ok(names),
            None => self.tree.list_up_to(&directory.id, false, self.names_left),
        }
    }
}

#[cfg(test)]
mod tests;
