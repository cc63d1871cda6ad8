//! Attributes of an object, and changes of them (RFC 1813 section 2.5, `fattr3`, `sattr3`).

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Error, Result};

/// A time; may be before 1970, or exceed 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The system's clock.
    #[must_use]
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // 0..1e9 by contract
        Self {
            seconds: now.tv_sec,
            nanoseconds: now.tv_nsec as u32,
        }
    }

    /// The next later time.
    #[must_use]
    pub fn next(self) -> Self {
        if self.nanoseconds < 999_999_999 {
            return Self {
                nanoseconds: self.nanoseconds + 1,
                ..self
            };
        }
        Self {
            seconds: self.seconds.saturating_add(1),
            nanoseconds: 0,
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let (since, is_before) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after, false),
            Err(before) => (before.duration(), true),
        };
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        match (is_before, since.subsec_nanos()) {
            (false, nanoseconds) => Self {
                seconds,
                nanoseconds,
            },
            (true, 0) => Self {
                seconds: -seconds,
                nanoseconds: 0,
            },
            // Nanoseconds count forwards before 1970, too.
            (true, nanoseconds) => Self {
                seconds: -seconds - 1,
                nanoseconds: 1_000_000_000 - nanoseconds,
            },
        }
    }
}

/// The type of an object (RFC 1813 `ftype3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Block special device.
    BlockDevice,
    /// Character special device.
    CharacterDevice,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
}

impl FileType {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        self == Self::Directory
    }

    /// Refuses what has no data to read or write.
    pub fn expect_regular(self) -> Result<()> {
        match self {
            Self::Regular => Ok(()),
            Self::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }
}

/// The attributes of an object (RFC 1813 `fattr3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Type.
    pub file_type: FileType,
    /// Permission bits, set-user-id, set-group-id and sticky: the low 12 bits.
    pub mode: u32,
    /// Hard links.
    pub link_count: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of storage used.
    pub used: u64,
    /// Major and minor number of a device; else 0.
    pub device: (u32, u32),
    /// The file system: in a directory of this machine its device, elsewhere equal for all objects
    /// of a source.
    pub filesystem_id: u64,
    /// The object within its file system (inode number).
    pub file_id: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes. Moves with each change, even within a tick of the clock,
    /// and so is the change attribute (RFC 8881 section 5.8.1.4). In a directory of this machine
    /// before Linux 6.13, changes within a tick, at most 10 ms, may have one time.
    pub changed: Timestamp,
    /// Whether a front may keep them as long as [`crate::Coherence`] says: not without a known
    /// change, such as data not at the server yet.
    pub may_be_kept: bool,
}

impl Attributes {
    /// The part for weak cache consistency.
    #[must_use]
    pub fn wcc(&self) -> WccAttributes {
        WccAttributes {
            size: self.size,
            modified: self.modified,
            changed: self.changed,
        }
    }
}

/// By these a client sees whether it alone changed an object (RFC 1813 `wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WccAttributes {
    /// Length in bytes.
    pub size: u64,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes.
    pub changed: Timestamp,
}

/// An object before and after a change (RFC 1813 `wcc_data`).
///
/// `before` is never a guess: nothing else changed the object through Pagewell in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Read atomically with the change.
    pub before: Option<WccAttributes>,
    /// Absent when not readable.
    pub after: Option<Attributes>,
}

/// How to set a time (RFC 1813 `time_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's clock; needs only write permission.
    ToServerTime,
    /// This value; needs ownership.
    To(Timestamp),
}

/// Attributes to set; `None`: no change (RFC 1813 `sattr3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits, the low 12.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes; extends with a hole.
    pub size: Option<u64>,
    /// Access time.
    pub accessed: Option<SetTime>,
    /// Modification time.
    pub modified: Option<SetTime>,
}

impl SetAttributes {
    /// Whether all nanoseconds are less than a second.
    #[must_use]
    pub fn has_valid_times(&self) -> bool {
        self.accessed
            .iter()
            .chain(&self.modified)
            .all(|how| match how {
                SetTime::To(time) => time.nanoseconds < 1_000_000_000,
                SetTime::ToServerTime => true,
            })
    }
}

/// Kinds of access, with the bits of RFC 1813 section 3.3.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Read data, or list a directory.
    pub const READ: Self = Self(0x01);
    /// Look a name up in a directory.
    pub const LOOKUP: Self = Self(0x02);
    /// Change existing data or directory entries.
    pub const MODIFY: Self = Self(0x04);
    /// Add data or directory entries.
    pub const EXTEND: Self = Self(0x08);
    /// Remove a directory entry.
    pub const DELETE: Self = Self(0x10);
    /// Execute a file.
    pub const EXECUTE: Self = Self(0x20);
    /// All six.
    pub const ALL: Self = Self(0x3f);

    /// Whether the sets have a bit in common.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Access {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_next_moment_carries_into_seconds() {
        let time = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        assert_eq!(time(-1, 999_999_999).next(), time(0, 0));
        assert_eq!(time(5, 7).next(), time(5, 8));
        assert_eq!(time(i64::MAX, 999_999_999).next(), time(i64::MAX, 0));
    }
    #[test]
    fn times_of_the_system_keep_their_nanoseconds() {
        let time = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        let distance = Duration::new(5, 7);
        assert_eq!(Timestamp::from(UNIX_EPOCH + distance), time(5, 7));
        assert_eq!(
            Timestamp::from(UNIX_EPOCH - distance),
            time(-6, 999_999_993)
        );
        let whole = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(Timestamp::from(whole), time(-5, 0));
    }
}
