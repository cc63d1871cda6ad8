//! The meaning of a directory record: a file's sections, an object's attributes.
//!
//! A file larger than one extent is a run of records with one identifier; all but the last have a
//! flag for more (ECMA-119 clause 9.1.6). The data of a run without an end, or whose identifier
//! changes, is unreadable.

use std::num::NonZeroU32;

use pagewell_fs::{Attributes, FileType, Result, Timestamp};

use super::checks;
use super::file_id::{Object, RecordPlace};
use super::number::{Evidence, Shared, TYPE_BITS};
use super::read::length_bytes;
use super::record::{IDENTIFIER_PARENT, IDENTIFIER_SELF, Record, RecordCursor};
use super::rock_ridge::RockRidge;
use super::susp::Continuation;
use super::time;
use super::volume::Volume;
use super::zisofs::Compression;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Start in the file, in bytes.
    pub file_offset: u64,
    /// Start in the image, in bytes.
    pub position: u64,
    pub length: u32,
    /// File unit and gap in blocks, for interleaved data.
    pub interleave: Option<(u8, u8)>,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Sections {
    #[default]
    None,
    One([Section; 1]),
    Many(Vec<Section>),
}

impl Sections {
    pub(super) fn push(&mut self, section: Section) {
        match self {
            Self::None => *self = Self::One([section]),
            Self::One([first]) => *self = Self::Many(vec![*first, section]),
            Self::Many(sections) => sections.push(section),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Many(sections) => sections.len() * size_of::<Section>(),
            Self::None | Self::One(_) => 0,
        }
    }
}

impl std::ops::Deref for Sections {
    type Target = [Section];
    fn deref(&self) -> &[Section] {
        match self {
            Self::None => &[],
            Self::One(section) => section,
            Self::Many(sections) => sections,
        }
    }
}

pub(super) struct Recorded {
    pub offset: u64,
    pub record: Record,
    pub rock_ridge: Option<RockRidge>,
    /// Data, in order; a single section for a directory.
    pub sections: Sections,
    pub defect: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub attributes: Attributes,
    pub sections: Sections,
    pub target: Option<Vec<u8>>,
    pub defect: Option<&'static str>,
    /// How the data is compressed, if it is to be shown uncompressed.
    pub compression: Option<Compression>,
    /// Of an object that may have several names ([`Shared::key`]).
    pub shared: Option<NonZeroU32>,
    /// First byte of the extent of a directory's parent; of any other object's directory.
    pub parent: u64,
}

impl Node {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.sections.memory_bytes() + self.target.as_ref().map_or(0, Vec::len)
    }
}

pub(super) struct ObjectReader<'a> {
    pub(super) volume: &'a Volume,
    pub(super) cursor: RecordCursor<'a>,
    pub(super) continuation: Continuation<'a>,
    /// Bytes before the entries of a record; `None` in a tree without Rock Ridge.
    pub(super) skip: Option<usize>,
}

impl ObjectReader<'_> {
    /// The next object, except associated files, the directory itself and its parent.
    pub(super) fn next(&mut self) -> Result<Option<Recorded>> {
        self.next_before(u64::MAX)
    }

    /// The next object, if its first record begins before `limit`.
    pub(super) fn next_before(&mut self, limit: u64) -> Result<Option<Recorded>> {
        while let Some((offset, record)) = self.cursor.next_before(limit)? {
            let is_skipped = record.is_associated()
                || matches!(record.identifier(), IDENTIFIER_SELF | IDENTIFIER_PARENT);
            if !is_skipped {
                let position = self.cursor.record_position();
                let recorded = self.complete(offset, record)?;
                if self.volume.is_checked() {
                    checks::object(self.volume, position, &recorded);
                }
                return Ok(Some(recorded));
            }
        }
        Ok(None)
    }

    fn complete(&mut self, offset: u64, record: Record) -> Result<Recorded> {
        let mut recorded = Recorded {
            offset,
            rock_ridge: self.rock_ridge(&record)?,
            sections: Sections::One([self.section(&record, 0)]),
            defect: None,
            record,
        };
        if recorded.record.is_directory() {
            return Ok(recorded);
        }
        let mut open = recorded.record.has_more_sections();
        while open {
            let next = self.cursor.next()?;
            let Some((offset, record)) = next else {
                recorded.defect = Some("the last section is missing");
                return Ok(recorded);
            };
            if record.is_associated() {
                continue;
            }
            let same = record.identifier() == recorded.record.identifier();
            if !same || record.is_directory() {
                recorded.defect = Some("the last section is missing");
                self.cursor.rewind(offset);
                return Ok(recorded);
            }
            open = record.has_more_sections();
            self.add_attributes(&mut recorded, &record)?;
            let section = self.section(&record, recorded.size());
            recorded.sections.push(section);
        }
        if recorded
            .rock_ridge
            .as_ref()
            .is_some_and(|found| found.sparse)
        {
            recorded.defect = Some("sparse files (Rock Ridge SF) are not supported");
        }
        Ok(recorded)
    }

    fn add_attributes(&mut self, recorded: &mut Recorded, record: &Record) -> Result<()> {
        let missing = |found: &RockRidge| found.posix.is_none();
        if !recorded.rock_ridge.as_ref().is_some_and(missing) {
            return Ok(());
        }
        let later = self.rock_ridge(record)?;
        if let (Some(found), Some(later)) = (&mut recorded.rock_ridge, later)
            && later.posix.is_some()
        {
            found.posix = later.posix;
            found.times = later.times;
        }
        Ok(())
    }

    pub(super) fn section(&self, record: &Record, file_offset: u64) -> Section {
        Section {
            file_offset,
            position: record.data_position(self.volume),
            length: record.data_length(self.volume),
            interleave: record.interleave(),
        }
    }

    pub(super) fn rock_ridge(&mut self, record: &Record) -> Result<Option<RockRidge>> {
        let Some(skip) = self.skip else {
            return Ok(None);
        };
        self.continuation.begin(self.cursor.record_position());
        let area = record.system_use().get(skip..).unwrap_or(&[]);
        RockRidge::read(area, &mut self.continuation).map(Some)
    }

    /// Calls `visit` for each system use entry of a record; without Rock Ridge, for the whole area
    /// as one.
    pub(super) fn visit(&mut self, record: &Record, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        let area = record.system_use();
        let Some(skip) = self.skip else {
            visit(area);
            return Ok(());
        };
        self.continuation.begin(self.cursor.record_position());
        let area = area.get(skip..).unwrap_or(&[]);
        self.continuation.walk(area, &mut |_, entry| visit(entry))
    }
}

