//! Between the file systems' types and the wire's. Errors map to `nfsstat3` here and only here.

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

/// A time on the wire: 1970 to 2106. Earlier and later ones are cut to the nearest that fits,
/// which orders them rightly; wrapping around would not.
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

/// A time from the wire; an error when its nanoseconds are no nanoseconds.
pub(super) fn timestamp(time: nfs3::Time) -> fs::Result<fs::Timestamp> {
    let timestamp = (time.nanoseconds < 1_000_000_000).then_some(fs::Timestamp {
        seconds: i64::from(time.seconds),
        nanoseconds: time.nanoseconds,
    });
    timestamp.ok_or(fs::Error::Invalid)
}

/// What an export shows of its objects, as NFS version 3 carries it.
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

/// An object of a call, as replies show it.
pub(super) trait WireTarget {
    /// Its attributes.
    fn attributes(&self) -> fs::Result<nfs3::FileAttributes>;
    /// The same; absent when they cannot be had.
    fn attributes_now(&self) -> Option<nfs3::FileAttributes>;
    /// What is to be said of it after a change of it has failed. When it was refused before
    /// anything was done, the object was before what it is now; when storage failed, a part may
    /// have been done (RFC 1813 section 2.6).
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

/// Whether a call that failed so was refused for what it asks, and not because storage failed it,
/// perhaps when a part was done.
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

/// Attributes to set; an error when a time makes no sense. An owner or group of -1 is none, and
/// stays as it is: so chown(2) has it, and other servers, and some clients send it.
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

/// The durability a client asks for.
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
