//! Tests of the directory kind: each runs with kernel handles and with path hints.

mod basics;
mod batches;
mod containment;
mod direct;
mod durable;
mod identifiers;
mod listings;
mod mounts;
mod races;
mod remade;
mod remembered;
mod settings;
mod users;
mod waiting;

use super::{Directory, Options};
use pagewell_fs::{
    Call, CreateMode, Credentials, Entry, FileId, FileSystem, Result, SetAttributes, Stability,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An export on a real disk, with a neighbour that must never be touched.
pub(super) struct Fixture {
    pub(super) files: Directory,
    pub(super) options: Options,
    top: TempDir,
}

pub(super) fn root_credentials() -> Credentials {
    Credentials::root()
}

/// A call that may wait.
pub(super) fn waiting(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

/// A call that may not.
pub(super) fn hasty(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, false)
}

/// Whether the test can act as other users; says so when it cannot.
pub(super) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        pagewell_skip::skip("needs root to act as several users");
    }
    root
}

/// Whether calls are made as their callers.
pub(super) fn acts_as_caller(files: &Directory) -> bool {
    files.tree().access().is_as_caller()
}

/// Runs a test with each kind of identifiers.
pub(super) fn with_both(test: impl Fn(&Fixture)) {
    for force_trails in [false, true] {
        test(&Fixture::new(Options {
            force_trails,
            ..Options::default()
        }));
    }
}

impl Fixture {
    pub(super) fn new(options: Options) -> Self {
        pagewell_fs::identity::act_for_server();
        // not /tmp: that may be memory
        let base = std::env::var_os("PAGEWELL_TEST_DIRECTORY");
        let base = base.unwrap_or_else(|| "/var/tmp".into());
        let top = tempfile::Builder::new()
            .prefix("pagewell-dir-")
            .tempdir_in(base)
            .unwrap();
        for name in ["export", "outside"] {
            std::fs::create_dir(top.path().join(name)).unwrap();
            chmod(&top.path().join(name), 0o777);
        }
        let files = Directory::open(&top.path().join("export"), options.clone()).unwrap();
        Self {
            files,
            options,
            top,
        }
    }

    /// The same export as a program that was started again sees it.
    pub(super) fn restarted(&self) -> Directory {
        Directory::open(&self.path(""), self.options.clone()).unwrap()
    }

    /// A path for what the test does as a local program, which is root.
    pub(super) fn path(&self, inside: &str) -> PathBuf {
        pagewell_fs::identity::act_for_server();
        self.top.path().join("export").join(inside)
    }

    pub(super) fn outside(&self, name: &str) -> PathBuf {
        pagewell_fs::identity::act_for_server();
        self.top.path().join("outside").join(name)
    }

    pub(super) fn root(&self) -> FileId {
        self.files.root()
    }

    /// Walks a path from the root as the superuser.
    pub(super) fn walk(&self, path: &str) -> Result<Entry> {
        walk(&self.files, path)
    }

    pub(super) fn id(&self, path: &str) -> FileId {
        self.walk(path).unwrap().id
    }

    /// Makes a file with these bytes, as the superuser, through the file system.
    pub(super) fn make(&self, directory: &FileId, name: &str, data: &[u8]) -> FileId {
        let root = Credentials::root();
        let mode = CreateMode::Guarded(mode_of(0o644));
        let made = self
            .files
            .create(&waiting(&root), directory, name.as_bytes(), &mode)
            .unwrap();
        self.put(&made.entry.id, 0, data);
        made.entry.id
    }

    pub(super) fn put(&self, id: &FileId, offset: u64, data: &[u8]) {
        let root = Credentials::root();
        let call = waiting(&root);
        let written = self
            .files
            .write(&call, id, offset, data, Stability::Unstable)
            .unwrap();
        assert_eq!(written.count as usize, data.len());
    }

    pub(super) fn get(&self, id: &FileId) -> Result<Vec<u8>> {
        let root = Credentials::root();
        read_as(&self.files, &root, id)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // the directory is removed as a local program
        pagewell_fs::identity::act_for_server();
    }
}

pub(super) fn walk(files: &Directory, path: &str) -> Result<Entry> {
    let root = Credentials::root();
    let mut entry = Entry {
        id: files.root(),
        attributes: files.attributes(&waiting(&root), &files.root())?,
    };
    for name in path.split('/').filter(|name| !name.is_empty()) {
        entry = files.lookup(&waiting(&root), &entry.id, name.as_bytes())?;
    }
    Ok(entry)
}

pub(super) fn read_as(files: &Directory, who: &Credentials, id: &FileId) -> Result<Vec<u8>> {
    let reply = files.read(&waiting(who), id, 0, u32::MAX)?;
    let mut data = vec![0; reply.payload.len()];
    let count = reply.payload.copy_to(&mut data, true)?;
    data.truncate(count);
    Ok(data)
}

pub(super) fn mode_of(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

pub(super) fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A whole listing in pages of `page` entries: names and cookies.
pub(super) fn list(files: &Directory, id: &FileId, page: usize) -> Vec<(Vec<u8>, u64)> {
    let root = Credentials::root();
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let mut taken = 0;
        let reply = files
            .read_directory(&waiting(&root), id, cookie, false, &mut |entry| {
                if taken == page {
                    return false;
                }
                taken += 1;
                cookie = entry.cookie;
                all.push((entry.name.to_vec(), entry.cookie));
                true
            })
            .unwrap();
        if reply.end {
            return all;
        }
    }
}

/// Sets a flag when it goes, also by a panic: ends the threads that watch the flag.
pub(super) struct Ends<'a>(pub(super) &'a std::sync::atomic::AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
