//! Changes on the file system, from the kernel's reports (fanotify).
//!
//! One mark on the whole file system (`FAN_MARK_FILESYSTEM`, needs `CAP_SYS_ADMIN`) reports every
//! change of data, attributes and names by the handle of the changed object (`FAN_REPORT_FID`,
//! Linux 5.1). The kernel queues the event before the changing system call returns: draining the
//! queue yields every finished change, or its overflow.
//!
//! Not reported: stores through shared mappings, access times, and block counts of delayed
//! allocation. Users must expire entries soon.

use crate::identifier;
use crate::system::{self, KernelHandle};
use libc::{FAN_EVENT_INFO_TYPE_FID, FAN_Q_OVERFLOW};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

const BUFFER_BYTES: usize = 32 << 10;
/// With more events than that a draining gives up.
const READS_MAX: usize = 16;
/// `struct fanotify_event_metadata`.
const METADATA_BYTES: usize = 24;
/// `struct fanotify_event_info_fid` before the handle: header, file system, handle's header.
const FID_BYTES: usize = 20;

pub(super) struct Watch {
    group: OwnedFd,
    /// The type of the file system, for the layout of its handles.
    magic: i64,
}

impl Watch {
    pub(super) fn new(mount: BorrowedFd<'_>, magic: i64) -> Result<Self, Errno> {
        let group = system::watch_filesystem(mount)?;
        Ok(Self { group, magic })
    }

    /// The inode numbers of changes since the last draining; `None`: too many, or unknown.
    pub(super) fn drain(&self) -> Option<Vec<u64>> {
        let mut buffer = [0; BUFFER_BYTES];
        let mut changed = Vec::new();
        for _ in 0..READS_MAX {
            match rustix::io::read(&self.group, &mut buffer) {
                Err(Errno::AGAIN) => return Some(changed),
                Err(Errno::INTR) => {}
                Ok(count) if count > 0 => parse(&buffer[..count], self.magic, &mut changed)?,
                Ok(_) | Err(_) => return None,
            }
        }
        None
    }
}

fn parse(mut events: &[u8], magic: i64, changed: &mut Vec<u64>) -> Option<()> {
    while !events.is_empty() {
        let length = usize::try_from(u32_at(events, 0)?).ok()?;
        if length < METADATA_BYTES {
            return None;
        }
        let event = events.get(..length)?;
        let mask = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
        if mask & FAN_Q_OVERFLOW != 0 {
            return None;
        }
        changed.push(inode_of(event.get(METADATA_BYTES..)?, magic)?);
        events = &events[length..];
    }
    Some(())
}

fn inode_of(info: &[u8], magic: i64) -> Option<u64> {
    if *info.first()? != FAN_EVENT_INFO_TYPE_FID {
        return None;
    }
    let length = usize::try_from(u32_at(info, 12)?).ok()?;
    let kind = u8::try_from(u32_at(info, 16)?).ok()?;
    let bytes = info.get(FID_BYTES..FID_BYTES.checked_add(length)?)?;
    identifier::inode_in(magic, &KernelHandle::new(kind, bytes)?)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::identifier::EXT4_MAGIC;
    use super::*;

    /// One event as the kernel lays it out, for a handle of these bytes.
    fn event(mask: u64, handle: &[u8]) -> Vec<u8> {
        let info = 20 + handle.len();
        let mut bytes = Vec::new();
        bytes.extend((24 + info as u32).to_ne_bytes());
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(mask.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([FAN_EVENT_INFO_TYPE_FID, 0]);
        bytes.extend((info as u16).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend((handle.len() as u32).to_ne_bytes());
        bytes.extend(1u32.to_ne_bytes());
        bytes.extend(handle);
        bytes
    }

    #[test]
    fn events_name_their_objects() {
        let two = [event(4, b"12345678"), event(2, b"abcdefgh")].concat();
        let mut changed = Vec::new();
        assert_eq!(parse(&two, EXT4_MAGIC, &mut changed), Some(()));
        let inodes = [*b"1234", *b"abcd"].map(|bytes| u64::from(u32::from_ne_bytes(bytes)));
        assert_eq!(changed, inodes);
    }

    #[test]
    fn what_cannot_be_read_means_everything() {
        let parsed = |events: &[u8]| parse(events, EXT4_MAGIC, &mut Vec::new());
        let whole = event(4, b"12345678");
        for cut in 1..whole.len() {
            assert_eq!(parsed(&whole[..cut]), None, "{cut} bytes");
        }
        assert_eq!(parsed(&event(FAN_Q_OVERFLOW, b"12345678")), None);
        let mut other = whole;
        other[24] = 9;
        assert_eq!(parsed(&other), None);
        assert_eq!(parsed(&event(4, b"1234567")), None, "no handle of the kind");
    }
}
