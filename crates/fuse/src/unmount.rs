//! Unmounting.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::getuid;

use crate::mounts::{Entry, mounted_on};

/// The program that mounts and unmounts for users other than root.
pub(crate) const HELPER: &str = "fusermount3";

/// Why something is still mounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Programs use it.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// Nothing is mounted there.
    #[error("nothing is mounted on {}", .0.display())]
    NotMounted(PathBuf),
    /// Another mount lies over it, there or on a directory above.
    #[error("another mount lies over {}: unmount that one first", .0.display())]
    Covered(PathBuf),
    /// What is mounted there is not ours, or the system refuses.
    #[error("{0}")]
    Refused(String),
}

impl UnmountError {
    fn failed(place: &Path, reason: &str) -> Self {
        Self::Refused(format!("cannot unmount {}: {reason}", place.display()))
    }
}

/// Unmounts what is mounted on `place`. With `lazy` it leaves its place at once, and ends with the
/// last program that uses it.
pub fn unmount(place: &Path, lazy: bool) -> Result<(), UnmountError> {
    let Some(entry) = mounted_on(place) else {
        return Err(UnmountError::NotMounted(place.to_owned()));
    };
    if !entry.is_ours() {
        let (place, kind) = (place.display(), entry.kind);
        return Err(UnmountError::Refused(format!(
            "{place} is a mount of {kind}, not of pagewell; umount(8) takes it away"
        )));
    }
    unmount_entry(&entry, lazy)
}

/// The same for a mount that is known to be ours, whatever its kind is called.
pub fn unmount_entry(entry: &Entry, lazy: bool) -> Result<(), UnmountError> {
    let place = &entry.place;
    let flags = if lazy {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match rustix::mount::unmount(place, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy(place.to_owned())),
        Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted(place.to_owned())),
        // The helper says that the mounts of other users do not exist.
        Err(Errno::PERM) => match entry.user.filter(|user| *user != getuid().as_raw()) {
            Some(user) => {
                let reason = format!("user {user} mounted it: that user or root can unmount it");
                Err(UnmountError::failed(place, &reason))
            }
            None => with_helper(place, lazy),
        },
        Err(errno) => Err(UnmountError::failed(place, &errno.to_string())),
    }
}

fn with_helper(place: &Path, lazy: bool) -> Result<(), UnmountError> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let done = command
        .arg("--")
        .arg(place)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| UnmountError::failed(place, &format!("{HELPER}: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = said(&done.stderr);
    if said.contains("busy") {
        Err(UnmountError::Busy(place.to_owned()))
    } else {
        Err(UnmountError::failed(place, &said))
    }
}

/// The message of the helper, on one line.
pub(crate) fn said(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    match lines.as_slice() {
        [] => format!("{HELPER} failed and did not say why"),
        lines => lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_directory_is_not_mounted() {
        let directory = tempfile::tempdir().unwrap();
        let error = unmount(directory.path(), false).unwrap_err();
        assert!(matches!(error, UnmountError::NotMounted(_)), "{error}");
        let error = unmount(Path::new("/proc"), false).unwrap_err();
        assert!(error.to_string().contains("mount of proc"), "{error}");
    }

    #[test]
    fn what_the_helper_says_is_one_line() {
        assert_eq!(
            said(b"fusermount3: one\n\nthen two\n"),
            "fusermount3: one; then two"
        );
        assert!(said(b"\n").contains("did not say why"));
    }
}
