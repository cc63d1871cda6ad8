//! Directories: file identifier descriptors (ECMA-167 4/14.4), one behind the other.
//!
//! ```text
//! tag | version | characteristics | L_FI | ICB | L_IU | implementation use | name | to 4 bytes
//! ```
//!
//! They cross blocks and extents, so a directory is read as a file. The parent comes first and is
//! none of the names; deleted ones are skipped. A damaged tag says no length: the next sound tag is
//! looked for, in steps of 4 bytes. A name whose CRC is wrong is listed, but its object is an
//! error: a wrong place would be another file.

use std::ops::Deref;

use pagewell_fs::{Error, Result};
use pagewell_source_bytes::{NameTable, Repeated};

use super::extent::Data;
use super::fields::{Fields, LENGTH_MASK, Place};
use super::space::Space;
use super::tag::{self, FILE_IDENTIFIER, TAG_BYTES};
use super::text;

const DIRECTORY_BYTES_MAX: u64 = 64 << 20;
const IDENTIFIER_BYTES: usize = 38;
const STEP_BYTES: usize = 32 << 10;
const ALIGNMENT: u64 = 4;
const CLAUSE: &str = "ECMA-167 4/14.4";

const HIDDEN: u8 = 0x01;
const DIRECTORY: u8 = 0x02;
const DELETED: u8 = 0x04;
const PARENT: u8 = 0x08;

/// The hidden file that owns defective blocks (UDF 1.50 2.3.13).
const SPACE_LIST: &[u8] = b"Non-Allocatable Space";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub place: Place,
    pub version: u16,
    pub is_directory: bool,
    /// The descriptor is damaged: the place may be another's.
    pub is_damaged: bool,
}

#[derive(Debug)]
pub(crate) struct Directory {
    names: NameTable<Value>,
    parent: Option<Place>,
    is_damaged: bool,
}

impl Directory {
    pub(crate) fn read(space: &Space, data: &Data, may_block: bool) -> Result<Self> {
        let image = space.image();
        let name = image.bytes().name();
        let too_large = |what: &str| Error::Io(format!("{name}: {what}"));
        if data.size > DIRECTORY_BYTES_MAX {
            return Err(too_large("a directory larger than 64 MiB"));
        }
        let mut directory = Self {
            names: NameTable::new(false),
            parent: None,
            is_damaged: false,
        };
        let mut reader = Reader::new(space, data, may_block);
        while let Some(identifier) = reader.next()? {
            let value = identifier.value;
            match identifier.characteristics {
                kind if kind & PARENT != 0 => {
                    let usable = !value.is_damaged && directory.parent.is_none();
                    directory.parent = usable.then_some(value.place).or(directory.parent);
                }
                kind if kind & DELETED != 0 => {}
                kind if kind & HIDDEN != 0 && identifier.name == SPACE_LIST => {}
                _ => {
                    let pushed = directory.names.push(&identifier.name, value);
                    pushed.ok_or_else(|| too_large("a directory with over 64 MiB of names"))?;
                }
            }
        }
        directory.is_damaged = reader.is_damaged;
        let finished = directory.names.finish(settle);
        finished.ok_or_else(|| too_large("a directory with over 64 MiB of names"))?;
        Ok(directory)
    }

    /// The parent that the first descriptor of a directory names.
    pub(crate) fn first_parent(
        space: &Space,
        data: &Data,
        may_block: bool,
    ) -> Result<Option<Place>> {
        let mut reader = Reader::new(space, data, may_block);
        reader.step_bytes = IDENTIFIER_BYTES;
        let first = match reader.next() {
            Err(Error::Io(_)) => None,
            other => other?,
        };
        let parent = first.filter(|found| found.characteristics & PARENT != 0);
        Ok(parent
            .filter(|found| !found.value.is_damaged)
            .map(|found| found.value.place))
    }

