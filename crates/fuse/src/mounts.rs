//! The kernel's list of mounts (`/proc/self/mountinfo`, proc(5)): asked instead of the mount
//! itself, whose program may be gone or wait.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kind of file system that `pagewell mount` makes.
pub(crate) const KIND: &str = "fuse.pagewell";

/// What is mounted on a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Major and minor number of its device, which no other mount has at the same time.
    pub device: String,
    /// The kind of file system, such as `ext4` or `fuse.pagewell`.
    pub kind: String,
    /// Whose mount it is, as FUSE has it (`user_id=`).
    pub user: Option<u32>,
}

impl Entry {
    /// Whether `pagewell mount` made it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kind == KIND
    }
}

/// What is mounted on `place`, the last of several.
#[must_use]
pub fn mounted_on(place: &Path) -> Option<Entry> {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    find(&list, place)
}

fn find(list: &[u8], place: &Path) -> Option<Entry> {
    let wanted = escaped(place);
    let lines = list.split(|byte| *byte == b'\n');
    lines.filter_map(|line| entry(line, &wanted)).next_back()
}

/// The entry of a line, if it is of this place: number, parent, device, root, place, options,
/// more of them up to a dash, kind, source, options of the file system.
fn entry(line: &[u8], wanted: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    if fields.nth(1)? != wanted {
        return None;
    }
    fields.find(|field| *field == b"-")?;
    let kind = fields.next()?;
    let options = fields.nth(1).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let user = options
        .split(|byte| *byte == b',')
        .find_map(|option| option.strip_prefix(b"user_id="));
    Some(Entry {
        device: text(device),
        kind: text(kind),
        user: user.and_then(|user| text(user).parse().ok()),
    })
}

/// The bytes of a path as the list writes them.
fn escaped(path: &Path) -> Vec<u8> {
    let mut shown = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => shown.extend(format!("\\{byte:03o}").as_bytes()),
            _ => shown.push(*byte),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_written_name_and_the_last_counts() {
        let list = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 22 0:40 / /mnt/a\\040b ro - fuse.pagewell x.iso ro,user_id=1000,group_id=7\n\
            31 30 0:41 / /mnt/a\\040b rw - tmpfs tmpfs rw\n\
            broken\n";
        let found = find(list, Path::new("/mnt/a b")).unwrap();
        assert_eq!((found.kind.as_str(), found.is_ours()), ("tmpfs", false));
        let root = find(list, Path::new("/")).unwrap();
        assert_eq!((root.device.as_str(), root.user), ("254:0", None));
        assert_eq!(find(list, Path::new("/mnt/a")), None);
        let ours = find(&list[..150], Path::new("/mnt/a b")).unwrap();
        assert_eq!((ours.is_ours(), ours.user), (true, Some(1000)));
    }
}
