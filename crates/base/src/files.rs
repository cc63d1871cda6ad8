//! Small files that a program keeps between runs.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Opens a file for reading. Does not follow a link in its place, or wait for a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a regular file for reading, also behind a link. Refuses all others, before they are
/// opened: that would wait for a pipe's writer, or wind a tape.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let expect_regular = |metadata: Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not a regular file",
        )),
    };
    expect_regular(std::fs::metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // The path may name another file by now.
    expect_regular(file.metadata()?)?;
    Ok(file)
}

/// Replaces a file as a whole: `write` fills a file named [`temporary_of`], which is synchronised
/// and renamed, and its folder synchronised: the old file or the new one exists. The umask takes
/// bits off `mode`.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_of(path);
    // Of a killed process, or another program.
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

/// Others than the owner write.
pub const OTHERS_WRITE: u32 = 0o022;
/// The same without the group, which is the user's own on many systems.
pub const ALL_WRITE: u32 = 0o002;

/// Why another user than this one and root may have written a file or folder: its owner, or these
/// permissions.
#[must_use]
pub fn distrust(metadata: &Metadata, permissions: u32) -> Option<String> {
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Some(format!("belongs to user {owner}"));
    }
    let is_writable = metadata.mode() & permissions != 0;
    is_writable.then(|| "can be written by others than its owner (chmod go-w)".to_owned())
}

/// The home folder, of the variable or the user.
#[must_use]
pub fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// Room in the file system of an open file, if known.
pub fn free_bytes(file: &File) -> Option<u64> {
    let system = rustix::fs::fstatvfs(file).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// The name of a new file until it replaces the old one.
pub fn temporary_of(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    temporary.into()
}