impl Recorded {
    pub(super) fn size(&self) -> u64 {
        length_bytes(&self.sections)
    }

    pub(super) fn moved_here(&self) -> bool {
        let rock_ridge = self.rock_ridge.as_ref();
        rock_ridge.is_some_and(|found| found.moved_here)
    }

    pub(super) fn object(&self, volume: &Volume, directory: u64) -> Object {
        let place = RecordPlace {
            position: directory + self.offset,
            directory,
        };
        let moved = self.rock_ridge.as_ref().and_then(|found| found.child);
        if self.record.is_directory() {
            if self.size() == 0 {
                Object::EmptyDirectory(place)
            } else {
                Object::Directory(self.record.data_position(volume))
            }
        } else if let Some(block) = moved {
            Object::Directory(volume.block_position(block))
        } else {
            Object::File(place)
        }
    }

    /// What it has in common with its other names, if it may have any; no directory has.
    pub(super) fn shared(&self, volume: &Volume) -> Option<Shared> {
        if self.record.is_directory() {
            return None;
        }
        let rock_ridge = self.rock_ridge.as_ref()?;
        let posix = rock_ridge.posix?;
        let evidence = Evidence {
            serial: posix.serial,
            link_count: posix.links,
            mode: posix.mode,
            owner: (posix.uid, posix.gid),
            modified: rock_ridge.times.modified.unwrap_or_default(),
            position: self.sections.first().map_or(0, |first| first.position),
            size: self.size(),
        };
        evidence.shared(volume.block_bytes, volume.length_bytes)
    }
}

/// Attributes of an object, with set-id bits and device numbers: the mount decides about those
/// (`nosuid`, `nodev`).
pub(super) fn attributes(
    volume: &Volume,
    record: &Record,
    rock_ridge: Option<&RockRidge>,
    (file_id, size): (u64, u64),
) -> Attributes {
    let posix = rock_ridge.and_then(|found| found.posix);
    let file_type = file_type(record.is_directory(), posix.map(|posix| posix.mode));
    let default_mode = if file_type.is_directory() {
        0o555
    } else {
        0o444
    };
    let mode = posix.map_or(default_mode, |posix| posix.mode & 0o7777);
    let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
    let device = rock_ridge.and_then(|found| found.device);
    let size = match file_type {
        FileType::Regular | FileType::Directory => size,
        FileType::Symlink => rock_ridge
            .and_then(|found| found.target()?)
            .map_or(0, |target| target.len() as u64),
        _ => 0,
    };
    let times = rock_ridge.map(|found| found.times).unwrap_or_default();
    let recorded: Timestamp = time::short(record.time_bytes()).unwrap_or_default();
    let modified = times.modified.unwrap_or(recorded);
    Attributes {
        file_type,
        mode,
        link_count: posix.map_or(1, |posix| posix.links.max(1)),
        uid: posix.map_or(0, |posix| posix.uid),
        gid: posix.map_or(0, |posix| posix.gid),
        size,
        used: size.next_multiple_of(u64::from(volume.block_bytes)),
        device: match device {
            Some(words) if is_device => device_number(words),
            _ => (0, 0),
        },
        filesystem_id: volume.identity,
        file_id,
        accessed: times.accessed.unwrap_or(modified),
        modified,
        changed: times.attributes.or(times.created).unwrap_or(modified),
        may_be_kept: true,
    }
}

/// The type of `st_mode`, unless the directory flag of the record contradicts it.
fn file_type(is_directory: bool, mode: Option<u32>) -> FileType {
    if is_directory {
        return FileType::Directory;
    }
    match mode.unwrap_or(0) & TYPE_BITS {
        0o140_000 => FileType::Socket,
        0o120_000 => FileType::Symlink,
        0o060_000 => FileType::BlockDevice,
        0o020_000 => FileType::CharacterDevice,
        0o010_000 => FileType::Fifo,
        _ => FileType::Regular,
    }
}

/// Major and minor number: the two words, or the low word alone, which packs both as Linux does.
fn device_number((high, low): (u32, u32)) -> (u32, u32) {
    if high == 0 && low > 0xff {
        ((low >> 8) & 0xfff, (low & 0xff) | ((low >> 12) & 0xf_ff00))
    } else {
        (high, low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_device_numbers() {
        assert_eq!(file_type(true, Some(0o100_644)), FileType::Directory);
        assert_eq!(file_type(false, Some(0o040_755)), FileType::Regular);
        assert_eq!(file_type(false, Some(0)), FileType::Regular);
        assert_eq!(file_type(false, Some(0o120_777)), FileType::Symlink);
        assert_eq!(file_type(false, None), FileType::Regular);
        assert_eq!(device_number((0, 0x0103)), (1, 3));
        assert_eq!(device_number((8, 1)), (8, 1));
        assert_eq!(device_number((0, 7)), (0, 7));
        assert_eq!(device_number((0, 0x0012_3456)), (0x234, 0x156));
    }
}
