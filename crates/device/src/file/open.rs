//! Opening a file or a block device, and finding out what its requests have to respect.
//!
//! Two descriptors are opened, and one more for writing. The *buffered* one comes first; the
//! *direct* one, and the one of *durable* writes, are the same file opened again through
//! `/proc/self/fd`, so that a rename in between cannot make them two files. The alignment of direct
//! transfers is asked of `statx` (Linux 6.1), else a block device tells its logical block, else 512
//! and 4096 bytes are tried.
//!
//! What is opened for writing is claimed before anything else (see `lock.rs`).

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Once;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, StatxFlags};
use rustix::io::Errno;

use super::FileOptions;
use super::lock::{claim, open_again};
use super::sysfs::{BLOCK_DEVICES, Queue};
use super::transfer::Target;
use crate::warning::warn_once;
use crate::{Buffer, Geometry};

/// A transfer of a file, unless its device takes more.
const FILE_TRANSFER_BYTES: u64 = 1 << 20;
/// The ring and `preadv` count bytes in 31 bits.
const TRANSFER_BYTES_MAX: u32 = 1 << 30;
/// What no storage exceeds; larger claims are not believed.
const ALIGNMENT_BYTES_MAX: u32 = 1 << 20;

/// No page cache has smaller pages.
const PAGE_BYTES_MIN: u64 = 4096;

/// What direct transfers have to respect, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alignment {
    memory: u32,
    block: u32,
}

