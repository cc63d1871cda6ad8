//! A directory as a server sees it that names objects by number: the number is that of the inode,
//! and where an object is to be found is what was seen of it last.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Mutex;

/// A name in a directory: the number of that directory, and the name.
type Place = (u64, OsString);

/// A directory and all below it that was looked up since the start.
pub struct Tree {
    path: PathBuf,
    root: u64,
    places: Mutex<HashMap<u64, Vec<Place>>>,
}

impl Tree {
    /// # Errors
    ///
    /// `path` cannot be looked at.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        let root = path.metadata()?.ino();
        Ok(Self {
            path,
            root,
            places: Mutex::new(HashMap::new()),
        })
    }

    /// The number of the directory itself.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Where the object is now.
    ///
    /// # Errors
    ///
    /// `ESTALE`: it is at none of the places where it was seen.
    pub fn path(&self, object: u64) -> io::Result<PathBuf> {
        if object == self.root {
            return Ok(self.path.clone());
        }
        let places = self
            .places
            .lock()
            .unwrap()
            .get(&object)
            .cloned()
            .unwrap_or_default();
        places
            .iter()
            .rev()
            .filter_map(|(parent, name)| Some(self.path(*parent).ok()?.join(name)))
            .find(|path| {
                path.symlink_metadata()
                    .is_ok_and(|found| found.ino() == object)
            })
            .ok_or_else(|| io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error()))
    }

    /// The object of that name, which is remembered, and its attributes.
    ///
    /// # Errors
    ///
    /// Those of the file system beneath.
    pub fn look_up(&self, parent: u64, name: &OsStr) -> io::Result<Metadata> {
        let is_up = name == "..";
        if is_up && parent == self.root {
            return self.path.metadata();
        }
        let found = self.path(parent)?.join(name).symlink_metadata()?;
        // What is above was found on the way down, and is not to be looked for from below.
        if !is_up && name != "." {
            self.remember(found.ino(), parent, name);
        }
        Ok(found)
    }

    /// The names of a directory but "." and "..", with the numbers of their objects.
    ///
    /// # Errors
    ///
    /// Those of the file system beneath.
    pub fn list(&self, directory: u64) -> io::Result<Vec<(u64, OsString)>> {
        let entries = self.path(directory)?.read_dir()?;
        entries
            .map(|entry| entry.map(|entry| (entry.ino(), entry.file_name())))
            .collect()
    }

    fn remember(&self, object: u64, parent: u64, name: &OsStr) {
        let mut places = self.places.lock().unwrap();
        let places = places.entry(object).or_default();
        places.retain(|place| *place != (parent, name.to_owned()));
        places.push((parent, name.to_owned()));
    }
}
