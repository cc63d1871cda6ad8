//! Identifiers of objects in an image: the place of a directory record.
//!
//! A place in a read-only image always means one object, so an identifier survives restart. It is
//! not trusted: image, tree and kind must match, and the record is checked again (in `tree`).
//!
//! 32 bytes, little-endian:
//!
//! ```text
//! 0  image   hash of the volume descriptor and the length
//! 8  layout  2
//! 9  tree    plain 0, Rock Ridge 1, Joliet 2, ISO 9660:1999 3
//! 10 kind    directory 0, file 1, empty directory 2
//! 11 zero
//! 12 shared  0, or what all names of an object have in common
//! 16 place   directory: first byte of its extent; else: first byte of its record
//! 24 parent  first byte of the extent of the directory that holds the record; directory: 0
//! ```
//!
//! A directory's place is its own extent, so that `..` of a child and the name in the parent lead
//! to equal identifiers; one of size 0 has none. An object with several names has an identifier for
//! each; [`object_of`] leaves out the places.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

use pagewell_fs::{Error, FileId, Result};

use super::number::of_place;

const LAYOUT: u8 = 2;
const SHARED: Range<usize> = 12..16;
const PLACES: Range<usize> = 16..32;

/// A tree of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TreeKind {
    /// ECMA-119 names.
    Plain = 0,
    /// The same tree with POSIX names and attributes.
    RockRidge = 1,
    /// The second tree, with Unicode names.
    Joliet = 2,
    /// A tree of ISO 9660:1999, with names of up to 207 bytes, as recorded.
    Enhanced = 3,
}

impl fmt::Display for TreeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain",
            Self::RockRidge => "Rock Ridge",
            Self::Joliet => "Joliet",
            Self::Enhanced => "ISO 9660:1999",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Object {
    /// First byte of the directory's extent.
    Directory(u64),
    /// The record of another object.
    File(RecordPlace),
    /// A directory of size 0.
    EmptyDirectory(RecordPlace),
}

impl Object {
    pub(super) fn number(self) -> u64 {
        of_place(self.place())
    }

    pub(super) fn place(self) -> u64 {
        match self {
            Self::Directory(position) => position,
            Self::File(place) | Self::EmptyDirectory(place) => place.position,
        }
    }
}

impl From<Object> for u64 {
    fn from(object: Object) -> Self {
        object.place()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordPlace {
    pub position: u64,
    pub directory: u64,
}

pub(super) fn encode(
    image: u64,
    tree: TreeKind,
    (object, shared): (Object, Option<NonZeroU32>),
) -> FileId {
    let (kind, position, parent) = match object {
        Object::Directory(position) => (0, position, 0),
        Object::File(place) => (1, place.position, place.directory),
        Object::EmptyDirectory(place) => (2, place.position, place.directory),
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&image.to_le_bytes());
    bytes[8..11].copy_from_slice(&[LAYOUT, tree as u8, kind]);
    bytes[SHARED].copy_from_slice(&shared.map_or(0, NonZeroU32::get).to_le_bytes());
    bytes[16..24].copy_from_slice(&position.to_le_bytes());
    bytes[24..].copy_from_slice(&parent.to_le_bytes());
    FileId::of(&bytes)
}

/// The part that the identifiers of all names of an object share.
pub(super) fn object_of(id: &FileId) -> FileId {
    let Ok(mut bytes) = <[u8; 32]>::try_from(id.as_bytes()) else {
        return *id;
    };
    if bytes[SHARED] != [0; 4] {
        bytes[PLACES].fill(0);
    }
    FileId::of(&bytes)
}

/// [`Error::BadId`] for what this layout never had, [`Error::Stale`] for another image or tree.
pub(super) fn decode(
    image: u64,
    tree: TreeKind,
    id: &FileId,
) -> Result<(Object, Option<NonZeroU32>)> {
    let bytes: &[u8; 32] = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
    let number = |at: usize| {
        let mut value = [0; 8];
        value.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(value)
    };
    if bytes[8] != LAYOUT || bytes[11] != 0 {
        return Err(Error::BadId);
    }
    let mut shared = [0; 4];
    shared.copy_from_slice(&bytes[SHARED]);
    let shared = NonZeroU32::new(u32::from_le_bytes(shared));
    if number(0) != image || bytes[9] != tree as u8 {
        return Err(Error::Stale);
    }
    let place = RecordPlace {
        position: number(16),
        directory: number(24),
    };
    match (bytes[10], shared) {
        (0, None) if place.directory == 0 => Ok((Object::Directory(place.position), None)),
        (1, shared) => Ok((Object::File(place), shared)),
        (2, None) => Ok((Object::EmptyDirectory(place), None)),
        _ => Err(Error::BadId),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_come_back_and_others_are_refused() {
        let place = RecordPlace {
            position: 1 << 42,
            directory: 4096,
        };
        for object in [
            (Object::Directory(40960), None),
            (Object::File(place), None),
            (Object::File(place), NonZeroU32::new(0x1234_5678)),
            (Object::EmptyDirectory(place), None),
        ] {
            let id = encode(7, TreeKind::Joliet, object);
            assert_eq!(decode(7, TreeKind::Joliet, &id), Ok(object));
            assert_eq!(decode(8, TreeKind::Joliet, &id), Err(Error::Stale));
            assert_eq!(decode(7, TreeKind::Plain, &id), Err(Error::Stale));
            for length in 0..=48usize {
                let mut bytes = id.as_bytes().to_vec();
                bytes.resize(length, 0);
                let result = decode(7, TreeKind::Joliet, &FileId::new(&bytes).unwrap());
                assert_eq!(result.is_ok(), length == 32);
            }
            for at in [8, 10, 11] {
                let mut bytes = id.as_bytes().to_vec();
                bytes[at] = 9;
                let result = decode(7, TreeKind::Joliet, &FileId::new(&bytes).unwrap());
                assert_eq!(result, Err(Error::BadId));
            }
        }
    }

    #[test]
    fn names_of_an_object_have_its_identifier_in_common() {
        let id = |position, shared| {
            let directory = 4096;
            let place = RecordPlace {
                position,
                directory,
            };
            encode(
                7,
                TreeKind::RockRidge,
                (Object::File(place), NonZeroU32::new(shared)),
            )
        };
        assert_eq!(object_of(&id(5000, 3)), object_of(&id(6000, 3)));
        assert_ne!(object_of(&id(5000, 3)), object_of(&id(5000, 4)));
        assert_eq!(object_of(&id(5000, 0)), id(5000, 0));
        let short = FileId::of(&[1; 4]);
        assert_eq!(object_of(&short), short);
    }
}
