//! The origin of an image: its name, permissions and times.

use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use pagewell_fs::Timestamp;
use pagewell_fs::source::OpenError;
use siphasher::sip::SipHasher24;

const MODE_BITS: u32 = 0o666;
const WRITE_BITS: u32 = 0o222;
const NAME_BYTES_MAX: usize = 255;
const NAMELESS: &[u8] = b"image";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) accessed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
}

/// The origin of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    name: Vec<u8>,
    pub(super) identity: u64,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Bytes of storage.
    pub(super) used: u64,
    pub(super) times: Times,
}

impl Origin {
    /// A file or a block device. Name and inode number identify a file; name and device number a
    /// block device, whose inode is new at every boot.
    pub fn of_path(path: &Path) -> Result<Self, OpenError> {
        let of_path =
            |error: std::io::Error| OpenError::new(&path.display().to_string(), &error.to_string());
        let real = path.canonicalize().map_err(of_path)?;
        let status = real.metadata().map_err(of_path)?;
        // The name of a link is preferred, if it has one.
        let name = path.file_name().or_else(|| real.file_name());
        let name = name_of(name.map_or(&[][..], OsStrExt::as_bytes));
        let number = if status.file_type().is_block_device() {
            status.rdev()
        } else {
            status.ino()
        };
        let time = |seconds, nanoseconds: i64| Timestamp {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        Ok(Self {
            identity: identity(&name, &[number]),
            name,
            mode: status.mode() & MODE_BITS,
            uid: status.uid(),
            gid: status.gid(),
            used: status.blocks().saturating_mul(512),
            times: Times {
                accessed: time(status.atime(), status.atime_nsec()),
                modified: time(status.mtime(), status.mtime_nsec()),
                changed: time(status.ctime(), status.ctime_nsec()),
            },
        })
    }

    /// Memory, as an image with this name for all users.
    #[must_use]
    pub fn of_memory(name: &[u8]) -> Self {
        let name = name_of(name);
        Self {
            identity: identity(&name, &[]),
            name,
            mode: MODE_BITS,
            uid: 0,
            gid: 0,
            used: 0,
            times: Times::default(),
        }
    }

    /// The same, changed last at this time.
    #[must_use]
    pub fn changed_at(self, time: Option<SystemTime>) -> Self {
        let time = time.map(Timestamp::from).unwrap_or_default();
        Self {
            times: Times {
                accessed: time,
                modified: time,
                changed: time,
            },
            ..self
        }
    }

    /// Identifies it by its name and this number instead.
    #[must_use]
    pub fn known_by(self, number: &[u8; 16]) -> Self {
        let (words, _) = number.as_chunks::<8>();
        let words: Vec<u64> = words.iter().copied().map(u64::from_le_bytes).collect();
        Self {
            identity: identity(&self.name, &words),
            ..self
        }
    }

    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether the permissions let any user write.
    #[must_use]
    pub fn has_write_permission(&self) -> bool {
        self.mode & WRITE_BITS != 0
    }
}

fn name_of(name: &[u8]) -> Vec<u8> {
    let name = name.get(..NAME_BYTES_MAX).unwrap_or(name);
    if pagewell_fs::name::check(name).is_err() || matches!(name, b"." | b"..") {
        return NAMELESS.to_vec();
    }
    name.to_vec()
}

fn identity(name: &[u8], numbers: &[u64]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(name);
    for number in numbers {
        hasher.write_u64(number.to_le());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_fit_for_a_directory() {
        assert_eq!(name_of(b"disk.img"), b"disk.img");
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(name_of(bad), NAMELESS);
        }
        assert_eq!(name_of(&[b'x'; 300]).len(), NAME_BYTES_MAX);
    }
}
