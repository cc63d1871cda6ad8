//! Small files that a program keeps for its next life.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Opens a file to be read. A link in its place is not followed, and a pipe not waited for.
///
/// # Errors
///
/// As of open(2).
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Puts a file in the place of another as a whole: `write` fills it under the name of
/// [`temporary_of`], then it is synchronised, renamed, and the name synchronised. Whenever that is
/// cut short, the old file or the new one is there. The umask takes bits off `mode`.
///
/// # Errors
///
/// Of the file system, or of `write`.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_of(path);
    // Left behind by a process that was killed, or put there by another program.
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

/// The folder that a file is in: the current one for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// The name of a file until it takes the place of the old one.
pub fn temporary_of(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    temporary.into()
}
