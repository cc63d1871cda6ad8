//! The caller of a request, and the object that it names.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Most bytes of a [`FileId`]: a handle of a mounted export (RFC 1813 section 2.5, `NFS3_FHSIZE`).
pub const FILE_ID_BYTES_MAX: usize = 64;
/// The same in a handle of this program's server, whose header (version, length, export, MAC) takes
/// the other 14.
pub const SERVED_ID_BYTES_MAX: usize = 50;

/// A file number below 2^31, for programs of 32 bits: small ones stay, larger ones rarely collide.
#[must_use]
pub fn narrow_number(file_id: u64) -> u64 {
    match (file_id ^ (file_id >> 31) ^ (file_id >> 62)) & 0x7fff_ffff {
        0 => 0x7fff_ffff,
        folded => folded,
    }
}

/// Names one object of one file system, which alone can read it.
///
/// Equal identifiers mean the same object. An identifier stays valid over renames and, where the
/// source can, restarts; never for another object (it has the generation of a reused inode number).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    length: u8,
    bytes: [u8; FILE_ID_BYTES_MAX],
}

impl FileId {
    /// `None` above [`FILE_ID_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; FILE_ID_BYTES_MAX];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Self {
            length: u8::try_from(value.len()).ok()?,
            bytes,
        })
    }

    /// The same; the length is checked at compile time.
    #[must_use]
    pub fn of<const N: usize>(value: &[u8; N]) -> Self {
        #[allow(clippy::cast_possible_truncation)] // checked when it is compiled
        Self::of_inline(N as u8, value)
    }

    /// The first `length` bytes, at most `N`.
    pub(crate) fn of_inline<const N: usize>(length: u8, inline: &[u8; N]) -> Self {
        const { assert!(N <= FILE_ID_BYTES_MAX) };
        let mut bytes = [0; FILE_ID_BYTES_MAX];
        bytes[..N].copy_from_slice(inline);
        Self { length, bytes }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FileId(")?;
        for byte in self.as_bytes() {
            write!(formatter, "{byte:02x}")?;
        }
        formatter.write_str(")")
    }
}

/// Most supplementary groups of AUTH_SYS (RFC 5531 appendix A: `gids<16>`).
pub const GROUPS_MAX: usize = 16;

/// Those of an NFS call need no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Groups {
    Few(u8, [u32; GROUPS_MAX]),
    Many(Arc<[u32]>),
}

/// The caller: AUTH_SYS identity after squashing, or the local user.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    groups: Groups,
    umask: u32,
}

impl Credentials {
    /// With supplementary groups.
    #[must_use]
    pub fn new(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let mut few = [0; GROUPS_MAX];
        #[allow(clippy::cast_possible_truncation)] // GROUPS_MAX is 16
        let groups = match few.get_mut(..groups.len()) {
            Some(slots) => {
                slots.copy_from_slice(groups);
                Groups::Few(groups.len() as u8, few)
            }
            None => Groups::Many(groups.into()),
        };
        Self {
            uid,
            gid,
            groups,
            umask: 0,
        }
    }

    /// With a umask (umask(2)), for sources with default access control lists; for others a front
    /// applies it.
    #[must_use]
    pub fn with_umask(self, umask: u32) -> Self {
        Self { umask, ..self }
    }

    /// The umask, usually 0.
    #[must_use]
    pub fn umask(&self) -> u32 {
        self.umask
    }

    /// The superuser, without supplementary groups.
    #[must_use]
    pub fn root() -> Self {
        Self::new(0, 0, &[])
    }

    /// Supplementary groups.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        match &self.groups {
            Groups::Few(count, groups) => &groups[..usize::from(*count)],
            Groups::Many(groups) => groups,
        }
    }

    /// Whether `gid` is the primary or a supplementary group.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups().contains(&gid)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Credentials({}:{} {:?})",
            self.uid,
            self.gid,
            self.groups()
        )
    }
}

thread_local! {
    /// Set while the thread may have another identity.
    static TURN_BACK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Notes that the thread has a caller's identity, until `turn_back` runs.
pub fn acts_for_caller(turn_back: fn()) {
    TURN_BACK.set(Some(turn_back));
}

/// Gives this thread the server's identity, before it opens paths or starts threads. A source that
/// acts as its callers leaves a thread as the last of them, so that further calls of that one cost
/// nothing.
pub fn act_for_server() {
    if let Some(turn_back) = TURN_BACK.take() {
        turn_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_keeps_its_bytes_and_refuses_too_many() {
        let id = FileId::new(&[1, 2, 3]).unwrap();
        assert_eq!(id.as_bytes(), &[1, 2, 3]);
        assert_ne!(id, FileId::new(&[1, 2, 3, 0]).unwrap());
        assert_eq!(id, FileId::of(&[1, 2, 3]));
        assert!(FileId::new(&[0; FILE_ID_BYTES_MAX]).is_some());
        assert!(FileId::new(&[0; FILE_ID_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn credentials_keep_all_groups() {
        for count in [0, 1, 16, 17, 65_536] {
            let groups: Vec<u32> = (100..100 + count).collect();
            let credentials = Credentials::new(1, 2, &groups);
            assert_eq!(credentials.groups(), groups);
            assert!(credentials.in_group(2) && !credentials.in_group(100 + count));
            assert_eq!(credentials, Credentials::new(1, 2, &groups));
        }
    }
}
