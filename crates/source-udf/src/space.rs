//! The partitions of a file system: from a block of one to bytes of the image.
//!
//! ```text
//! plain      block b ──> start + b                            (type 1)
//! sparable   block b ──> its packet, moved if damaged         (UDF 2.2.9)
//! virtual    block b ──> table[b], a block of another one     (UDF 2.2.8, write-once discs)
//! metadata   block b ──> byte b * size of a file of another   (UDF 2.2.10)
//! ```
//!
//! The other one is plain or sparable, so that one step ends in the image. A mirror of a metadata
//! partition, a copy of its blocks, is a partition of its own behind those of the image, so a place
//! in the one is also a place in the other.
//!
//! A block outside its partition, but inside the image, is read and noted: some writers record
//! wrong lengths.

use std::ops::Range;

use pagewell_cache::Bounds;
use pagewell_fs::{Error, Result};
use pagewell_source_bytes::Window;

use super::extent::{Body, Data};
use super::fields::Place;
use super::image::Image;
use super::sparing::Moved;

/// An unused entry of a virtual allocation table.
const UNUSED: u32 = u32::MAX;

pub(crate) enum Partition {
    Plain {
        start: u32,
        blocks: u32,
    },
    Sparable {
        start: u32,
        blocks: u32,
        packet_blocks: u32,
        moved: Moved,
    },
    Virtual {
        base: u16,
        /// The file with the table, in extents of `base`.
        file: Data,
        table_start: u64,
        entries: u64,
    },
    Metadata {
        /// The file that holds the blocks, in extents of plain and sparable partitions.
        file: Data,
    },
    /// Not there, and why.
    Missing(&'static str),
}

impl Partition {
    /// Whether its blocks are in the image without another partition between.
    pub(crate) fn is_base(&self) -> bool {
        matches!(self, Self::Plain { .. } | Self::Sparable { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub position: u64,
    pub length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of the image, and the bounds of the same extent around them.
    Bytes {
        position: u64,
        length: u64,
        bounds: Bounds,
    },
    Zeros(u64),
}

impl Piece {
    pub(crate) fn range(self) -> Option<Range<u64>> {
        match self {
            Self::Bytes {
                position, length, ..
            } => Some(position..position.saturating_add(length)),
            Self::Zeros(_) => None,
        }
    }

    pub(crate) fn length(self) -> u64 {
        match self {
            Self::Bytes { length, .. } | Self::Zeros(length) => length,
        }
    }
}

pub(crate) struct Space {
    image: Image,
    block_bytes: u32,
    partitions: Vec<Partition>,
    /// The partition of a mirror, by that of its original.
    mirrors: Vec<(u16, u16)>,
}

impl Space {
    pub(crate) fn new(image: Image, block_bytes: u32, partitions: Vec<Partition>) -> Self {
        Self {
            image,
            block_bytes,
            partitions,
            mirrors: Vec::new(),
        }
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.block_bytes)
    }

    pub(crate) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    pub(crate) fn set_partition(&mut self, index: u16, partition: Partition) {
        if let Some(slot) = self.partitions.get_mut(usize::from(index)) {
            *slot = partition;
        }
    }

    pub(crate) fn add_mirror(&mut self, of: u16, partition: Partition) {
        if let Ok(index) = u16::try_from(self.partitions.len()) {
            self.partitions.push(partition);
            self.mirrors.push((of, index));
        }
    }

    pub(crate) fn mirror_of(&self, place: Place) -> Option<Place> {
        let mut mirrors = self.mirrors.iter();
        let (_, partition) = mirrors.find(|(original, _)| *original == place.partition)?;
        Some(Place {
            partition: *partition,
            ..place
        })
    }

    pub(crate) fn fault(&self, place: Place, what: &str) -> Error {
        Error::Io(format!(
            "{}: block {} of partition {}: {what}",
            self.image.bytes().name(),
            place.block,
            place.partition
        ))
    }

    /// Where a block is, and how many bytes lie together from there on.
    pub(crate) fn locate(&self, place: Place, may_block: bool) -> Result<Span> {
        match self.partitions.get(usize::from(place.partition)) {
            None => Err(self.fault(place, "there is no such partition")),
            Some(Partition::Missing(why)) => Err(self.fault(place, why)),
            Some(Partition::Virtual {
                base,
                file,
                table_start,
                entries,
            }) => {
                let index = u64::from(place.block);
                if index >= *entries {
                    return Err(self.fault(place, "past the end of the virtual allocation table"));
                }
                let mut entry = [0; 4];
                self.read(file, table_start + 4 * index, &mut entry, may_block)?;
                let block = u32::from_le_bytes(entry);
                if block == UNUSED {
                    return Err(self.fault(place, "unused in the virtual allocation table"));
                }
                let partition = *base;
                let span = self.locate_base(Place { partition, block })?;
                // The next block is wherever its entry says.
                Ok(Span {
                    length: span.length.min(self.block_bytes()),
                    ..span
                })
            }
            Some(Partition::Metadata { file }) => self.locate_in(place, file),
            Some(Partition::Plain { .. } | Partition::Sparable { .. }) => self.locate_base(place),
        }
    }

    fn locate_base(&self, place: Place) -> Result<Span> {
        let (first, blocks, total) = match self.partitions.get(usize::from(place.partition)) {
            Some(Partition::Plain { start, blocks }) => (
                u64::from(*start) + u64::from(place.block),
                u64::MAX,
                *blocks,
            ),
            Some(Partition::Sparable {
                start,
                blocks,
                packet_blocks,
                moved,
            }) => {
                let (block, together) = spare(place.block, *packet_blocks, moved);
                let first = block.unwrap_or(u64::from(*start) + u64::from(place.block));
                (first, together, *blocks)
            }
            _ => return Err(self.fault(place, "not in a partition of the volume")),
        };
        let position = first.saturating_mul(self.block_bytes());
        if place.block >= total {
            let block = place.block;
            let text = format_args!("block {block} is outside its partition of {total} blocks");
            self.image.note(position, "ECMA-167 4/7.1", text);
        }
        Ok(Span {
            position,
            length: blocks.saturating_mul(self.block_bytes()),
        })
    }

    fn locate_in(&self, place: Place, file: &Data) -> Result<Span> {
        let offset = u64::from(place.block) * self.block_bytes();
        let outside = || self.fault(place, "past the end of the metadata file");
        if offset >= file.size {
            return Err(outside());
        }
        let extent = file.extents_from(offset).first().ok_or_else(outside)?;
        let inside = offset - extent.file_offset;
        let start = extent.start.ok_or_else(outside)?;
        if inside >= extent.length {
            return Err(outside());
        }
        let start = start.after(inside / self.block_bytes());
        let span = self.locate_base(start.ok_or_else(outside)?)?;
        Ok(Span {
            position: span.position + inside % self.block_bytes(),
            length: span.length.min(extent.length - inside),
        })
    }

    /// Where `wanted` bytes of `data` from `offset` are: fewer before an absent byte, and at least
    /// one piece.
    pub(crate) fn pieces(
        &self,
        data: &Data,
        offset: u64,
        wanted: u64,
        may_block: bool,
    ) -> Result<Vec<Piece>> {
        let wanted = wanted.min(data.size.saturating_sub(offset));
        let mut pieces = Pieces {
            space: self,
            found: Vec::new(),
            left: wanted,
        };
        let result = match &data.body {
            Body::Embedded(position) => {
                let bounds = Bounds {
                    start: *position,
                    end: position.saturating_add(data.size),
                };
                let position = position.saturating_add(offset);
                pieces.add(position, wanted, bounds).map(drop)
            }
            Body::Extents(_) => self.add_extents(data, offset, &mut pieces, may_block),
        };
        match result {
            // The next read reports it.
            Err(Error::Io(_)) if !pieces.found.is_empty() => {}
            other => other?,
        }
        Ok(pieces.found)
    }

    fn add_extents(
        &self,
        data: &Data,
        offset: u64,
        pieces: &mut Pieces<'_>,
        may_block: bool,
    ) -> Result<()> {
        let mut offset = offset;
        for extent in data.extents_from(offset) {
            while pieces.left > 0 {
                let inside = offset - extent.file_offset;
                let rest = extent.length.saturating_sub(inside).min(pieces.left);
                if rest == 0 {
                    break;
                }
                let taken = match extent.start {
                    None => pieces.add_zeros(rest),
                    Some(start) => {
                        let whole = (
                            start,
                            extent
                                .length
                                .min(data.size.saturating_sub(extent.file_offset)),
                        );
                        let (position, bounds) = self.locate_inside(whole, inside, may_block)?;
                        let there = rest.min(bounds.end.saturating_sub(position));
                        pieces.add(position, there, bounds)?
                    }
                };
                offset += taken;
            }
        }
        Ok(())
    }

    /// Where the byte `inside` an extent (first block and length) is, and the bounds that lie
    /// together with it.
    fn locate_inside(
        &self,
        (start, length): (Place, u64),
        inside: u64,
        may_block: bool,
    ) -> Result<(u64, Bounds)> {
        let (blocks, odd) = (inside / self.block_bytes(), inside % self.block_bytes());
        let past = || self.fault(start, "an extent past the last address");
        let place = start.after(blocks).ok_or_else(past)?;
        let span = self.locate(place, may_block)?;
        let position = span.position.saturating_add(odd);
        let together = span.length.saturating_sub(odd);
        if together == 0 {
            // A file of metadata may end within a block; a caller waits for progress.
            return Err(self.fault(place, "past the end of what holds it"));
        }
        let first = if inside == 0 {
            span
        } else {
            self.locate(start, may_block)?
        };
        let is_one = first.position.saturating_add(inside) == position;
        let bounds = Bounds {
            start: if is_one { first.position } else { position },
            end: position.saturating_add(together.min(length.saturating_sub(inside))),
        };
        Ok((position, bounds))
    }

    pub(crate) fn read(
        &self,
        data: &Data,
        offset: u64,
        target: &mut [u8],
        may_block: bool,
    ) -> Result<()> {
        let mut done = 0;
        while done < target.len() {
            let rest = target.get_mut(done..).unwrap_or_default();
            let count = self.fill(data, offset + done as u64, rest, may_block)?;
            if count == 0 {
                return Err(Error::Io(format!(
                    "{}: past the end of a file's data",
                    self.image.bytes().name()
                )));
            }
            done += count;
        }
        Ok(())
    }

    /// Reads as much of `data` from `offset` as there is to the front of `target`: fewer bytes at
    /// its end and before an unreadable one.
    pub(crate) fn fill(
        &self,
        data: &Data,
        offset: u64,
        target: &mut [u8],
        may_block: bool,
    ) -> Result<usize> {
        let pieces = self.pieces(data, offset, target.len() as u64, may_block)?;
        let mut rest = target;
        let mut done = 0;
        for piece in pieces {
            // Pieces are at most as long as the target.
            let (now, later) = rest.split_at_mut((piece.length() as usize).min(rest.len()));
            let Piece::Bytes { position, .. } = piece else {
                now.fill(0);
                done += now.len();
                rest = later;
                continue;
            };
            match self.image.read(position, now, may_block) {
                Err(Error::Io(_)) if done > 0 => break,
                Err(Error::Io(_)) => {
                    // An unreadable block costs only itself.
                    let to_next = self.block_bytes() - position % self.block_bytes();
                    let length = now.len().min(to_next as usize);
                    let first = now.get_mut(..length).unwrap_or_default();
                    self.image.read(position, first, may_block)?;
                    return Ok(length);
                }
                other => other?,
            }
            done += now.len();
            rest = later;
        }
        Ok(done)
    }

    pub(crate) fn block<'w>(
        &self,
        window: &'w mut Window<'_>,
        place: Place,
        may_block: bool,
    ) -> Result<(&'w [u8], u64)> {
        let span = self.locate(place, may_block)?;
        let length = span.length.min(self.block_bytes());
        Ok((window.get(span.position, length as usize)?, span.position))
    }
}

struct Pieces<'a> {
    space: &'a Space,
    found: Vec<Piece>,
    left: u64,
}

impl Pieces<'_> {
    fn add_zeros(&mut self, length: u64) -> u64 {
        if length > 0 {
            self.found.push(Piece::Zeros(length));
            self.left -= length;
        }
        length
    }

