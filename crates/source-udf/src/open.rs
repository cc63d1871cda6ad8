//! Opening an image: from its anchors to the root of its tree.

use std::hash::Hasher;
use std::sync::Arc;

use pagewell_fs::source::OpenError;
use pagewell_fs::{Error, Result};
use pagewell_source_bytes::{Bytes, Readable, Violations};
use siphasher::sip::SipHasher24;

use super::anchor::{self, Anchors, NotUdf};
use super::description::{Description, PartitionKind};
use super::fields::Fields;
use super::file_set::FileSet;
use super::image::Image;
use super::logical_volume::{LogicalVolume, Map, MapKind};
use super::sequence::Prevailing;
use super::space::{Partition, Space};
use super::time::{TIME_BYTES, timestamp};
use super::tree::Tree;
use super::{metadata, sparing, virtual_table};

/// The recording time in a primary volume descriptor (ECMA-167 3/10.1.14).
const PRIMARY_TIME: usize = 376;

pub(crate) fn open(
    bytes: &Bytes,
    violations: Option<Arc<Violations>>,
) -> Result<(Tree, Description), OpenError> {
    let image = Image::new(bytes.clone(), violations);
    open_image(image).map_err(|error| {
        let text = error.to_string();
        OpenError::new(bytes.name(), error.trouble().unwrap_or(&text))
    })
}

fn open_image(image: Image) -> Result<(Tree, Description)> {
    let refuse = |reason: &str| Error::Io(format!("not a UDF image: {reason}"));
    let no_anchor = || refuse(&NotUdf::NoAnchor.to_string());
    // One anchor and one sequence are enough, unless the image is checked.
    let mut anchors = find_anchors(&image, image.is_checked())?.ok_or_else(no_anchor)?;
    let mut prevailing = prevailing(&image, &anchors)?;
    if !prevailing.is_usable() && !image.is_checked() {
        anchors = find_anchors(&image, true)?.ok_or_else(no_anchor)?;
        prevailing = self::prevailing(&image, &anchors)?;
    }
    let recorded = prevailing
        .logical()
        .ok_or_else(|| refuse("no logical volume descriptor"))?;
    let volume = LogicalVolume::parse(&recorded.bytes);
    if volume.block_bytes != anchors.block_bytes {
        let (blocks, sectors) = (volume.block_bytes, anchors.block_bytes);
        let what = format!("logical blocks of {blocks} bytes on sectors of {sectors}");
        return Err(refuse(&what));
    }
    check_anchors(&image, &anchors, &volume);
    let created = prevailing
        .primary()
        .and_then(|primary| timestamp(Fields::new(&primary.bytes).bytes(PRIMARY_TIME, TIME_BYTES)));
    let identity = identity(&image, &prevailing);
    let missing_bytes = missing_bytes(&image, &volume, &prevailing);
    let space = partitions(image, &volume, &prevailing)?;
    let file_set = FileSet::find(&space, volume.file_sets)?;
    let tree = Tree::new(space, volume.maps.len(), file_set.root, identity);
    let root = tree.examine(file_set.root, &mut tree.entries(true), true)?;
    if !root.attributes.file_type.is_directory() {
        return Err(refuse("its root is no directory"));
    }
    let description = Description {
        label: volume.label,
        revision: volume.revision,
        block_bytes: volume.block_bytes,
        partitions: volume.maps.iter().map(kind).collect(),
        created: created.or(file_set.recorded),
        missing_bytes,
    };
    Ok((tree, description))
}

fn find_anchors(image: &Image, all: bool) -> Result<Option<Anchors>> {
    let readable = Readable {
        length_bytes: image.length_bytes(),
        // An unreadable anchor counts as absent: there are others.
        read: &|position, target: &mut [u8]| match image.read(position, target, true) {
            Err(Error::Io(text)) => {
                image.note(position, "ECMA-167 3/8.4.2.1", text);
                target.fill(0);
                Ok(())
            }
            other => other,
        },
    };
    if image.is_checked() && !anchor::is_named(&readable)? {
        image.note(32_768, "ECMA-167 2/8.3", NotUdf::NotNamed);
    }
    anchor::find(&readable, all)
}

/// Two of three anchors are enough, and one where more can be written (UDF 6.10.2.3).
fn check_anchors(image: &Image, anchors: &Anchors, volume: &LogicalVolume) {
    let is_open = |map: &Map| map.kind == MapKind::Virtual;
    if let [_, .., last] = anchors.missing.as_slice()
        && !volume.maps.iter().any(is_open)
    {
        let what = "fewer than two anchors are readable";
        image.note(*last, "ECMA-167 3/8.4.2.1", what);
    }
}

