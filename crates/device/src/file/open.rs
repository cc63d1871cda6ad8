//! Opening a file or a block device, and its alignment.
//!
//! The *buffered* descriptor is opened first, and claimed for writing (see `lock.rs`). The *direct*
//! one and that of *durable* writes are opened through its `/proc/self/fd` entry, whatever is
//! renamed. The alignment of direct transfers comes from `statx` (Linux 6.1), else from a block
//! device's logical block, else from trial reads of 512 and 4096 bytes.

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

/// Unless the device of the file takes more.
const FILE_TRANSFER_BYTES: u64 = 1 << 20;
/// The ring and `preadv` count bytes in 31 bits.
const TRANSFER_BYTES_MAX: u32 = 1 << 30;
/// Above that of any storage.
const ALIGNMENT_BYTES_MAX: u32 = 1 << 20;

/// Of any page cache.
const PAGE_BYTES_MIN: u64 = 4096;

/// Of direct transfers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alignment {
    memory: u32,
    block: u32,
}

/// `None`: another program has a claim.
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
    // Before opening, which may wind a tape or start a watchdog.
    kind_of(&rustix::fs::stat(path)?)?;
    let buffered = rustix::fs::open(path, access, Mode::empty())?;
    // The path may name another file by now.
    let is_block_device = kind_of(&rustix::fs::fstat(&buffered)?)? == FileType::BlockDevice;
    let claimed = if options.writable {
        claim(buffered, access, is_block_device, name)
    } else {
        Some(buffered)
    };
    let Some(buffered) = claimed else {
        return Ok(None);
    };
    // The last claim's holder may have changed the length.
    let status = rustix::fs::fstat(&buffered)?;
    if !options.unnoticed || rustix::fs::fcntl_setfl(&buffered, OFlags::NOATIME).is_err() {
        rustix::fs::fcntl_setfl(&buffered, OFlags::empty())?;
    }
    if options.unnoticed {
        // A disk may be read ahead by megabytes.
        let _ = rustix::fs::fadvise(&buffered, 0, None, rustix::fs::Advice::Random);
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

fn kind_of(status: &Stat) -> Result<FileType, Errno> {
    match FileType::from_raw_mode(status.st_mode) {
        kind @ (FileType::RegularFile | FileType::BlockDevice) => Ok(kind),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// The start of the file system's last block if the last direct block is partial; else the end.
/// With a later length, a file that grew would lose its tail.
fn tail_start(length_bytes: u64, block_bytes: u64, status: &Stat) -> u64 {
    if length_bytes.is_multiple_of(block_bytes) {
        return length_bytes;
    }
    let reported = u64::try_from(status.st_blksize).unwrap_or(0);
    let reported = reported.clamp(PAGE_BYTES_MIN, u64::from(ALIGNMENT_BYTES_MAX));
    let unit = reported.next_power_of_two().max(block_bytes);
    length_bytes - length_bytes % unit
}

/// A block device has blocks even through the page cache.
fn buffered_alignment(file: &OwnedFd, is_block_device: bool) -> Result<Alignment, Errno> {
    let block = if is_block_device {
        rustix::fs::ioctl_blksszget(file)?
    } else {
        1
    };
    Ok(Alignment { memory: 1, block })
}

/// Without `/proc` durable writes through the page cache share the buffered descriptor: one may get
/// the error of a lost plain write, and the next flush succeeds.
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
    let alignment = match reported_alignment(&file)? {
        Some(alignment) => alignment,
        None if is_block_device => {
            let block = rustix::fs::ioctl_blksszget(&file)?;
            Alignment {
                memory: block,
                block,
            }
        }
        None => probed_alignment(&file)?,
    };
    let sane = |bytes: u32| bytes.is_power_of_two() && bytes <= ALIGNMENT_BYTES_MAX;
    if !sane(alignment.memory) || !sane(alignment.block) {
        return Err(Errno::OPNOTSUPP);
    }
    rustix::fs::fcntl_setfl(&file, OFlags::DIRECT)?;
    Ok((file, alignment))
}

/// By `statx`; `None`: kernel or file system cannot say.
fn reported_alignment(file: &OwnedFd) -> Result<Option<Alignment>, Errno> {
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

/// The smaller of 512 and 4096 bytes that a read accepts.
fn probed_alignment(file: &OwnedFd) -> Result<Alignment, Errno> {
    for block in [512, 4096] {
        // Aligned to `block` but not to twice that.
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
        Some(reported) if is_block_device => reported,
        Some(reported) => reported.max(FILE_TRANSFER_BYTES),
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
        for (length, block, reported, expected) in [
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
            status.st_blksize = reported;
            let start = tail_start(length, block, &status);
            assert_eq!(start, expected, "{length} {block} {reported}");
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
                let tried = probed_alignment(&direct).unwrap();
                assert!(alignment.block <= tried.block, "{alignment:?} {tried:?}");
            }
            Err(errno) => pagewell_skip::skip(format_args!("no direct I/O here: {errno}")),
        }
    }
}
