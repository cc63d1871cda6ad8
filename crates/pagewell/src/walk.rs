//! Everything below a directory, in the order of the names, on an explicit stack.
//!
//! An image can be built to be walked for ever: a directory that contains itself, or a few
//! directories that each contain the next one twice. So a directory is not entered again below
//! itself, and no directory is entered more than [`VISITS_MAX`] times in one walk: the work is
//! linear in what the image really holds. Weakness: a tree in which the same directory truly
//! appears more often (bind mounts) is reported, not walked.

use std::collections::HashMap;

use pagewell_fs::{Entry, Error, FileId};

use crate::tree::{Listed, Names, Tree};

/// Times one directory may be entered in one walk.
const VISITS_MAX: u32 = 16;

/// Directories of one walk: their identifiers fill memory, and a server can make up others without
/// end.
const DIRECTORIES_MAX: usize = 16 << 20;

/// Directories inside each other: beyond any path that can be named, below what fills memory.
const DEPTH_MAX: usize = 4096;

/// What the walk has come to. Paths are relative to the start, without a leading slash.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A directory: its contents follow unless the visitor answers [`Next::Skip`].
    Enter(&'a [u8], &'a Entry),
    /// All names of the start (an empty path) or of a directory that was entered.
    Listing(&'a [u8], &'a Entry, &'a [Listed]),
    /// The end of a directory that was entered.
    Leave(&'a [u8]),
    /// Anything that is not a directory.
    Object(&'a [u8], &'a Entry),
    /// A name that could not be examined, or a directory that could not be listed.
    Failed(&'a [u8], Error),
}

/// What the visitor wants next; only looked at after [`Step::Enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Go on.
    Go,
    /// Do not enter this directory; there will be no [`Step::Leave`].
    Skip,
}

struct Frame {
    entry: Entry,
    path_length: usize,
    rest: std::vec::IntoIter<Listed>,
}

impl Frame {
    fn new(entry: Entry, path_length: usize, names: Vec<Listed>) -> Self {
        Self {
            entry,
            path_length,
            rest: names.into_iter(),
        }
    }
}

/// Walks everything below the directory `start`, which itself is not given to `visit`. An error
/// of the visitor ends the walk.
pub(crate) fn walk<E>(
    tree: &Tree,
    start: &Entry,
    visit: &mut dyn FnMut(Step<'_>) -> Result<Next, E>,
) -> Result<(), E> {
    let mut visits: HashMap<FileId, u32> = HashMap::new();
    let mut path = Vec::new();
    let mut stack: Vec<Frame> = Vec::new();
    match enter(tree, start, &stack, &mut visits) {
        Ok(names) => {
            let listed = told(names, &path, visit)?;
            visit(Step::Listing(&path, start, &listed))?;
            stack.push(Frame::new(*start, 0, listed));
        }
        Err(error) => {
            visit(Step::Failed(&path, error))?;
        }
    }
    while let Some(frame) = stack.last_mut() {
        path.truncate(frame.path_length);
        let Some(listed) = frame.rest.next() else {
            stack.pop();
            if !stack.is_empty() {
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
        match enter(tree, &entry, &stack, &mut visits) {
            Ok(names) => {
                let listed = told(names, &path, visit)?;
                visit(Step::Listing(&path, &entry, &listed))?;
                stack.push(Frame::new(entry, path.len(), listed));
            }
            Err(error) => {
                visit(Step::Failed(&path, error))?;
                visit(Step::Leave(&path))?;
            }
        }
    }
    Ok(())
}

/// The names of a directory, after it was told that some cannot be used.
fn told<E>(
    names: Names,
    path: &[u8],
    visit: &mut dyn FnMut(Step<'_>) -> Result<Next, E>,
) -> Result<Vec<Listed>, E> {
    if names.unusable > 0 {
        let reason = format!("{} names that cannot be used are left out", names.unusable);
        visit(Step::Failed(path, Error::Io(reason)))?;
    }
    Ok(names.listed)
}

fn enter(
    tree: &Tree,
    directory: &Entry,
    stack: &[Frame],
    visits: &mut HashMap<FileId, u32>,
) -> Result<Names, Error> {
    let refuse = |reason: &str| Err(Error::Io(reason.to_owned()));
    if stack.iter().any(|frame| frame.entry.id == directory.id) {
        return refuse("the directory contains itself");
    }
    if stack.len() >= DEPTH_MAX {
        return refuse("directories are nested too deeply");
    }
    if visits.len() >= DIRECTORIES_MAX {
        return refuse("there are too many directories");
    }
    let count = visits.entry(directory.id).or_insert(0);
    *count += 1;
    if *count > VISITS_MAX {
        return refuse("the same directory appears in too many places");
    }
    tree.list(&directory.id, false)
}

#[cfg(test)]
mod tests;
