//! Types of file systems and of the wire. The only mapping of errors to `nfsstat3`.

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3;

use pagewell_export::exports::Target;
use pagewell_export::handles::Identity;

/// The status of an error (RFC 1813 section 2.6).
pub(super) fn status(error: &fs::Error) -> nfs3::Status {
    use nfs3::Status;
    match error {
        fs::Error::NotPermitted => Status::NotPermitted,
        fs::Error::NotFound | fs::Error::NoData => Status::NotFound,
        fs::Error::Io(_) => Status::Io,
        fs::Error::NoDevice => Status::NoDevice,
        fs::Error::AccessDenied => Status::AccessDenied,
        fs::Error::Exists => Status::Exists,
        fs::Error::CrossDevice => Status::CrossDevice,
        fs::Error::NotDirectory => Status::NotDirectory,
        fs::Error::IsDirectory => Status::IsDirectory,
        fs::Error::Invalid | fs::Error::TooBig => Status::Invalid,
        fs::Error::FileTooLarge => Status::FileTooLarge,
        fs::Error::NoSpace | fs::Error::FullBelow(_) => Status::NoSpace,
        fs::Error::ReadOnly => Status::ReadOnly,
        fs::Error::TooManyLinks => Status::TooManyLinks,
        fs::Error::NameTooLong => Status::NameTooLong,
        fs::Error::NotEmpty => Status::NotEmpty,
        fs::Error::QuotaExceeded | fs::Error::QuotaBelow(_) => Status::QuotaExceeded,
        fs::Error::Stale => Status::Stale,
        fs::Error::BadId => Status::BadHandle,
        fs::Error::NotSync => Status::NotSynchronized,
        fs::Error::BadCookie => Status::BadCookie,
        fs::Error::NotSupported => Status::NotSupported,
        fs::Error::BadType => Status::BadType,
        fs::Error::TryLater | fs::Error::WouldBlock => Status::Jukebox,
    }
}

/// A time on the wire, 1970 to 2106. Others are clamped, which keeps their order; wrapping would
/// not.
pub(super) fn time(time: fs::Timestamp) -> nfs3::Time {
    let (seconds, nanoseconds) = match u32::try_from(time.seconds) {
        Ok(seconds) => (seconds, time.nanoseconds),
        Err(_) if time.seconds < 0 => (0, 0),
        Err(_) => (u32::MAX, 999_999_999),
    };
    nfs3::Time {
        seconds,
        nanoseconds,
    }
}

/// A time from the wire; fails on invalid nanoseconds.
pub(super) fn timestamp(time: nfs3::Time) -> fs::Result<fs::Timestamp> {
    let timestamp = (time.nanoseconds < 1_000_000_000).then_some(fs::Timestamp {
        seconds: i64::from(time.seconds),
        nanoseconds: time.nanoseconds,
    });
    timestamp.ok_or(fs::Error::Invalid)
}

/// An export's objects as NFS version 3 shows them.
pub(super) trait WireIdentity {
    /// Attributes as clients see them.
    fn attributes(&self, from: &fs::Attributes) -> nfs3::FileAttributes;
    /// A change as clients see it.
    fn change(&self, from: &fs::Change) -> nfs3::WccData;
}

impl WireIdentity for Identity {
    fn attributes(&self, from: &fs::Attributes) -> nfs3::FileAttributes {
        let (major, minor) = from.device;
        nfs3::FileAttributes {
            file_type: match from.file_type {
                fs::FileType::Regular => nfs3::FileType::Regular,
                fs::FileType::Directory => nfs3::FileType::Directory,
                fs::FileType::BlockDevice => nfs3::FileType::BlockDevice,
                fs::FileType::CharacterDevice => nfs3::FileType::CharacterDevice,
                fs::FileType::Symlink => nfs3::FileType::Symlink,
                fs::FileType::Socket => nfs3::FileType::Socket,
                fs::FileType::Fifo => nfs3::FileType::Fifo,
            },
            mode: from.mode & 0o7777,
            link_count: from.link_count,
            uid: from.uid,
            gid: from.gid,
            size: from.size,
            used: from.used,
            device: nfs3::DeviceNumber { major, minor },
            filesystem_id: self.filesystem_id,
            file_id: self.file_id(from.file_id),
            accessed: time(from.accessed),
            modified: time(from.modified),
            changed: time(from.changed),
        }
    }

