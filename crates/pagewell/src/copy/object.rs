//! Originals, targets, and why an original was not copied.

use pagewell_fs::{Entry, Error, FileId, OpenFile};

use crate::location::Place;

pub(crate) struct Target {
    pub(crate) directory: FileId,
    pub(crate) name: Vec<u8>,
    pub(crate) label: Vec<u8>,
}

pub(super) struct Original<'a> {
    pub(super) place: &'a Place,
    /// Its path below the place; none for the place itself.
    pub(super) path: Option<&'a [u8]>,
    pub(super) entry: &'a Entry,
}

impl<'a> Original<'a> {
    pub(super) fn of_place(place: &'a Place, entry: &'a Entry) -> Self {
        Self {
            place,
            path: None,
            entry,
        }
    }

    /// The object at this path below the place.
    pub(super) fn below(place: &'a Place, path: &'a [u8], entry: &'a Entry) -> Self {
        Self {
            place,
            path: Some(path),
            entry,
        }
    }

    pub(super) fn label(&self) -> Vec<u8> {
        match self.path {
            Some(path) => self.place.label_of(path),
            None => self.place.label.clone(),
        }
    }
}

/// Why an object was not copied, by the side that is at fault.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The original, or what this copy does not do with it.
    Source(anyhow::Error),
    /// The copy.
    Target(Error),
    /// The copy would write to a file with several names, which waits for the order of the walk.
    Aliased,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Target(error)
    }
}

impl Trouble {
    /// Whether every other copy would fail the same way.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Target(error) if is_final(error))
    }
}

/// Whether a target that failed so fails all that follows.
pub(super) fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace
            | Error::FullBelow(_)
            | Error::QuotaExceeded
            | Error::QuotaBelow(_)
            | Error::ReadOnly
    )
}

pub(super) fn refuse<T>(what: &str) -> Result<T, Trouble> {
    Err(Trouble::Source(anyhow::anyhow!("{what}")))
}

#[derive(Clone)]
pub(super) enum Object {
    Known(FileId),
    /// A new file of this machine whose descriptor is enough.
    Open(OpenFile),
}