/// Nothing when another program has it.
pub(super) fn open(
    path: &Path,
    name: &str,
    options: &FileOptions,
) -> Result<Option<(Target, Geometry)>, Errno> {
    let access = if options.writable {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    let access = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // Looked at first: to open a pipe or a character device lets a writer go on, winds a tape or
    // starts a watchdog.
    kind_of(&rustix::fs::stat(path)?)?;
    let buffered = rustix::fs::open(path, access, Mode::empty())?;
    // What is at the path may have changed since.
    let is_block_device = kind_of(&rustix::fs::fstat(&buffered)?)? == FileType::BlockDevice;
    let claimed = if options.writable {
        claim(buffered, access, is_block_device, name)
    } else {
        Some(buffered)
    };
    let Some(buffered) = claimed else {
        return Ok(None);
    };
    // The program that had it claimed until now may have changed its length.
    let status = rustix::fs::fstat(&buffered)?;
    if !options.unnoticed || rustix::fs::fcntl_setfl(&buffered, OFlags::NOATIME).is_err() {
        rustix::fs::fcntl_setfl(&buffered, OFlags::empty())?;
    }
    let length_bytes = if is_block_device {
        rustix::fs::seek(&buffered, SeekFrom::End(0))?
    } else {
        u64::try_from(status.st_size).map_err(|_| Errno::INVAL)?
    };
    let direct = if options.direct {
        direct_or_warn(&buffered, access, is_block_device, name)
    } else {
        None
    };
    let (direct, alignment) = match direct {
        Some((file, alignment)) => (Some(file), alignment),
        None => (None, buffered_alignment(&buffered, is_block_device)?),
    };
    let durable = match options.writable {
        true => durable_or_warn(&buffered, access, name),
        false => None,
    };
    let block_bytes = u64::from(alignment.block);
    let geometry = geometry_of(&status, is_block_device, alignment, options.queue_depth);
    let target = Target {
        name: name.to_owned(),
        buffered,
        direct,
        durable,
        length_bytes,
        block_bytes,
        tail_start: tail_start(length_bytes, block_bytes, &status),
        writable: options.writable,
    };
    Ok(Some((target, geometry)))
}

/// The kind of what can be a device.
fn kind_of(status: &Stat) -> Result<FileType, Errno> {
    match FileType::from_raw_mode(status.st_mode) {
        kind @ (FileType::RegularFile | FileType::BlockDevice) => Ok(kind),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// Where the last block of the file system begins, if the last block of direct transfers is a
/// part; else the end. The length is only read here: a file that grew after `fstat` has its tail
/// where it had it.
fn tail_start(length_bytes: u64, block_bytes: u64, status: &Stat) -> u64 {
    if length_bytes.is_multiple_of(block_bytes) {
        return length_bytes;
    }
    let told = u64::try_from(status.st_blksize).unwrap_or(0);
    let told = told.clamp(PAGE_BYTES_MIN, u64::from(ALIGNMENT_BYTES_MAX));
    let unit = told.next_power_of_two().max(block_bytes);
    length_bytes - length_bytes % unit
}

/// A block device has blocks even where the page cache hides them.
fn buffered_alignment(file: &OwnedFd, is_block_device: bool) -> Result<Alignment, Errno> {
    let block = if is_block_device {
        rustix::fs::ioctl_blksszget(file)?
    } else {
        1
    };
    Ok(Alignment { memory: 1, block })
}

/// Without `/proc` there is none, and durable writes through the page cache share the buffered
/// descriptor. Then one of them may be told of a plain write that was lost, and the next flush says
/// that all is well. That is no reason not to write at all.
fn durable_or_warn(buffered: &OwnedFd, access: OFlags, name: &str) -> Option<OwnedFd> {
    match open_durable(buffered, access) {
        Ok(file) => Some(file),
        Err(errno) => {
            static ONCE: Once = Once::new();
            let text = format!("{name}: not opened again ({errno}): a flush may miss an error");
            warn_once(&ONCE, &text);
            None
        }
    }
}

fn open_durable(buffered: &OwnedFd, access: OFlags) -> Result<OwnedFd, Errno> {
    let file = open_again(buffered, access)?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

fn direct_or_warn(
    buffered: &OwnedFd,
    access: OFlags,
    is_block_device: bool,
    name: &str,
) -> Option<(OwnedFd, Alignment)> {
    match open_direct(buffered, access, is_block_device) {
        Ok(opened) => Some(opened),
        Err(errno) => {
            static ONCE: Once = Once::new();
            let text = format!("{name}: no direct I/O ({errno}): the page cache is used");
            warn_once(&ONCE, &text);
            None
        }
    }
}

fn open_direct(
    buffered: &OwnedFd,
    access: OFlags,
    is_block_device: bool,
) -> Result<(OwnedFd, Alignment), Errno> {
    let file = open_again(buffered, access | OFlags::DIRECT)?;
    let alignment = match told(&file)? {
        Some(alignment) => alignment,
        None if is_block_device => {
            let block = rustix::fs::ioctl_blksszget(&file)?;
            Alignment {
                memory: block,
                block,
            }
        }
        None => tried(&file)?,
    };
    let sane = |bytes: u32| bytes.is_power_of_two() && bytes <= ALIGNMENT_BYTES_MAX;
    if !sane(alignment.memory) || !sane(alignment.block) {
        return Err(Errno::OPNOTSUPP);
    }
    rustix::fs::fcntl_setfl(&file, OFlags::DIRECT)?;
    Ok((file, alignment))
}

/// What `statx` says; nothing from a kernel or file system that does not know.
fn told(file: &OwnedFd) -> Result<Option<Alignment>, Errno> {
    let Ok(status) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return Ok(None);
    };
    if status.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(None);
    }
    if status.stx_dio_offset_align == 0 || status.stx_dio_mem_align == 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(Some(Alignment {
        memory: status.stx_dio_mem_align,
        block: status.stx_dio_offset_align,
    }))
}

/// The smallest of 512 and 4096 bytes with which a read is taken.
fn tried(file: &OwnedFd) -> Result<Alignment, Errno> {
    for block in [512, 4096] {
        // Aligned to `block` and not to more: the second half of a larger buffer.
        let mut buffer = Buffer::new(block as usize * 2, block as usize * 2);
        let target = &mut buffer[block as usize..];
        match rustix::io::pread(file, target, 0) {
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno),
            Ok(_) => {
                return Ok(Alignment {
                    memory: block,
                    block,
                });
            }
        }
    }
    Err(Errno::INVAL)
}

fn geometry_of(
    status: &Stat,
    is_block_device: bool,
    alignment: Alignment,
    queue_depth: u32,
) -> Geometry {
    let device = if is_block_device {
        status.st_rdev
    } else {
        status.st_dev
    };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let queue = Queue::new(Path::new(BLOCK_DEVICES), major, minor);
    let smallest = alignment.block.max(alignment.memory);
    let longest = match queue.transfer_bytes_max() {
        Some(told) if is_block_device => told,
        Some(told) => told.max(FILE_TRANSFER_BYTES),
        None => FILE_TRANSFER_BYTES,
    };
    let longest = u32::try_from(longest).unwrap_or(TRANSFER_BYTES_MAX);
    let longest = longest.clamp(smallest, TRANSFER_BYTES_MAX);
    Geometry {
        logical_block_bytes: alignment.block,
        memory_alignment_bytes: alignment.memory,
        transfer_bytes_max: longest - longest % smallest,
        rotational: queue.rotational(),
        queue_depth,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_tail_is_a_whole_block_of_the_file_system() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut status = rustix::fs::fstat(file.as_file()).unwrap();
        for (length, block, told, expected) in [
            (12_288, 512, 4096, 12_288),
            (12_800, 512, 4096, 12_800),
            (12_801, 512, 4096, 12_288),
            (12_801, 512, 512, 12_288),
            (12_801, 512, 65_536, 0),
            (12_801, 4096, 1000, 12_288),
            (12_801, 1, 4096, 12_801),
            (100, 512, 4096, 0),
            (0, 512, 4096, 0),
        ] {
            status.st_blksize = told;
            let start = tail_start(length, block, &status);
            assert_eq!(start, expected, "{length} {block} {told}");
        }
    }

    /// A socket cannot be opened again, as no file can without `/proc`.
    #[test]
    fn what_cannot_be_opened_again_is_written_all_the_same() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(durable_or_warn(&socket.into(), OFlags::RDWR, "socket").is_none());
    }

    #[test]
    fn what_is_tried_works_and_is_no_less_than_what_is_told() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100]).unwrap();
        let buffered = rustix::fs::open(file.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        match open_direct(&buffered, OFlags::RDONLY, false) {
            Ok((direct, alignment)) => {
                let tried = tried(&direct).unwrap();
                assert!(alignment.block <= tried.block, "{alignment:?} {tried:?}");
            }
            Err(errno) => pagewell_skip::skip(format_args!("no direct I/O here: {errno}")),
        }
    }
}
