//! Between the wire's types and the file systems'. Statuses become errors here alone.

use std::hash::Hasher;

use pagewell_fs::{
    Attributes, Error, FileId, FileType, Result, SetAttributes, SetTime, Timestamp, WccAttributes,
};
use pagewell_sunrpc::nfs3::{self, Handle, Status};
use siphasher::sip::SipHasher13;

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

pub(super) fn error(status: Status) -> Error {
    match status {
        Status::NotPermitted => Error::NotPermitted,
        Status::NotFound => Error::NotFound,
        Status::NoDevice | Status::DeviceUnsupported => Error::NoDevice,
        Status::AccessDenied => Error::AccessDenied,
        Status::Exists => Error::Exists,
        Status::CrossDevice => Error::CrossDevice,
        Status::NotDirectory => Error::NotDirectory,
        Status::IsDirectory => Error::IsDirectory,
        Status::Invalid => Error::Invalid,
        Status::FileTooLarge => Error::FileTooLarge,
        Status::NoSpace => Error::NoSpace,
        Status::ReadOnly => Error::ReadOnly,
        Status::TooManyLinks => Error::TooManyLinks,
        Status::NameTooLong => Error::NameTooLong,
        Status::NotEmpty => Error::NotEmpty,
        Status::QuotaExceeded => Error::QuotaExceeded,
        // A forgotten handle may look malformed to the server.
        Status::Stale | Status::BadHandle => Error::Stale,
        Status::NotSynchronized => Error::NotSync,
        Status::BadCookie => Error::BadCookie,
        Status::NotSupported => Error::NotSupported,
        Status::BadType => Error::BadType,
        Status::Jukebox => Error::TryLater,
        Status::Ok | Status::Io | Status::Remote | Status::TooSmall | Status::ServerFault => {
            Error::Io(format!("the server answered {}", status.name()))
        }
    }
}

/// The error of a call without a name: a server that finds files by path reports a missing name for
/// one that was moved or removed, which is a stale handle.
pub(super) fn error_of_object(status: Status) -> Error {
    match status {
        Status::NotFound => Error::Stale,
        status => error(status),
    }
}

pub(super) fn id(handle: Handle<'_>) -> Result<FileId> {
    FileId::new(handle.as_bytes()).ok_or(Error::BadId)
}

pub(super) fn handle(id: &FileId) -> Handle<'_> {
    // It has no more bytes than a handle may have.
    Handle::new(id.as_bytes()).unwrap_or_default()
}

/// Invalid nanoseconds, the server's error, are cut.
pub(super) fn timestamp(time: nfs3::Time) -> Timestamp {
    Timestamp {
        seconds: i64::from(time.seconds),
        nanoseconds: time.nanoseconds.min(NANOSECONDS_PER_SECOND - 1),
    }
}

/// A time to set or to compare, as near as the wire allows.
pub(super) fn time(time: Timestamp) -> Result<nfs3::Time> {
    if time.nanoseconds >= NANOSECONDS_PER_SECOND {
        return Err(Error::Invalid);
    }
    Ok(match u32::try_from(time.seconds) {
        Ok(seconds) => nfs3::Time {
            seconds,
            nanoseconds: time.nanoseconds,
        },
        Err(_) if time.seconds < 0 => nfs3::Time::default(),
        Err(_) => nfs3::Time {
            seconds: u32::MAX,
            nanoseconds: NANOSECONDS_PER_SECOND - 1,
        },
    })
}

pub(super) fn wcc(from: nfs3::WccAttributes) -> WccAttributes {
    WccAttributes {
        size: from.size,
        modified: timestamp(from.modified),
        changed: timestamp(from.changed),
    }
}

/// The number of an object for programs. A mount is one file system to them; the server may show
/// several in it, with equal numbers: a hash of the other file system's number moves these.
pub(super) fn file_id((filesystem_id, file_id): (u64, u64), mounted: u64) -> u64 {
    if filesystem_id == mounted {
        return file_id;
    }
    let hasher = SipHasher13::new_with_keys(filesystem_id, 0);
    // Numbers stay below 2^63: a mount makes larger ones itself.
    file_id ^ (hasher.finish() >> 1)
}

/// The number of an object whose server gives it 0, which programs take for a removed name: a hash
/// of its handle.
pub(super) fn number_of(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    (hasher.finish() >> 1).max(1)
}

