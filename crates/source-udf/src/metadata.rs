//! The metadata partition (UDF 2.2.10, 2.2.13): entries and directories of a file system in a file
//! of another partition, and again in its mirror, a true copy or an entry for the same blocks. The
//! mirror serves when the first entry is damaged, and for single damaged blocks.

use pagewell_fs::{Error, Result};
use pagewell_source_bytes::Window;

use super::allocation;
use super::entry::{TYPE_METADATA, TYPE_METADATA_MIRROR};
use super::extent::Data;
use super::fields::Place;
use super::icb::Icb;
use super::space::{Partition, Space};

const CLAUSE: &str = "UDF 2.2.13";

/// Opens the metadata partition `index` over `base`, whose files have their entries in its blocks
/// `main` and `mirror`.
pub(crate) fn open(
    space: &mut Space,
    index: u16,
    base: u16,
    (main, mirror): (u32, u32),
) -> Result<()> {
    let place = |block| Place {
        partition: base,
        block,
    };
    let first = file(space, place(main), TYPE_METADATA)?;
    let second = file(space, place(mirror), TYPE_METADATA_MIRROR)?;
    let position = space.locate(place(main), true).map(|span| span.position);
    let position = position.unwrap_or_default();
    let image = space.image();
    match (first, second) {
        (Some(first), Some(second)) => {
            let is_copy = first.body != second.body;
            space.set_partition(index, Partition::Metadata { file: first });
            if is_copy {
                space.add_mirror(index, Partition::Metadata { file: second });
            }
        }
        (Some(first), None) => {
            image.note(
                position,
                CLAUSE,
                "the mirror of the metadata file is damaged",
            );
            space.set_partition(index, Partition::Metadata { file: first });
        }
        (None, Some(second)) => {
            let what = "the metadata file is damaged; its mirror is used";
            image.note(position, CLAUSE, what);
            space.set_partition(index, Partition::Metadata { file: second });
        }
        (None, None) => {
            let what = "neither the metadata file nor its mirror can be read";
            image.note(position, CLAUSE, what);
            space.set_partition(index, Partition::Missing(what));
        }
    }
    Ok(())
}

fn file(space: &Space, place: Place, file_type: u8) -> Result<Option<Data>> {
    let mut window = Window::new(space.image().bytes(), true, 0);
    let icb = match Icb::read(space, &mut window, place, true) {
        Ok(Some(icb)) => icb,
        Ok(None) | Err(Error::Io(_)) => return Ok(None),
        Err(other) => return Err(other),
    };
    let Some(entry) = icb.entry().filter(|entry| entry.file_type == file_type) else {
        return Ok(None);
    };
    let data = allocation::data(space, &icb, &entry, true)?.data;
    let partitions = space.partitions();
    let is_base = |partition: u16| {
        let partition = partitions.get(usize::from(partition));
        partition.is_some_and(Partition::is_base)
    };
    Ok(data.is_in(is_base).then_some(data))
}