    fn change(&self, from: &fs::Change) -> nfs3::WccData {
        nfs3::WccData {
            before: from.before.map(|before| nfs3::WccAttributes {
                size: before.size,
                modified: time(before.modified),
                changed: time(before.changed),
            }),
            after: from.after.map(|after| self.attributes(&after)),
        }
    }
}

/// An object as replies show it.
pub(super) trait WireTarget {
    /// Its attributes.
    fn attributes(&self) -> fs::Result<nfs3::FileAttributes>;
    /// The same, if available.
    fn attributes_now(&self) -> Option<nfs3::FileAttributes>;
    /// Its WCC data after a failed change. A refused change left it as it is; a storage failure may
    /// have done a part (RFC 1813 section 2.6).
    fn wcc_after_failure(&self, error: &fs::Error) -> nfs3::WccData;
}

impl WireTarget for Target<'_> {
    fn attributes(&self) -> fs::Result<nfs3::FileAttributes> {
        let attributes = self.filesystem().attributes(&self.call(), &self.id)?;
        Ok(self.export.identity.attributes(&attributes))
    }

    fn attributes_now(&self) -> Option<nfs3::FileAttributes> {
        self.attributes().ok()
    }

    fn wcc_after_failure(&self, error: &fs::Error) -> nfs3::WccData {
        let after = self.filesystem().attributes(&self.call(), &self.id).ok();
        let unchanged = after.filter(|_| is_refusal(error));
        self.export.identity.change(&fs::Change {
            before: unchanged.map(|attributes| attributes.wcc()),
            after,
        })
    }
}

/// Whether the error refused the request, rather than storage failing, perhaps midway.
fn is_refusal(error: &fs::Error) -> bool {
    use fs::Error;
    !matches!(
        error,
        Error::Io(_)
            | Error::NoDevice
            | Error::NoSpace
            | Error::FullBelow(_)
            | Error::QuotaExceeded
            | Error::QuotaBelow(_)
            | Error::TryLater
            | Error::WouldBlock
    )
}

/// Attributes to set; fails on invalid times. Owner or group -1 means no change, as in chown(2) and
/// other servers; some clients send it.
pub(super) fn set_attributes(from: &nfs3::SetAttributes) -> fs::Result<fs::SetAttributes> {
    let set_time = |from| -> fs::Result<_> {
        Ok(match from {
            nfs3::SetTime::Keep => None,
            nfs3::SetTime::ToServerTime => Some(fs::SetTime::ToServerTime),
            nfs3::SetTime::To(time) => Some(fs::SetTime::To(timestamp(time)?)),
        })
    };
    Ok(fs::SetAttributes {
        mode: from.mode.map(|mode| mode & 0o7777),
        uid: from.uid.filter(|uid| *uid != u32::MAX),
        gid: from.gid.filter(|gid| *gid != u32::MAX),
        size: from.size,
        accessed: set_time(from.accessed)?,
        modified: set_time(from.modified)?,
    })
}

/// The requested durability.
pub(super) fn stability(from: nfs3::StableHow) -> fs::Stability {
    match from {
        nfs3::StableHow::Unstable => fs::Stability::Unstable,
        nfs3::StableHow::DataSync => fs::Stability::DataSync,
        nfs3::StableHow::FileSync => fs::Stability::FileSync,
    }
}

/// The durability that was reached.
pub(super) fn stable_how(from: fs::Stability) -> nfs3::StableHow {
    match from {
        fs::Stability::Unstable => nfs3::StableHow::Unstable,
        fs::Stability::DataSync => nfs3::StableHow::DataSync,
        fs::Stability::FileSync => nfs3::StableHow::FileSync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_and_never_wrap() {
        let at = |seconds| {
            time(fs::Timestamp {
                seconds,
                nanoseconds: 5,
            })
        };
        assert_eq!(
            at(7),
            nfs3::Time {
                seconds: 7,
                nanoseconds: 5
            }
        );
        assert_eq!(at(i64::from(u32::MAX)).seconds, u32::MAX);
        assert_eq!(
            at(-1),
            nfs3::Time {
                seconds: 0,
                nanoseconds: 0
            }
        );
        assert_eq!(
            at(1 << 32),
            nfs3::Time {
                seconds: u32::MAX,
                nanoseconds: 999_999_999
            }
        );
        assert!(
            timestamp(nfs3::Time {
                seconds: 0,
                nanoseconds: 1_000_000_000
            })
            .is_err()
        );
    }
}