/// `filesystem_id` is that of the mount, whatever the server says of the object.
pub(super) fn attributes(from: &nfs3::FileAttributes, filesystem_id: u64) -> Attributes {
    Attributes {
        file_type: match from.file_type {
            nfs3::FileType::Regular => FileType::Regular,
            nfs3::FileType::Directory => FileType::Directory,
            nfs3::FileType::BlockDevice => FileType::BlockDevice,
            nfs3::FileType::CharacterDevice => FileType::CharacterDevice,
            nfs3::FileType::Symlink => FileType::Symlink,
            nfs3::FileType::Socket => FileType::Socket,
            nfs3::FileType::Fifo => FileType::Fifo,
        },
        mode: from.mode & 0o7777,
        link_count: from.link_count,
        uid: from.uid,
        gid: from.gid,
        // To most programs a length is a signed number.
        size: from.size.min(i64::MAX.cast_unsigned()),
        used: from.used,
        device: (from.device.major, from.device.minor),
        filesystem_id,
        file_id: file_id((from.filesystem_id, from.file_id), filesystem_id),
        accessed: timestamp(from.accessed),
        modified: timestamp(from.modified),
        changed: timestamp(from.changed),
        may_be_kept: true,
    }
}

pub(super) fn set_attributes(from: &SetAttributes) -> Result<nfs3::SetAttributes> {
    let how = |how: Option<SetTime>| -> Result<nfs3::SetTime> {
        Ok(match how {
            None => nfs3::SetTime::Keep,
            Some(SetTime::ToServerTime) => nfs3::SetTime::ToServerTime,
            Some(SetTime::To(value)) => nfs3::SetTime::To(time(value)?),
        })
    };
    Ok(nfs3::SetAttributes {
        mode: from.mode.map(|mode| mode & 0o7777),
        uid: from.uid,
        gid: from.gid,
        size: from.size,
        accessed: how(from.accessed)?,
        modified: how(from.modified)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_is_a_handle() {
        let bytes = [7; nfs3::HANDLE_BYTES_MAX];
        assert_eq!(handle(&FileId::of(&bytes)).as_bytes(), bytes);
        assert_eq!(FileId::new(&[7; nfs3::HANDLE_BYTES_MAX + 1]), None);
    }

    #[test]
    fn every_status_has_its_error() {
        for status in Status::ALL {
            let error = error(*status);
            assert_ne!(error, Error::WouldBlock);
            if *status == Status::ServerFault {
                assert_eq!(
                    error,
                    Error::Io("the server answered serverfault".to_owned())
                );
            }
        }
        assert_eq!(error(Status::Jukebox), Error::TryLater);
        assert_eq!(error(Status::BadHandle), Error::Stale);
        assert_eq!(error(Status::NotFound), Error::NotFound);
        assert_eq!(error_of_object(Status::NotFound), Error::Stale);
        assert_eq!(error_of_object(Status::Invalid), Error::Invalid);
    }

    #[test]
    fn objects_of_two_file_systems_in_a_mount_have_two_numbers() {
        let numbers = [(7, 2), (8, 2), (9, 2), (7, 3), (8, 3)];
        let shown = numbers.map(|object| file_id(object, 7));
        assert_eq!((shown[0], shown[3]), (2, 3), "the mount's own");
        let different: std::collections::HashSet<u64> = shown.into_iter().collect();
        assert_eq!(different.len(), numbers.len());
    }

    #[test]
    fn wrong_values_of_a_server_are_cut_and_those_of_callers_refused() {
        let wrong = nfs3::Time {
            seconds: 7,
            nanoseconds: u32::MAX,
        };
        assert_eq!(timestamp(wrong).nanoseconds, 999_999_999);
        let set = |seconds, nanoseconds| {
            set_attributes(&SetAttributes {
                modified: Some(SetTime::To(Timestamp {
                    seconds,
                    nanoseconds,
                })),
                ..SetAttributes::default()
            })
        };
        assert_eq!(set(1, NANOSECONDS_PER_SECOND), Err(Error::Invalid));
        assert_eq!(
            set(-1, 5).unwrap().modified,
            nfs3::SetTime::To(nfs3::Time::default())
        );
        assert!(matches!(
            set(1 << 40, 5).unwrap().modified,
            nfs3::SetTime::To(nfs3::Time {
                seconds: u32::MAX,
                ..
            })
        ));
    }
}
