//! The volume descriptor sequence (ECMA-167 3/8.4.2): which descriptors of a volume prevail.
//!
//! A sequence is blocks with a descriptor each, in extents that pointers join. It ends with a
//! terminating descriptor, an unrecorded block or its extent. Of several descriptors of one kind
//! the one with the highest number prevails. There are two copies, main and reserve, which serves
//! for what the main one lacks.
//!
//! Bounds: a volume needs 16 blocks; [`BLOCKS_MAX`] in all extents together ends pointers in a
//! circle.

use std::collections::BTreeMap;

use pagewell_fs::{Error, Result};
use pagewell_source_bytes::Window;

use super::fields::{Fields, VolumeExtent};
use super::image::Image;
use super::logical_volume::{LogicalVolume, Map, MapKind};
use super::tag::{
    LOGICAL_VOLUME, PARTITION, PRIMARY_VOLUME, TERMINATING, TagFault, VOLUME_POINTER,
};

const BLOCKS_MAX: u32 = 4096;
const PARTITIONS_MAX: usize = 64;
const STEP_BYTES: usize = 32 << 10;
const DESCRIPTOR_BYTES_MIN: usize = 512;
const CLAUSE: &str = "ECMA-167 3/8.4.2";

#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub bytes: Vec<u8>,
}

impl Recorded {
    /// Volume descriptor sequence number, at one place in all kinds (ECMA-167 3/8.4.3).
    fn number(&self) -> u32 {
        Fields::new(&self.bytes).u32(16)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Prevailing {
    primary: Option<Recorded>,
    logical: Option<Recorded>,
    partitions: BTreeMap<u16, Recorded>,
}

impl Prevailing {
    pub(crate) fn read(
        &mut self,
        image: &Image,
        first: VolumeExtent,
        block_bytes: u32,
    ) -> Result<()> {
        let mut window = Window::new(image.bytes(), true, STEP_BYTES);
        let mut next = Some(first);
        let mut left = BLOCKS_MAX;
        while let Some(extent) = next.take() {
            let blocks = extent.length_bytes.div_ceil(block_bytes);
            for index in 0..blocks {
                let Some(block) = extent.block.checked_add(index) else {
                    return Ok(());
                };
                let position = u64::from(block) * u64::from(block_bytes);
                left = match left.checked_sub(1) {
                    Some(left) => left,
                    None => {
                        image.note(position, CLAUSE, "the sequence does not end");
                        return Ok(());
                    }
                };
                let bytes = match window.get(position, block_bytes as usize) {
                    Ok(bytes) => bytes,
                    Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                    Err(error) => {
                        image.note(position, CLAUSE, &error);
                        continue;
                    }
                };
                match image.descriptor(bytes, position, block) {
                    Err(TagFault::Unrecorded) => return Ok(()),
                    Err(_) => {}
                    Ok(tag) if tag.identifier == TERMINATING => return Ok(()),
                    Ok(tag) if tag.identifier == VOLUME_POINTER => {
                        next = Some(Fields::new(bytes).volume_extent(20));
                        break;
                    }
                    Ok(tag) => self.take(tag.identifier, bytes),
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, kind: u16, bytes: &[u8]) {
        if bytes.len() < DESCRIPTOR_BYTES_MIN {
            return;
        }
        let recorded = Recorded {
            bytes: bytes.to_vec(),
        };
        let slot = match kind {
            PRIMARY_VOLUME => &mut self.primary,
            LOGICAL_VOLUME => &mut self.logical,
            PARTITION => {
                let number = Fields::new(bytes).u16(22);
                let is_full = self.partitions.len() >= PARTITIONS_MAX;
                match self.partitions.get(&number) {
                    Some(held) if held.number() >= recorded.number() => {}
                    None if is_full => {}
                    _ => drop(self.partitions.insert(number, recorded)),
                }
                return;
            }
            _ => return,
        };
        let is_newer = |held: &Recorded| held.number() < recorded.number();
        if slot.as_ref().is_none_or(is_newer) {
            *slot = Some(recorded);
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        let Some(logical) = &self.logical else {
            return false;
        };
        let maps = LogicalVolume::parse(&logical.bytes).maps;
        let is_there = |map: &Map| {
            let needs_none = map.kind == MapKind::Unknown;
            needs_none || self.partitions.contains_key(&map.number)
        };
        maps.iter().all(is_there)
    }

    /// Takes what it lacks from another copy; true if anything was taken.
    pub(crate) fn complete(&mut self, other: Self) -> bool {
        let before = (self.primary.is_some(), self.logical.is_some());
        let count = self.partitions.len();
        self.primary = self.primary.take().or(other.primary);
        self.logical = self.logical.take().or(other.logical);
        for (number, recorded) in other.partitions {
            self.partitions.entry(number).or_insert(recorded);
        }
        let after = (self.primary.is_some(), self.logical.is_some());
        before != after || self.partitions.len() != count
    }

    pub(crate) fn primary(&self) -> Option<&Recorded> {
        self.primary.as_ref()
    }

    pub(crate) fn logical(&self) -> Option<&Recorded> {
        self.logical.as_ref()
    }

    /// First block and number of blocks (ECMA-167 3/10.5).
    pub(crate) fn partition(&self, number: u16) -> Option<(u32, u32)> {
        let fields = Fields::new(&self.partitions.get(&number)?.bytes);
        Some((fields.u32(188), fields.u32(192)))
    }
}
