//! Attributes of the originals that the target does not take.
//!
//! A server that squashes root gives no file away, and a file system without owners, permissions or
//! times keeps none. Such losses cost no other attributes, are counted, and reported once at the
//! end.

use pagewell_fs::{Error, SetAttributes};

use super::object::is_final;

/// Attributes that succeed or fail together, in the order of setting: giving a file away clears
/// bits of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ownership,
    Mode,
    Times,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Ownership, Self::Mode, Self::Times];

    /// This part of `wanted`.
    pub(super) fn of(self, wanted: &SetAttributes) -> SetAttributes {
        let none = SetAttributes::default();
        match self {
            Self::Ownership => SetAttributes {
                uid: wanted.uid,
                gid: wanted.gid,
                ..none
            },
            Self::Mode => SetAttributes {
                mode: wanted.mode,
                ..none
            },
            Self::Times => SetAttributes {
                accessed: wanted.accessed,
                modified: wanted.modified,
                ..none
            },
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Ownership => "ownership is",
            Self::Mode => "permissions are",
            Self::Times => "times are",
        }
    }
}

/// Whether the target will not set an attribute; other failures are of the copy.
pub(super) fn is_refusal(error: &Error) -> bool {
    !is_final(error) && !matches!(error, Error::Stale | Error::NotFound)
}

/// The copies that lack a part, and the reason for the first.
#[derive(Default)]
struct Loss {
    files: u64,
    directories: u64,
    reason: Option<Error>,
}

#[derive(Default)]
pub(super) struct Losses([Loss; 3]);

impl Losses {
    pub(super) fn count(&mut self, part: Part, is_directory: bool, reason: Error) {
        let loss = &mut self.0[part as usize];
        match is_directory {
            true => loss.directories += 1,
            false => loss.files += 1,
        }
        loss.reason.get_or_insert(reason);
    }

    /// A sentence for each part that some copy lacks.
    pub(super) fn sentences(&self) -> Vec<String> {
        let parts = Part::ALL.iter().zip(&self.0);
        let lacking = parts.filter_map(|(part, loss)| {
            let reason = loss.reason.as_ref()?;
            let what = counted(loss.files, loss.directories);
            Some(format!("{} not kept of {what}: {reason}", part.text()))
        });
        lacking.collect()
    }
}

fn counted(files: u64, directories: u64) -> String {
    let one = |count, single: &str, several: &str| match count {
        0 => None,
        1 => Some(format!("1 {single}")),
        _ => Some(format!("{count} {several}")),
    };
    let files = one(files, "file", "files");
    let directories = one(directories, "directory", "directories");
    let both: Vec<String> = files.into_iter().chain(directories).collect();
    both.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_one_sentence_with_its_count_and_the_first_reason() {
        let mut losses = Losses::default();
        assert!(losses.sentences().is_empty());
        losses.count(Part::Times, false, Error::NotSupported);
        for is_directory in [true, false, false] {
            losses.count(Part::Ownership, is_directory, Error::NotPermitted);
        }
        losses.count(Part::Ownership, true, Error::Invalid);
        assert_eq!(
            losses.sentences(),
            [
                "ownership is not kept of 2 files and 2 directories: operation not permitted",
                "times are not kept of 1 file: operation not supported",
            ]
        );
    }
}
