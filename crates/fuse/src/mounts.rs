//! The kernel's list of mounts (`/proc/self/mountinfo`, proc(5)), as a mount itself may not answer.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use pagewell_base::mounts::{fields, mountinfo, plain};
use rustix::io::Errno;

/// The kind of file system of all mounts through FUSE begins so; that of `pagewell mount` goes on
/// so.
pub(crate) const FUSE: &str = "fuse.";
pub(crate) const SUBTYPE: &str = "pagewell";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Major and minor number of its device, unique at a time.
    pub device: String,
    /// The directory that it is mounted on.
    pub place: PathBuf,
    /// The kind of file system, such as `ext4` or `fuse.pagewell`.
    pub kind: String,
    /// What it is of, in the words of the program that mounted it.
    pub source: String,
    /// The owner of the mount, as FUSE has it (`user_id=`).
    pub user: Option<u32>,
}

impl Entry {
    /// Whether `pagewell mount` made it, without another `subtype=`.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kind.strip_prefix(FUSE) == Some(SUBTYPE)
    }

    /// Whether it is of this source; without root `_` stands for some characters.
    #[must_use]
    pub fn shows(&self, source: &str) -> bool {
        self.source == source || self.source == named_by_helper(source)
    }

    /// Whether the program that served it has ended. Asks that program, as the kernel answers from
    /// memory for long after.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.is_ours() && rustix::fs::statfs(&self.place).err() == Some(Errno::NOTCONN)
    }
}

/// The helper's name of a source: in the list of options a comma would end it, and a backslash
/// escapes.
pub(crate) fn named_by_helper(source: &str) -> String {
    source.replace([',', '\\'], "_")
}

/// What is mounted on `place`, the last of several.
#[must_use]
pub fn mounted_on(place: &Path) -> Option<Entry> {
    entries(&mountinfo()).rfind(|entry| entry.place == place)
}

/// Where a device is mounted: of several places on `place` if it is there.
pub(crate) fn place_of(device: &str, place: &Path) -> Option<PathBuf> {
    let list = mountinfo();
    let places = || {
        let of_device = entries(&list).filter(|entry| entry.device == device);
        of_device.map(|entry| entry.place)
    };
    let there = places().find(|found| found == place);
    there.or_else(|| places().next())
}

fn entries(list: &[u8]) -> impl DoubleEndedIterator<Item = Entry> {
    fields(list).filter_map(|fields| entry(&fields))
}

fn entry(fields: &[&[u8]]) -> Option<Entry> {
    let (device, place) = (fields.get(2)?, fields.get(4)?);
    let dash = fields.iter().position(|field| *field == b"-")?;
    let kind = fields.get(dash + 1)?;
    let options = fields.get(dash + 3).copied().unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let user = options
        .split(|byte| *byte == b',')
        .find_map(|option| option.strip_prefix(b"user_id="));
    Some(Entry {
        device: text(device),
        place: OsString::from_vec(plain(place)).into(),
        kind: text(kind),
        source: text(&plain(fields.get(dash + 2).copied().unwrap_or_default())),
        user: user.and_then(|user| text(user).parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_written_name_and_the_last_counts() {
        let list = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 22 0:40 / /mnt/a\\040b ro - fuse.pagewell x\\0401,2.iso ro,user_id=1000,group_id=7\n\
            31 30 0:41 / /mnt/a\\040b rw - tmpfs tmpfs rw\n\
            broken\n";
        let on = |place: &str| entries(list).rfind(|entry| entry.place == Path::new(place));
        let found = on("/mnt/a b").unwrap();
        assert_eq!((found.kind.as_str(), found.is_ours()), ("tmpfs", false));
        let root = on("/").unwrap();
        assert_eq!((root.device.as_str(), root.user), ("254:0", None));
        assert_eq!(on("/mnt/a"), None);
        let ours = entries(list).find(Entry::is_ours).unwrap();
        assert_eq!(ours.place, Path::new("/mnt/a b"));
        assert!(ours.shows("x 1,2.iso") && !ours.shows("x"));
        let of_helper = Entry {
            source: "x_y".to_owned(),
            ..ours.clone()
        };
        assert!(of_helper.shows("x,y") && !of_helper.shows("x,z"));
        assert_eq!((ours.device.as_str(), ours.user), ("0:40", Some(1000)));
    }
}
