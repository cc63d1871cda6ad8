//! An object as clients see it: attributes, and where its data is.

use pagewell_fs::{Attributes, Error, FileType, Result};

use super::allocation;
use super::entry::{
    Entry, TYPE_BLOCK_DEVICE, TYPE_CHARACTER_DEVICE, TYPE_DIRECTORY, TYPE_FIFO, TYPE_SOCKET,
    TYPE_SYMLINK,
};
use super::extent::Data;
use super::icb::Icb;
use super::link;
use super::space::Space;

/// Flags of an ICB (ECMA-167 4/14.6.8), and the bits of a mode that they are.
const FLAG_MODES: [(u16, u32); 3] = [(1 << 6, 0o4000), (1 << 7, 0o2000), (1 << 8, 0o1000)];
/// No owner or group is recorded (UDF 2.3.6.1).
const NO_ID: u32 = u32::MAX;

/// The largest file of Linux; an entry may claim more.
const FILE_BYTES_MAX: u64 = i64::MAX.cast_unsigned();

/// What an object has that no call of a file system shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Bytes of extended attributes in its entry.
    pub attribute_bytes: u32,
    /// It has named streams.
    pub has_streams: bool,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub attributes: Attributes,
    /// As far as it is known; [`Attributes::size`] is what it should be.
    pub data: Data,
    pub defect: Option<&'static str>,
    /// Target of a symbolic link; `None` also for a damaged one.
    pub target: Option<Vec<u8>>,
    pub skipped: Skipped,
}

impl Node {
    /// The object whose entry was read, with its inode number and the number of its file system.
    pub(crate) fn read(
        space: &Space,
        icb: &Icb,
        (file_id, filesystem_id): (u64, u64),
        may_block: bool,
    ) -> Result<Self> {
        let entry = icb
            .entry()
            .ok_or_else(|| space.fault(icb.place, "damaged file entry"))?;
        let allocated = allocation::data(space, icb, &entry, may_block)?;
        let mut node = Self {
            attributes: attributes(space, &entry, file_id, filesystem_id),
            data: allocated.data,
            defect: allocated.defect,
            target: None,
            skipped: Skipped {
                attribute_bytes: entry.attributes.len() as u32,
                has_streams: entry.has_streams,
            },
        };
        if node.attributes.file_type == FileType::Symlink {
            node.target = target(space, &node.data, may_block)?;
            if node.target.is_none() {
                let what = "the path components of a symbolic link are damaged";
                space.image().note(icb.position, "ECMA-167 4/14.16", what);
            }
            node.attributes.size = node.target.as_ref().map_or(0, |target| target.len() as u64);
        }
        Ok(node)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.data.memory_bytes() + self.target.as_ref().map_or(0, Vec::len) + 64
    }
}

fn target(space: &Space, data: &Data, may_block: bool) -> Result<Option<Vec<u8>>> {
    if data.size > link::COMPONENTS_BYTES_MAX {
        return Ok(None);
    }
    let mut components = vec![0; data.size as usize];
    match space.read(data, 0, &mut components, may_block) {
        Ok(()) => Ok(link::target(&components)),
        // Reading the link gives an error, its attributes do not.
        Err(Error::Io(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Attributes from an entry, with set-id bits and device numbers: the mount decides about those
/// (`nosuid`, `nodev`).
fn attributes(space: &Space, entry: &Entry<'_>, file_id: u64, filesystem_id: u64) -> Attributes {
    let file_type = file_type(entry.file_type);
    let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
    let has_data = matches!(file_type, FileType::Regular | FileType::Directory);
    let [accessed, modified, changed] = entry.dates();
    let modified = modified.unwrap_or_default();
    // The link of a directory in its parent is not counted (ECMA-167 4/14.9.6).
    let own_link = u32::from(file_type.is_directory());
    let id = |id: u32| if id == NO_ID { 0 } else { id };
    Attributes {
        file_type,
        mode: mode(entry.permissions, entry.flags),
        link_count: (u32::from(entry.link_count) + own_link).max(1),
        uid: id(entry.uid),
        gid: id(entry.gid),
        size: if has_data {
            entry.size.min(FILE_BYTES_MAX)
        } else {
            0
        },
        used: entry.blocks_recorded.saturating_mul(space.block_bytes()),
        device: match entry.device() {
            Some(numbers) if is_device => numbers,
            _ => (0, 0),
        },
        filesystem_id,
        file_id,
        accessed: accessed.unwrap_or(modified),
        modified,
        changed: changed.unwrap_or(modified),
        may_be_kept: true,
    }
}

/// Kinds that POSIX does not have, such as real-time data, are regular.
fn file_type(recorded: u8) -> FileType {
    match recorded {
        TYPE_DIRECTORY => FileType::Directory,
        TYPE_BLOCK_DEVICE => FileType::BlockDevice,
        TYPE_CHARACTER_DEVICE => FileType::CharacterDevice,
        TYPE_FIFO => FileType::Fifo,
        TYPE_SOCKET => FileType::Socket,
        TYPE_SYMLINK => FileType::Symlink,
        _ => FileType::Regular,
    }
}

/// Five bits for each class, of which the lower three are execute, write and read (ECMA-167
/// 4/14.9.5), others first; and the flags of the ICB.
fn mode(permissions: u32, flags: u16) -> u32 {
    let classes = permissions & 7 | permissions >> 2 & 0o70 | permissions >> 4 & 0o700;
    let special = FLAG_MODES.iter().filter(|(flag, _)| flags & flag != 0);
    special.fold(classes, |mode, (_, bit)| mode | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_flags_make_a_mode() {
        assert_eq!(mode(0b00111_00101_00100, 0), 0o754);
        assert_eq!(mode(0b11111_11111_11111, 0), 0o777);
        assert_eq!(mode(0b11000_11000_11000, 0), 0, "delete and attributes");
        assert_eq!(mode(0, 0b1_1100_0111), 0o7000);
    }

    #[test]
    fn types() {
        assert_eq!(file_type(4), FileType::Directory);
        assert_eq!(file_type(12), FileType::Symlink);
        for kind in [0, 1, 5, 13, 249, 250, 255] {
            assert_eq!(file_type(kind), FileType::Regular);
        }
    }
}
