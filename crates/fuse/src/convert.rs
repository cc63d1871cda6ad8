//! Attributes and flags between the trait of file systems, the crate `fuser` and Linux.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo, RenameFlags, TimeOrNow};
use pagewell_fs::{Attributes, FileType, NodeKind, RenameMode, Seek, SetTime, Space, Timestamp};

const BLOCK_BYTES: u64 = 512;
/// `st_blksize`: what programs read and write at once.
const PREFERRED_BYTES: u32 = 4096;

/// Owner and permissions that are shown instead of the source's. Then the kernel alone judges
/// access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appearance {
    /// The owner of everything.
    pub uid: Option<u32>,
    /// The group of everything.
    pub gid: Option<u32>,
    /// Permissions that nothing has; everything has all others.
    pub umask: Option<u32>,
}

impl Appearance {
    /// The attributes of the object that the kernel knows as `node`.
    pub(crate) fn shown(&self, attributes: &Attributes, node: u64) -> FileAttr {
        let (major, minor) = attributes.device;
        let mode = match self.umask {
            Some(umask) => 0o777 & !umask,
            None => attributes.mode & 0o7777,
        };
        FileAttr {
            size: attributes.size,
            blocks: attributes.used.div_ceil(BLOCK_BYTES),
            atime: time(attributes.accessed),
            mtime: time(attributes.modified),
            ctime: time(attributes.changed),
            kind: kind(attributes.file_type),
            perm: u16::try_from(mode).unwrap_or(0),
            nlink: attributes.link_count,
            uid: self.uid.unwrap_or(attributes.uid),
            gid: self.gid.unwrap_or(attributes.gid),
            rdev: device_number(major, minor),
            ..unknown(node)
        }
    }
}

pub(crate) fn unknown(number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: PREFERRED_BYTES,
        flags: 0,
    }
}

pub(crate) fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Socket => fuser::FileType::Socket,
        FileType::Fifo => fuser::FileType::NamedPipe,
    }
}

/// 12 bits of major number, 20 of minor.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
}

fn device_parts(number: u32) -> (u32, u32) {
    let minor = (number & 0xff) | (number >> 12 & 0xfff00);
    (number >> 8 & 0xfff, minor)
}

/// What mknod(2) makes; none for a regular file.
pub(crate) fn node_kind(mode: u32, device: u32) -> Option<NodeKind> {
    let (major, minor) = device_parts(device);
    match mode & libc::S_IFMT {
        libc::S_IFCHR => Some(NodeKind::CharacterDevice(major, minor)),
        libc::S_IFBLK => Some(NodeKind::BlockDevice(major, minor)),
        libc::S_IFIFO => Some(NodeKind::Fifo),
        libc::S_IFSOCK => Some(NodeKind::Socket),
        _ => None,
    }
}

pub(crate) fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    match flags {
        _ if flags.is_empty() => Some(RenameMode::Replace),
        RenameFlags::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}

pub(crate) fn space_of(mode: i32) -> Option<Space> {
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    const ZERO_ONLY: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    match mode {
        0 => Some(Space::Reserve),
        libc::FALLOC_FL_KEEP_SIZE => Some(Space::ReserveOnly),
        PUNCH => Some(Space::Punch),
        libc::FALLOC_FL_ZERO_RANGE => Some(Space::Zero),
        ZERO_ONLY => Some(Space::ZeroOnly),
        _ => None,
    }
}

pub(crate) fn seek_of(whence: i32) -> Option<Seek> {
    match whence {
        libc::SEEK_DATA => Some(Seek::Data),
        libc::SEEK_HOLE => Some(Seek::Hole),
        _ => None,
    }
}

fn time(time: Timestamp) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    whole
        .and_then(|whole| whole.checked_add(nanoseconds))
        .unwrap_or(UNIX_EPOCH)
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::ToServerTime,
        TimeOrNow::SpecificTime(time) => SetTime::To(timestamp(time)),
    }
}

/// Before 1970 the crate `fuser` subtracts the nanoseconds, which the kernel adds: this undoes it.
fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: after.subsec_nanos(),
        },
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            Timestamp {
                seconds,
                nanoseconds: before.subsec_nanos(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let sent =
            |seconds: u64, nanoseconds| timestamp(UNIX_EPOCH - Duration::new(seconds, nanoseconds));
        let expected = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        // As `fuser` gives the kernel's (-2 s, 800 ms), which is 1.2 s before 1970.
        assert_eq!(sent(2, 800_000_000), expected(-2, 800_000_000));
        assert_eq!(sent(5, 0), expected(-5, 0));
        let before = time(expected(-2, 800_000_000));
        let distance = UNIX_EPOCH.duration_since(before).unwrap();
        assert_eq!(distance, Duration::from_millis(1200));
    }

    #[test]
    fn times_out_of_range_have_some_value() {
        for seconds in [i64::MIN, i64::MAX, 0] {
            let nanoseconds = 999_999_999;
            let _ = time(Timestamp {
                seconds,
                nanoseconds,
            });
        }
    }

    #[test]
    fn device_numbers_survive() {
        for parts in [(0, 0), (1, 3), (0xfff, 0xfffff), (8, 0x12345)] {
            assert_eq!(device_parts(device_number(parts.0, parts.1)), parts);
        }
    }
}
