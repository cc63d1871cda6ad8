//! The file set descriptor (ECMA-167 4/14.1): the root of the tree.
//!
//! The logical volume says where the sequence of file sets begins. A rewritten one comes behind the
//! older ones, in the same extent or in the next one that the last names; the highest number
//! prevails. A volume may have several sets, by UDF on write-once discs only: the first is shown.

use pagewell_fs::{Error, Result, Timestamp};
use pagewell_source_bytes::Window;

use super::fields::{Fields, LongAd, Place};
use super::space::Space;
use super::tag::{FILE_SET, TERMINATING, TagFault};
use super::time::{TIME_BYTES, timestamp};

/// Blocks of the sequence.
const BLOCKS_MAX: usize = 1024;
const DESCRIPTOR_BYTES: usize = 512;
const CLAUSE: &str = "ECMA-167 4/8.5";

#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSet {
    pub root: Place,
    pub recorded: Option<Timestamp>,
    /// Of the set, and of the descriptor within it.
    number: (u32, u32),
    next: LongAd,
}

impl FileSet {
    fn parse(bytes: &[u8]) -> Self {
        let fields = Fields::new(bytes);
        Self {
            root: fields.long_ad(400).place,
            recorded: timestamp(fields.bytes(16, TIME_BYTES)),
            number: (fields.u32(40), fields.u32(44)),
            next: fields.long_ad(448),
        }
    }

    fn prevails_over(&self, other: &Self) -> bool {
        let ((set, version), (other_set, other_version)) = (self.number, other.number);
        set < other_set || set == other_set && version >= other_version
    }

    pub(crate) fn find(space: &Space, first: LongAd) -> Result<Self> {
        let mut window = Window::new(space.image().bytes(), true, 0);
        let mut found: Option<Self> = None;
        let mut failure = None;
        let mut next = Some(first);
        let mut left = BLOCKS_MAX;
        while let Some(extent) = next.take() {
            let blocks = u64::from(extent.length_bytes).div_ceil(space.block_bytes());
            for index in 0..blocks {
                let Some(place) = extent.place.after(index) else {
                    break;
                };
                left = match left.checked_sub(1) {
                    Some(left) => left,
                    None => break,
                };
                match at_either(space, &mut window, place) {
                    Ok(Some(set)) => {
                        next = (set.next.length_bytes > 0).then_some(set.next);
                        if found.as_ref().is_none_or(|held| set.prevails_over(held)) {
                            found = Some(set);
                        }
                    }
                    Ok(None) => break,
                    Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        let missing = || space.fault(first.place, "no file set descriptor is there");
        found.ok_or_else(|| failure.unwrap_or_else(missing))
    }
}

/// [`at`], or in the mirror where that is damaged.
fn at_either(space: &Space, window: &mut Window<'_>, place: Place) -> Result<Option<FileSet>> {
    let first = at(space, window, place);
    match (&first, space.mirror_of(place)) {
        (Err(Error::Io(_)), Some(mirror)) => match at(space, window, mirror) {
            Ok(Some(found)) => Ok(Some(found)),
            _ => first,
        },
        _ => first,
    }
}

fn at(space: &Space, window: &mut Window<'_>, place: Place) -> Result<Option<FileSet>> {
    let (bytes, position) = space.block(window, place, true)?;
    let image = space.image();
    match image.descriptor(bytes, position, place.block) {
        Ok(tag) if tag.identifier == FILE_SET && bytes.len() >= DESCRIPTOR_BYTES => {
            Ok(Some(FileSet::parse(bytes)))
        }
        Ok(tag) if tag.identifier == TERMINATING => Ok(None),
        Ok(_) => {
            image.note(
                position,
                CLAUSE,
                "another descriptor is where a file set should be",
            );
            Ok(None)
        }
        Err(TagFault::Unrecorded) => Ok(None),
        Err(fault) => Err(image.fault(position, &fault.to_string())),
    }
}
