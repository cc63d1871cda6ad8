//! Taking a mount away.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::mount::in_mount_list;

/// Why something is still mounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Programs use it.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// Nothing is mounted there.
    #[error("nothing is mounted on {}", .0.display())]
    NotMounted(PathBuf),
    /// The system refuses.
    #[error("cannot unmount {}: {reason}", place.display())]
    System {
        /// Where.
        place: PathBuf,
        /// What it said.
        reason: String,
    },
}

/// Unmounts what is mounted on `place`. With `lazy` it goes from its place at once, and ends when
/// the last program that uses it is done.
pub fn unmount(place: &Path, lazy: bool) -> Result<(), UnmountError> {
    let flags = if lazy {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match rustix::mount::unmount(place, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy(place.to_owned())),
        Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted(place.to_owned())),
        Err(Errno::PERM) => with_helper(place, lazy),
        Err(errno) => Err(UnmountError::System {
            place: place.to_owned(),
            reason: errno.to_string(),
        }),
    }
}

/// Without root: by the helper program that mounted it.
fn with_helper(place: &Path, lazy: bool) -> Result<(), UnmountError> {
    if !is_mounted(place) {
        return Err(UnmountError::NotMounted(place.to_owned()));
    }
    let failed = |reason: String| UnmountError::System {
        place: place.to_owned(),
        reason,
    };
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let done = command
        .arg("--")
        .arg(place)
        .stdin(Stdio::null())
        .output()
        .map_err(|error: io::Error| failed(format!("fusermount3: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if said.contains("busy") {
        Err(UnmountError::Busy(place.to_owned()))
    } else {
        Err(failed(said))
    }
}

/// Whether the list of mounts has anything there.
fn is_mounted(place: &Path) -> bool {
    let mounts = std::fs::read("/proc/self/mounts").unwrap_or_default();
    lists(&mounts, place)
}

fn lists(mounts: &[u8], place: &Path) -> bool {
    let wanted = in_mount_list(place);
    mounts
        .split(|byte| *byte == b'\n')
        .any(|line| line.split(|byte| *byte == b' ').nth(1) == Some(&wanted[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_written_name() {
        let mounts = b"/dev/vda / ext4 rw 0 0\nx.iso /mnt/a\\040b fuse.pagewell ro 0 0\n";
        assert!(lists(mounts, Path::new("/mnt/a b")));
        assert!(lists(mounts, Path::new("/")));
        assert!(!lists(mounts, Path::new("/mnt/a")));
    }

    #[test]
    fn a_plain_directory_is_not_mounted() {
        let directory = tempfile::tempdir().unwrap();
        let error = unmount(directory.path(), false).unwrap_err();
        assert!(matches!(error, UnmountError::NotMounted(_)), "{error}");
    }
}
