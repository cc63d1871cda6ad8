//! Allocation descriptors (ECMA-167 4/14.14): where the data of an object is.
//!
//! ```text
//! short     length and type, block of the entry's own partition            8 bytes
//! long      length and type, block and partition                          16 bytes
//! extended  the same with further lengths                                 20 bytes
//! embedded  the data itself
//! ```
//!
//! The two upper bits of a length are its type: recorded; a hole, allocated or not; or the next
//! extent of descriptors. They end with a length of zero, or when they cover the data. Damage ends
//! them too: the data before it can be read, the rest is an error.
//!
//! Bounds: [`EXTENTS_MAX`] extents, and each extent of descriptors once.

use std::collections::HashSet;

use pagewell_fs::{Error, Result};

use super::entry::Entry;
use super::extent::{Body, Data, Extents};
use super::fields::{Fields, LENGTH_MASK, Place};
use super::icb::Icb;
use super::space::Space;
use super::tag::ALLOCATION_EXTENT;

/// Extents of an object, neighbours joined: 256 TiB in extents of 1 GiB, in 8 MiB of memory.
const EXTENTS_MAX: usize = 1 << 18;
/// Extents of descriptors of an object: as many blocks of 2048 bytes hold all extents.
const CONTINUATIONS_MAX: usize = 1 << 12;
/// The header of an extent of descriptors (ECMA-167 4/14.5).
const EXTENT_HEADER_BYTES: usize = 24;
const CLAUSE: &str = "ECMA-167 4/14.14";

/// Data as far as its descriptors are sound, and the damage that ends them, if any.
pub(crate) struct Allocated {
    pub data: Data,
    pub defect: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
    Extended,
}

impl Form {
    fn bytes(self) -> usize {
        match self {
            Self::Short => 8,
            Self::Long => 16,
            Self::Extended => 20,
        }
    }

    /// Length with its type, and place, of a descriptor in `partition`.
    fn parse(self, descriptor: &[u8], partition: u16) -> (u32, Place) {
        let fields = Fields::new(descriptor);
        let place = match self {
            Self::Short => Place {
                partition,
                block: fields.u32(4),
            },
            Self::Long => fields.place(4),
            Self::Extended => fields.place(12),
        };
        (fields.u32(0), place)
    }
}

pub(crate) fn data(
    space: &Space,
    icb: &Icb,
    entry: &Entry<'_>,
    may_block: bool,
) -> Result<Allocated> {
    let form = match entry.flags & 7 {
        0 => Form::Short,
        1 => Form::Long,
        2 => Form::Extended,
        3 => {
            let held = entry.descriptors.len() as u64;
            let cut = "its data is longer than the place for it in its entry";
            let is_cut = entry.size > held;
            if is_cut {
                space.image().note(icb.position, CLAUSE, cut);
            }
            let position = icb.position + entry.descriptors_start as u64;
            return Ok(Allocated {
                data: Data {
                    size: entry.size.min(held),
                    body: Body::Embedded(position),
                },
                defect: is_cut.then_some(cut),
            });
        }
        _ => {
            let what = "allocation descriptors of an unknown kind";
            space.image().note(icb.position, "ECMA-167 4/14.6.8", what);
            return Ok(Allocated {
                data: Data {
                    size: 0,
                    body: Body::Extents(Vec::new()),
                },
                defect: Some(what),
            });
        }
    };
    let mut walk = Walk {
        space,
        form,
        size: entry.size,
        extents: Extents::default(),
        visited: HashSet::new(),
    };
    let partition = icb.place.partition;
    let ended = walk.all(entry.descriptors, partition, may_block)?;
    let covered = walk.extents.length();
    let defect = match ended {
        Err(what) => Some(what),
        Ok(()) if covered < entry.size => Some("its extents end before its data does"),
        Ok(()) => None,
    };
    if let Some(what) = defect {
        space.image().note(icb.position, CLAUSE, what);
    }
    Ok(Allocated {
        data: Data {
            size: entry.size.min(covered),
            body: walk.extents.finish(),
        },
        defect,
    })
}

struct Walk<'a> {
    space: &'a Space,
    form: Form,
    size: u64,
    extents: Extents,
    visited: HashSet<Place>,
}

type Ended = Result<(), &'static str>;

impl Walk<'_> {
    fn all(&mut self, descriptors: &[u8], partition: u16, may_block: bool) -> Result<Ended> {
        let mut next = match self.area(descriptors, partition) {
            Ok(next) => next,
            Err(what) => return Ok(Err(what)),
        };
        while let Some(place) = next {
            if self.visited.len() >= CONTINUATIONS_MAX || !self.visited.insert(place) {
                return Ok(Err("its extents of descriptors do not end"));
            }
            let block = match self.continuation(place, may_block) {
                Ok(Some(block)) => block,
                Ok(None) => return Ok(Err("an extent of its descriptors is damaged")),
                Err(Error::Io(_)) => return Ok(Err("an extent of its descriptors is unreadable")),
                Err(other) => return Err(other),
            };
            let length = Fields::new(&block).u32(20) as usize;
            let area = block.get(EXTENT_HEADER_BYTES..).unwrap_or(&[]);
            let Some(area) = area.get(..length) else {
                return Ok(Err("an extent of its descriptors reaches past its block"));
            };
            next = match self.area(area, place.partition) {
                Ok(next) => next,
                Err(what) => return Ok(Err(what)),
            };
        }
        Ok(Ok(()))
    }

    /// Takes the descriptors of one area; returns where they go on.
    fn area(&mut self, area: &[u8], partition: u16) -> Result<Option<Place>, &'static str> {
        for descriptor in area.chunks_exact(self.form.bytes()) {
            if self.extents.length() >= self.size {
                break;
            }
            let (length, place) = self.form.parse(descriptor, partition);
            let bytes = u64::from(length & LENGTH_MASK);
            if bytes == 0 {
                break;
            }
            let start = match length >> 30 {
                0 => Some(place),
                3 => return Ok(Some(place)),
                _ => None,
            };
            self.extents.push(bytes, start, self.space.block_bytes());
            if self.extents.count() > EXTENTS_MAX {
                return Err("more than 262,144 extents");
            }
        }
        Ok(None)
    }

    fn continuation(&self, place: Place, may_block: bool) -> Result<Option<Vec<u8>>> {
        let image = self.space.image();
        let span = self.space.locate(place, may_block)?;
        let length = span.length.min(self.space.block_bytes()) as usize;
        let mut block = vec![0; length];
        image.read(span.position, &mut block, may_block)?;
        let tag = image.descriptor(&block, span.position, place.block);
        let is_extent = tag.is_ok_and(|tag| tag.identifier == ALLOCATION_EXTENT);
        Ok(is_extent.then_some(block))
    }
}
