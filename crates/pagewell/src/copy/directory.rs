//! Makes a directory, and gives it its attributes when it is filled.

use pagewell_fs::{Entry, Error, FileId, name};

use super::attributes::{Made, with_mode};
use super::hand::Hand;
use super::object::{Object, Original, Target, Trouble};
use super::rules;
use super::terms::Terms;
use crate::location::Place;

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
        let made = Made::Before { mode: None };
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
        match filesystem.make_directory(&call, &to.directory, &to.name, &attributes) {
            Ok(created) => {
                let inherited = created.entry.attributes.mode & 0o2000;
                terms.unsynced.note(&Object::Known(to.directory));
                self.tell(original, to);
                Ok(Filling {
                    id: created.entry.id,
                    label: to.label.clone(),
                    original: Some((*original.entry, Made::Directory { inherited })),
                })
            }
            Err(error @ (Error::Exists | Error::ReadOnly | Error::AccessDenied)) => {
                let existing = terms.lookup(to)?.ok_or(error)?;
                if !existing.attributes.file_type.is_directory() {
                    let what = "exists in the target and is not a directory";
                    return Err(Trouble::refused(what));
                }
                if terms.is_same(original.place, original.entry, &existing) {
                    let what = "will not copy a directory onto itself";
                    return Err(Trouble::refused(what));
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
