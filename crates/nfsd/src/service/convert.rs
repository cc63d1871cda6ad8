//! Between the file systems' types and the wire's. Errors map to `nfsstat3` here and only here.
//!
//! # Handles
//!
//! On the wire a handle has up to 64 opaque bytes (RFC 1813 section 2.5, `nfs_fh3`):
//!
//! ```text
//!   0        1          2           6            14
//!   +--------+----------+-----------+------------+------------------------+
//!   | version| id bytes | export    | MAC        | FileId, up to 50 bytes |
//!   +--------+----------+-----------+------------+------------------------+
//! ```
//!
//! The MAC (SipHash-2-4 with the server's secret key, over everything else) means that a client
//! cannot make a handle, only repeat one that it was given. The export is named by a keyed hash
//! of its name and of what tells its tree from others, so that handles stay valid when other
//! exports come and go, and are stale when another tree is served by the same name. There is no
//! state in the server: a handle is valid after a restart with the same key.
//!
//! Known weakness: 64 bits of MAC stop guessing, not a client that was once given a handle and
//! has lost the right to it; permission is checked at each call, as NFSv3 does.

use std::hash::Hasher;

use pagewell_fs::identity::FILE_ID_BYTES_MAX;
use pagewell_fs::{self as fs, FileId};
use pagewell_sunrpc::nfs3;
use siphasher::sip::SipHasher24;

