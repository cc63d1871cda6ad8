//! Small files that a program keeps between runs.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Opens a file for reading. Does not follow a link in its place, or wait for a pipe.
///
/// # Errors
///
/// As open(2).
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Replaces a file as a whole: `write` fills a file named [`temporary_of`], which is then
/// synchronised and renamed, and the name synchronised. After an interruption the old file or the
/// new one exists. The umask takes bits off `mode`.
///
/// # Errors
///
/// Those of the file system, or of `write`.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_of(path);
    // A killed process left it, or another program made it.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    write(&mut file)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    File::open(folder_of(path))?.sync_all()
}

/// Permissions by which others than the owner write.
pub const OTHERS_WRITE: u32 = 0o022;
/// The same without those of the group, which is the user's own on many systems.
pub const ALL_WRITE: u32 = 0o002;

/// Why another user, except root, may have written what is in this file or folder: its owner, or
/// that it has one of these permissions.
#[must_use]
pub fn distrust(metadata: &Metadata, permissions: u32) -> Option<String> {
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Some(format!("belongs to user {owner}"));
    }
    let is_writable = metadata.mode() & permissions != 0;
    is_writable.then(|| "can be written by others than its owner (chmod go-w)".to_owned())
}

/// The home folder: of the variable, or of the user where a service or a boot has set none.
#[must_use]
pub fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// What the file system of an open file has room for; nothing where it does not say.
pub fn free_bytes(file: &File) -> Option<u64> {
    let system = rustix::fs::fstatvfs(file).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The folder of a file: the current one for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// The name of a file until it replaces the old one.
pub fn temporary_of(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    temporary.into()
}
