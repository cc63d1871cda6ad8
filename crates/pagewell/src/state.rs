//! What survives a restart: the key that authenticates file handles, and the list of clients with
//! locks.
//!
//! Deleting the key makes every client's handles stale. It is secret: its owner can make handles.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use pagewell_base::files;

const KEY_BYTES: usize = 16;
const KEY_NAME: &str = "handle-key";
pub(crate) const SYSTEM: &str = "/var/lib/pagewell";

/// Where the state is without `--state-dir`: `/var/lib/pagewell` for root, else
/// `$XDG_STATE_HOME/pagewell` or `~/.local/state/pagewell`. Only absolute paths count (XDG base
/// directory specification). Without HOME the system's database has the home.
pub(crate) fn default_directory() -> anyhow::Result<PathBuf> {
    base_directory()
        .ok_or_else(|| anyhow!("no home directory to keep the handle key in: give --state-dir"))
}

/// [`default_directory`], none without a home directory.
pub(crate) fn base_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(SYSTEM));
    }
    let absolute = |variable: &str| {
        let value = std::env::var_os(variable).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| files::home().map(|home| home.join(".local/state")))
        .map(|base| base.join("pagewell"))
}

/// Where a server lists its clients with locks; one list for each address, since servers may share
/// a directory. None for port 0: after a restart clients do not find it.
pub(crate) fn lock_records(directory: &Path, listen: SocketAddr) -> Option<PathBuf> {
    (listen.port() != 0).then(|| directory.join(format!("locks-{listen}")))
}

/// Makes a directory for state, and those above it, if missing.
pub(crate) fn make_directory(directory: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)
}

/// Reads the key in `directory`; makes both if missing. Two servers that start at once get the same
/// key.
pub(crate) fn handle_key(directory: &Path) -> anyhow::Result<[u8; KEY_BYTES]> {
    let shown = directory.display();
    let hint = || format!("{shown}: cannot keep the handle key there (--state-dir names another)");
    make_directory(directory).with_context(hint)?;
    check_directory(directory)?;
    let path = directory.join(KEY_NAME);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    make(directory, &path).with_context(hint)?;
    read(&path)?.ok_or_else(|| anyhow!("{}: vanished", path.display()))
}

/// Refuses a directory where another user could replace the key.
fn check_directory(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    let metadata = fs::metadata(directory).with_context(|| format!("{shown}"))?;
    if let Some(distrust) = files::distrust(&metadata, files::OTHERS_WRITE) {
        bail!("{shown}: {distrust}: the handle key is not kept there (--state-dir)");
    }
    Ok(())
}

/// The key in a file, `None` without a file. Any other content is an error: overwriting it could
/// make another server's handles stale.
fn read(path: &Path) -> anyhow::Result<Option<[u8; KEY_BYTES]>> {
    let shown = path.display();
    let file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{shown}: handle key")),
    };
    let metadata = file.metadata().with_context(|| format!("{shown}"))?;
    if !metadata.is_file() || metadata.len() != KEY_BYTES as u64 {
        bail!("{shown}: is not a handle key of 16 bytes (removing it makes all handles stale)");
    }
    if metadata.mode() & 0o077 != 0 {
        bail!("{shown}: others than its owner can read or change the handle key (chmod 600)");
    }
    if let Some(distrust) = files::distrust(&metadata, files::OTHERS_WRITE) {
        bail!("{shown}: the handle key {distrust}, who could know it");
    }
    let mut key = [0; KEY_BYTES];
    (&file)
        .read_exact(&mut key)
        .with_context(|| format!("{shown}"))?;
    Ok(Some(key))
}

/// Makes the key in a file that gets its name when it is on the device: no server sees a part of a
/// key, and of two makers one wins.
fn make(directory: &Path, path: &Path) -> std::io::Result<()> {
    let random: [u8; KEY_BYTES + 8] = random()?;
    let (key, suffix) = random.split_at(KEY_BYTES);
    let suffix = crate::escape::hexadecimal(suffix);
    let temporary = directory.join(format!("{KEY_NAME}.{suffix}"));
    let written = write_new(&temporary, key).and_then(|()| fs::hard_link(&temporary, path));
    let removed = fs::remove_file(&temporary);
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.exists() => {}
        written => written?,
    }
    removed?;
    File::open(directory)?.sync_all()
}

pub(crate) fn random<const BYTES: usize>() -> std::io::Result<[u8; BYTES]> {
    let mut random = [0; BYTES];
    // getrandom(2) returns so few all at once.
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(random)
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_made_once_secret_and_kept() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("a/b");
        let key = handle_key(&directory).unwrap();
        assert_ne!(key, [0; KEY_BYTES]);
        assert_eq!(handle_key(&directory).unwrap(), key);
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join(KEY_NAME)), 0o600);
        let names = fs::read_dir(&directory).unwrap();
        assert_eq!(names.count(), 1, "no temporary file is left");
        assert_ne!(handle_key(&base.path().join("c")).unwrap(), key);
    }

    #[test]
    fn what_is_no_key_or_no_secret_is_refused_and_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(KEY_NAME);
        for wrong in [&b""[..], b"short", &[7; 17]] {
            fs::write(&path, wrong).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            let error = handle_key(base.path()).unwrap_err();
            assert!(format!("{error:#}").contains("16 bytes"), "{error:#}");
            assert_eq!(fs::read(&path).unwrap(), wrong);
        }
        fs::write(&path, [7; 16]).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = handle_key(base.path()).unwrap_err();
        assert!(format!("{error:#}").contains("chmod 600"), "{error:#}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(handle_key(base.path()).is_err());
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let base = tempfile::tempdir().unwrap();
        handle_key(base.path()).unwrap();
        for mode in [0o720, 0o702, 0o1777] {
            fs::set_permissions(base.path(), PermissionsExt::from_mode(mode)).unwrap();
            let error = handle_key(base.path()).unwrap_err();
            assert!(format!("{error:#}").contains("chmod go-w"), "{error:#}");
        }
        fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
        handle_key(base.path()).unwrap();
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            pagewell_skip::skip("needs root to give files away");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let key = base.path().join(KEY_NAME);
        handle_key(base.path()).unwrap();
        for path in [base.path(), &key] {
            std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
            let error = handle_key(base.path()).unwrap_err();
            assert!(format!("{error:#}").contains("65534"), "{error:#}");
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
        handle_key(base.path()).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_names_the_option() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let error = handle_key(&file.join("below")).unwrap_err();
        assert!(format!("{error:#}").contains("--state-dir"), "{error:#}");
    }

    #[test]
    fn servers_that_start_at_once_agree() {
        let base = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(8);
        let keys: Vec<[u8; KEY_BYTES]> = std::thread::scope(|scope| {
            let make = || {
                start.wait();
                handle_key(base.path()).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            let key = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
            threads.into_iter().map(key).collect()
        });
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
        assert!(keys.iter().all(|key| *key == keys[0]));
    }
}
