//! What has changed on the file system, as the kernel tells it (fanotify).
//!
//! Problem: attributes that were read once are true until something changes them, and that may be
//! any program on the host, by any name of the object.
//!
//! Rule: one mark on the whole file system (`FAN_MARK_FILESYSTEM`, needs `CAP_SYS_ADMIN`) reports
//! every change of data, attributes and names by the file handle of the changed object
//! (`FAN_REPORT_FID`, Linux 5.1): not by name, so hard links and opening by handle are covered.
//! The kernel queues the event before the system call that made the change returns. A thread
//! that reads the queue empty has therefore heard of every change that was finished before. Equal
//! events are merged in the queue, and a queue that overflows says so.
//!
//! What is not reported: stores through shared mappings, access times, and the number of blocks
//! when delayed allocation gives them out. Users of this must let what they keep grow old soon.

use super::handle;
use super::system::{self, KernelHandle};
use pagewell_fs::FileId;
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Bytes read from the queue at once: some six hundred events.
const BUFFER_BYTES: usize = 32 << 10;
/// Reads of one draining; more events than that come faster than they can be followed.
const READS_MAX: usize = 16;
/// `struct fanotify_event_metadata`.
const METADATA_BYTES: usize = 24;
/// `struct fanotify_event_info_fid` before the handle: header, file system, handle's own header.
const FID_BYTES: usize = 20;
/// `FAN_Q_OVERFLOW`.
const OVERFLOW: u64 = 0x4000;
/// `FAN_EVENT_INFO_TYPE_FID`.
const INFO_FID: u8 = 1;

/// What a draining of the queue has shown.
pub(super) enum News {
    /// These objects have changed.
    Changed(Vec<FileId>),
    /// Too much has changed, or it cannot be told what.
    Everything,
}

/// A mark on a file system.
pub(super) struct Watch {
    group: OwnedFd,
}

impl Watch {
    /// Watches the file system that `mount` is on.
    pub(super) fn new(mount: BorrowedFd<'_>) -> Result<Self, Errno> {
        let group = system::watch_filesystem(mount)?;
        Ok(Self { group })
    }

    /// Everything since the last time.
    pub(super) fn drain(&self) -> News {
        let mut buffer = [0; BUFFER_BYTES];
        let mut changed = Vec::new();
        for _ in 0..READS_MAX {
            match rustix::io::read(&self.group, &mut buffer) {
                Err(Errno::AGAIN) => return News::Changed(changed),
                Err(Errno::INTR) => {}
                Ok(count) if count > 0 => {
                    if parse(&buffer[..count], &mut changed).is_none() {
                        return News::Everything;
                    }
                }
                Ok(_) | Err(_) => return News::Everything,
            }
        }
        News::Everything
    }
}

/// Appends the objects of all events; `None` when an event does not name one.
fn parse(mut events: &[u8], changed: &mut Vec<FileId>) -> Option<()> {
    while !events.is_empty() {
        let length = usize::try_from(u32_at(events, 0)?).ok()?;
        if length < METADATA_BYTES {
            return None;
        }
        let event = events.get(..length)?;
        let mask = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
        if mask & OVERFLOW != 0 {
            return None;
        }
        changed.push(object_of(event.get(METADATA_BYTES..)?)?);
        events = &events[length..];
    }
    Some(())
}

fn object_of(info: &[u8]) -> Option<FileId> {
    if *info.first()? != INFO_FID {
        return None;
    }
    let length = usize::try_from(u32_at(info, 12)?).ok()?;
    let kind = u8::try_from(u32_at(info, 16)?).ok()?;
    let bytes = info.get(FID_BYTES..FID_BYTES.checked_add(length)?)?;
    handle::id_of(&KernelHandle::new(kind, bytes)?)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event as the kernel lays it out, for a handle of these bytes.
    fn event(mask: u64, handle: &[u8]) -> Vec<u8> {
        let info = 20 + handle.len();
        let mut bytes = Vec::new();
        bytes.extend((24 + info as u32).to_ne_bytes());
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(mask.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([INFO_FID, 0]);
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
        assert_eq!(parse(&two, &mut changed), Some(()));
        assert_eq!(changed[1].as_bytes(), b"\x01\x01abcdefgh");
        assert_eq!(changed.len(), 2);
    }

    #[test]
    fn what_cannot_be_read_means_everything() {
        let whole = event(4, b"12345678");
        for cut in 1..whole.len() {
            assert_eq!(parse(&whole[..cut], &mut Vec::new()), None, "{cut} bytes");
        }
        assert_eq!(parse(&event(OVERFLOW, b"12345678"), &mut Vec::new()), None);
        let mut other = whole;
        other[24] = 9;
        assert_eq!(parse(&other, &mut Vec::new()), None);
    }
}