/// The status of an error (RFC 1813 section 2.6).
pub fn status(error: &fs::Error) -> nfs3::Status {
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
pub fn time(time: fs::Timestamp) -> nfs3::Time {
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
pub fn timestamp(time: nfs3::Time) -> fs::Result<fs::Timestamp> {
    let timestamp = (time.nanoseconds < 1_000_000_000).then_some(fs::Timestamp {
        seconds: i64::from(time.seconds),
        nanoseconds: time.nanoseconds,
    });
    timestamp.ok_or(fs::Error::Invalid)
}

/// How an export shows file identifiers.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The file system number that clients see.
    pub filesystem_id: u64,
    /// Fold file numbers into 31 bits.
    pub narrow: bool,
}

impl Identity {
    /// A file number as clients see it.
    pub fn file_id(&self, file_id: u64) -> u64 {
        if !self.narrow {
            return file_id;
        }
        // Inode numbers below 2^31 stay as they are; others keep what tells them apart best.
        match (file_id ^ (file_id >> 31) ^ (file_id >> 62)) & 0x7fff_ffff {
            0 => 0x7fff_ffff,
            folded => folded,
        }
    }

    /// Attributes as clients see them.
    pub fn attributes(&self, from: &fs::Attributes) -> nfs3::FileAttributes {
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

    /// A change as clients see it.
    pub fn change(&self, from: &fs::Change) -> nfs3::WccData {
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

/// Whether a call that failed so was refused for what it asks, and not because storage failed it,
/// perhaps when a part was done.
pub fn is_refusal(error: &fs::Error) -> bool {
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
pub fn set_attributes(from: &nfs3::SetAttributes) -> fs::Result<fs::SetAttributes> {
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
pub fn stability(from: nfs3::StableHow) -> fs::Stability {
    match from {
        nfs3::StableHow::Unstable => fs::Stability::Unstable,
        nfs3::StableHow::DataSync => fs::Stability::DataSync,
        nfs3::StableHow::FileSync => fs::Stability::FileSync,
    }
}

/// The durability that was reached.
pub fn stable_how(from: fs::Stability) -> nfs3::StableHow {
    match from {
        fs::Stability::Unstable => nfs3::StableHow::Unstable,
        fs::Stability::DataSync => nfs3::StableHow::DataSync,
        fs::Stability::FileSync => nfs3::StableHow::FileSync,
    }
}

const HANDLE_VERSION: u8 = 1;
/// Before the identifier of the object.
const HEADER_BYTES: usize = 14;
const MAC_AT: usize = 6;

/// Makes and reads handles.
#[derive(Clone)]
pub struct HandleKey([u8; 16]);

/// A handle to send, inline. Of an identifier that is too long it has more bytes than the protocol
/// allows, and `nfs3::Handle` refuses it.
#[derive(Clone, Copy)]
pub struct WireHandle {
    length: usize,
    bytes: [u8; HEADER_BYTES + FILE_ID_BYTES_MAX],
}

impl WireHandle {
    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl HandleKey {
    /// A key; with it handles can be made.
    pub fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// The number that stands for an export in its handles: of this name, with this tree.
    pub fn export_number(&self, name: &str, tree_id: &[u8]) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(b"export ");
        hasher.write(name.as_bytes());
        hasher.write(&[0]); // no name has it
        hasher.write(tree_id);
        #[allow(clippy::cast_possible_truncation)] // half of a hash is a hash
        return hasher.finish() as u32;
    }

    /// The handle of an object.
    pub fn encode(&self, export_number: u32, id: &FileId) -> WireHandle {
        let id = id.as_bytes();
        let mut bytes = [0; HEADER_BYTES + FILE_ID_BYTES_MAX];
        bytes[0] = HANDLE_VERSION;
        #[allow(clippy::cast_possible_truncation)] // at most 64
        let id_length = id.len() as u8;
        bytes[1] = id_length;
        bytes[2..MAC_AT].copy_from_slice(&export_number.to_be_bytes());
        bytes[HEADER_BYTES..HEADER_BYTES + id.len()].copy_from_slice(id);
        let length = HEADER_BYTES + id.len();
        let mac = self.mac(&bytes[..length]);
        bytes[MAC_AT..HEADER_BYTES].copy_from_slice(&mac.to_be_bytes());
        WireHandle { length, bytes }
    }

    /// The export number and object of a handle that this key made; nothing of another, whose
    /// length, version or MAC is wrong.
    pub fn decode(&self, handle: &[u8]) -> Option<(u32, FileId)> {
        let (header, id) = handle.split_first_chunk::<HEADER_BYTES>()?;
        let [version, id_bytes, a, b, c, d, mac @ ..] = *header;
        if version != HANDLE_VERSION
            || usize::from(id_bytes) != id.len()
            || u64::from_be_bytes(mac) != self.mac(handle)
        {
            return None;
        }
        Some((u32::from_be_bytes([a, b, c, d]), FileId::new(id)?))
    }

    /// The MAC of a handle of at least [`HEADER_BYTES`]; the place of the MAC itself is left out.
    fn mac(&self, handle: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&handle[..MAC_AT]);
        hasher.write(&handle[HEADER_BYTES..]);
        hasher.finish()
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

    #[test]
    fn narrow_file_numbers_are_below_two_to_the_31() {
        let identity = Identity {
            filesystem_id: 1,
            narrow: true,
        };
        for id in [
            1,
            77,
            0x7fff_ffff,
            1 << 31,
            u64::MAX,
            1 << 62,
            0x1234_5678_9abc_def0,
        ] {
            let folded = identity.file_id(id);
            assert!(folded > 0 && folded < 1 << 31);
            assert!(id >= 1 << 31 || folded == id);
        }
    }

    #[test]
    fn only_our_own_handles_are_read() {
        let key = HandleKey::new(*b"0123456789abcdef");
        for length in 0..=64usize {
            let id = FileId::new(&vec![length as u8; length]).unwrap();
            let handle = key.encode(7, &id);
            assert_eq!(key.decode(handle.as_bytes()), Some((7, id)));
            for bit in 0..handle.as_bytes().len() * 8 {
                let mut forged = handle.as_bytes().to_vec();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.decode(&forged), None, "bit {bit}");
            }
            for cut in 0..handle.as_bytes().len() {
                assert_eq!(key.decode(&handle.as_bytes()[..cut]), None);
            }
        }
        let other = HandleKey::new(*b"fedcba9876543210");
        let id = FileId::new(b"x").unwrap();
        assert_eq!(other.decode(key.encode(7, &id).as_bytes()), None);
        let number = key.export_number("/a", b"tree");
        assert_ne!(number, key.export_number("/b", b"tree"));
        assert_ne!(number, key.export_number("/a", b"other"));
        assert_ne!(number, key.export_number("/atr", b"ee"));
    }
}
