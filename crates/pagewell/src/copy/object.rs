//! What is copied, where it goes, and why it was not.

use pagewell_fs::{Entry, Error, FileId, OpenFile};

use crate::location::Place;

/// Where one object goes.
pub(crate) struct Target {
    /// The directory.
    pub(crate) directory: FileId,
    /// The name there.
    pub(crate) name: Vec<u8>,
    /// For messages.
    pub(crate) label: Vec<u8>,
}

/// An object that is copied.
pub(super) struct Original<'a> {
    pub(super) place: &'a Place,
    /// Its path below the place; nothing for the place itself.
    pub(super) path: Option<&'a [u8]>,
    pub(super) entry: &'a Entry,
}

impl<'a> Original<'a> {
    /// The place itself.
    pub(super) fn of_place(place: &'a Place, entry: &'a Entry) -> Self {
        Self {
            place,
            path: None,
            entry,
        }
    }

    /// What is there below it.
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

/// Why something was not copied, and which side it is on.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The original, or what is not done with it.
    Source(anyhow::Error),
    /// The copy.
    Target(Error),
    /// The copy would be written to a file with several names, which is done in the order of the
    /// walk.
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

/// Whether a target that has failed so fails whatever is asked of it next.
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

/// What is not done with an original.
pub(super) fn refuse<T>(what: &str) -> Result<T, Trouble> {
    Err(Trouble::Source(anyhow::anyhow!("{what}")))
}

/// An object of the target.
#[derive(Clone)]
pub(super) enum Object {
    /// By its identifier.
    Known(FileId),
    /// A new file of this machine, which has a descriptor and needs no more.
    Open(OpenFile),
}