    pub(crate) fn parent(&self) -> Option<Place> {
        self.parent
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    pub(crate) fn len(&self) -> usize {
        self.names.items().len()
    }
}

impl Deref for Directory {
    type Target = NameTable<Value>;
    fn deref(&self) -> &NameTable<Value> {
        &self.names
    }
}

/// The highest version of a file is shown; UDF has version 1 alone.
fn settle(held: &Value, new: &Value) -> Repeated {
    if held.is_directory || new.is_directory || held.version == new.version {
        Repeated::Numbered
    } else if held.version < new.version {
        Repeated::Replaces
    } else {
        Repeated::Dropped
    }
}

struct Identifier {
    characteristics: u8,
    name: Vec<u8>,
    value: Value,
}

struct Reader<'a> {
    space: &'a Space,
    data: &'a Data,
    may_block: bool,
    step_bytes: usize,
    offset: u64,
    held: Vec<u8>,
    start: u64,
    is_damaged: bool,
}

impl<'a> Reader<'a> {
    fn new(space: &'a Space, data: &'a Data, may_block: bool) -> Self {
        Self {
            space,
            data,
            may_block,
            step_bytes: STEP_BYTES,
            offset: 0,
            held: Vec::new(),
            start: 0,
            is_damaged: false,
        }
    }

    /// Bytes from the offset on: `length` of them, fewer at the end of the directory.
    fn peek(&mut self, length: usize) -> Result<&[u8]> {
        let left = self.data.size.saturating_sub(self.offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        let from = usize::try_from(self.offset - self.start).unwrap_or(usize::MAX);
        let is_held = from
            .checked_add(length)
            .is_some_and(|end| end <= self.held.len());
        if !is_held && length > 0 {
            self.start = self.offset;
            self.held.resize(self.step_bytes.max(length), 0);
            let filled = self
                .space
                .fill(self.data, self.offset, &mut self.held, self.may_block);
            let count = filled.inspect_err(|_| self.held.clear())?;
            self.held.truncate(count);
        }
        let from = usize::try_from(self.offset - self.start).unwrap_or(usize::MAX);
        let rest = self.held.get(from..).unwrap_or(&[]);
        let what = "a part of a directory is unreadable";
        let name = self.space.image().bytes().name();
        rest.get(..length)
            .ok_or_else(|| Error::Io(format!("{name}: {what}")))
    }

    fn next(&mut self) -> Result<Option<Identifier>> {
        let mut is_sound = true;
        while self.offset < self.data.size {
            let bytes = self.peek(IDENTIFIER_BYTES)?;
            let is_whole = bytes.len() == IDENTIFIER_BYTES;
            let is_identifier = tag::head(bytes).is_ok_and(|tag| tag.identifier == FILE_IDENTIFIER);
            if is_whole && is_identifier {
                return self.take().map(Some);
            }
            // The rest behind the last descriptor is smaller than one.
            if is_sound && (bytes.len() >= TAG_BYTES) {
                self.note("bytes in a directory that are no file identifier");
            }
            self.is_damaged |= is_sound;
            is_sound = false;
            self.offset += ALIGNMENT;
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Identifier> {
        let fields = Fields::new(self.peek(IDENTIFIER_BYTES)?);
        let name_length = usize::from(fields.u8(19));
        let name_start = IDENTIFIER_BYTES + usize::from(fields.u16(36));
        let length = (name_start + name_length).next_multiple_of(ALIGNMENT as usize);
        let bytes = self.peek(length)?;
        let fields = Fields::new(bytes);
        let fault = tag::whole(bytes).err();
        let characteristics = fields.u8(18);
        let (name, is_known) = text::name(fields.bytes(name_start, name_length));
        let is_empty = fields.u32(20) & LENGTH_MASK == 0;
        let identifier = Identifier {
            characteristics,
            name,
            value: Value {
                place: fields.place(24),
                version: fields.u16(16),
                is_directory: characteristics & DIRECTORY != 0,
                is_damaged: fault.is_some() || is_empty || bytes.len() < length,
            },
        };
        if let Some(fault) = fault {
            self.is_damaged = true;
            self.note(&fault.to_string());
        } else if !is_known && characteristics & (PARENT | DELETED) == 0 {
            self.note("a name in an unknown compression");
        }
        self.offset += length as u64;
        Ok(identifier)
    }

    fn note(&self, what: &str) {
        let pieces = self.space.pieces(self.data, self.offset, 1, self.may_block);
        let position = match pieces.as_deref() {
            Ok([super::space::Piece::Bytes { position, .. }, ..]) => *position,
            _ => 0,
        };
        self.space.image().note(position, CLAUSE, what);
    }
}