/// The descriptors that prevail, from the first anchor whose sequences have a file system.
fn prevailing(image: &Image, anchors: &Anchors) -> Result<Prevailing> {
    let mut prevailing = Prevailing::default();
    for [main, reserve] in &anchors.sequences {
        let mut found = Prevailing::default();
        found.read(image, *main, anchors.block_bytes)?;
        if found.is_usable() && !image.is_checked() {
            return Ok(found);
        }
        let is_usable = found.is_usable();
        let mut copy = Prevailing::default();
        copy.read(image, *reserve, anchors.block_bytes)?;
        if found.complete(copy) {
            let position = u64::from(main.block) * u64::from(anchors.block_bytes);
            let what = "the main volume descriptor sequence lacks what the reserve one has";
            image.note(position, "ECMA-167 3/8.4.2.2", what);
        }
        prevailing.complete(found);
        if is_usable || prevailing.is_usable() {
            break;
        }
    }
    Ok(prevailing)
}

/// Bytes of the partitions behind the end of the image. A write-once disc may have its whole size
/// as its partition's, and is written up to its table.
fn missing_bytes(image: &Image, volume: &LogicalVolume, prevailing: &Prevailing) -> u64 {
    if volume.maps.iter().any(|map| map.kind == MapKind::Virtual) {
        return 0;
    }
    let ends = volume.maps.iter().map(|map| {
        let (start, blocks) = prevailing.partition(map.number).unwrap_or_default();
        (u64::from(start) + u64::from(blocks)) * u64::from(volume.block_bytes)
    });
    let end = ends.max().unwrap_or_default();
    end.saturating_sub(image.length_bytes())
}

/// Changes with the image's length and its volume descriptors.
fn identity(image: &Image, prevailing: &Prevailing) -> u64 {
    let mut hasher = SipHasher24::new();
    for recorded in [prevailing.primary(), prevailing.logical()] {
        hasher.write(recorded.map_or(&[], |recorded| &recorded.bytes));
    }
    hasher.write_u64(image.length_bytes().to_le());
    hasher.finish()
}

fn kind(map: &Map) -> PartitionKind {
    match map.kind {
        MapKind::Physical => PartitionKind::Physical,
        MapKind::Virtual => PartitionKind::Virtual,
        MapKind::Sparable { .. } => PartitionKind::Sparable,
        MapKind::Metadata { .. } => PartitionKind::Metadata,
        MapKind::Unknown => PartitionKind::Unknown,
    }
}

/// All partitions: first those that lie in the image, then those that lie in them.
fn partitions(image: Image, volume: &LogicalVolume, prevailing: &Prevailing) -> Result<Space> {
    let mut partitions = Vec::with_capacity(volume.maps.len());
    for map in &volume.maps {
        partitions.push(base_partition(&image, volume, map, prevailing)?);
    }
    let mut space = Space::new(image, volume.block_bytes, partitions);
    for (index, map) in (0u16..).zip(&volume.maps) {
        let is_base = |other: &&Map| {
            let kind = &other.kind;
            let is_base = matches!(kind, MapKind::Physical | MapKind::Sparable { .. });
            is_base && other.number == map.number
        };
        let base = (0u16..).zip(&volume.maps).find(|(_, other)| is_base(other));
        let Some((base, _)) = base else {
            continue;
        };
        match map.kind {
            MapKind::Virtual => {
                let start = prevailing
                    .partition(map.number)
                    .map_or(0, |(start, _)| start);
                let found = virtual_table::find(&space, base, start)?;
                let missing = Partition::Missing("no virtual allocation table was found");
                space.set_partition(index, found.unwrap_or(missing));
            }
            MapKind::Metadata { main, mirror } => {
                metadata::open(&mut space, index, base, (main, mirror))?;
            }
            MapKind::Physical | MapKind::Sparable { .. } | MapKind::Unknown => {}
        }
    }
    Ok(space)
}

fn base_partition(
    image: &Image,
    volume: &LogicalVolume,
    map: &Map,
    prevailing: &Prevailing,
) -> Result<Partition> {
    let Some((start, blocks)) = prevailing.partition(map.number) else {
        return Ok(Partition::Missing("its partition descriptor is missing"));
    };
    Ok(match &map.kind {
        MapKind::Physical => Partition::Plain { start, blocks },
        MapKind::Sparable {
            packet_blocks,
            table_bytes,
            tables,
        } => Partition::Sparable {
            start,
            blocks,
            packet_blocks: *packet_blocks,
            moved: sparing::read(image, volume.block_bytes, *table_bytes, tables)?,
        },
        MapKind::Virtual | MapKind::Metadata { .. } => {
            Partition::Missing("the partition that it lies in is missing")
        }
        MapKind::Unknown => Partition::Missing("of an unknown kind"),
    })
}