    /// Adds bytes of the image, joined to the last piece where they follow it; an error when the
    /// first is absent.
    fn add(&mut self, position: u64, length: u64, bounds: Bounds) -> Result<u64> {
        if length == 0 {
            return Ok(0);
        }
        let image = &self.space.image;
        let there = image.length_bytes().saturating_sub(position).min(length);
        if there == 0 {
            return Err(image.fault(position, "past the end of the image"));
        }
        match self.found.last_mut() {
            Some(Piece::Bytes {
                position: before,
                length: held,
                bounds: reach,
            }) if *before + *held == position => {
                *held += there;
                reach.end = bounds.end;
            }
            _ => self.found.push(Piece::Bytes {
                position,
                length: there,
                bounds,
            }),
        }
        self.left -= there;
        if there < length {
            return Err(image.fault(position + there, "past the end of the image"));
        }
        Ok(there)
    }
}

/// Where a block of a sparable partition was moved to, and how many blocks from there on lie
/// together.
fn spare(block: u32, packet_blocks: u32, moved: &Moved) -> (Option<u64>, u64) {
    let packet_blocks = packet_blocks.max(1);
    let inside = block % packet_blocks;
    let packet = block - inside;
    let next = moved.partition_point(|(original, _)| *original <= block);
    let before = next.checked_sub(1).and_then(|index| moved.get(index));
    if let Some((_, to)) = before.filter(|(original, _)| *original == packet) {
        let together = u64::from(packet_blocks - inside);
        return (Some(u64::from(*to) + u64::from(inside)), together);
    }
    let together = moved
        .get(next)
        .map_or(u64::MAX, |(original, _)| u64::from(original - block));
    (None, together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_were_moved() {
        let moved = vec![(32, 1000), (96, 2000)];
        assert_eq!(spare(0, 32, &moved), (None, 32));
        assert_eq!(spare(31, 32, &moved), (None, 1));
        assert_eq!(spare(32, 32, &moved), (Some(1000), 32));
        assert_eq!(spare(40, 32, &moved), (Some(1008), 24));
        assert_eq!(spare(64, 32, &moved), (None, 32));
        assert_eq!(spare(127, 32, &moved), (Some(2031), 1));
        assert_eq!(spare(128, 32, &moved), (None, u64::MAX));
        assert_eq!(spare(5, 0, &moved), (None, 27), "a packet of nothing");
    }
}
