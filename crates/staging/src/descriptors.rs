//! Descriptors of data files; a bounded number is open.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use rustix::fs::OFlags;

use crate::places::Home;

/// Open at a time, beside those in use.
pub const DESCRIPTORS_MAX: usize = 128;

/// The number of the staged file, and the home.
pub(crate) type DataFile = (u64, Home);

/// See the module.
#[derive(Default)]
pub(crate) struct Descriptors(Mutex<Open>);

#[derive(Default)]
struct Open {
    files: HashMap<DataFile, Used>,
    uses: u64,
}

struct Used {
    file: Arc<File>,
    /// The last of [`Open::uses`].
    at: u64,
}

impl Descriptors {
    /// An open file; `is_made`: made if it is missing.
    pub(crate) fn get(&self, which: DataFile, path: &Path, is_made: bool) -> io::Result<Arc<File>> {
        if let Some(file) = self.0.lock().find(which) {
            return Ok(file);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(is_made).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = Arc::new(options.open(path)?);
        let closed = self.0.lock().add(which, file.clone());
        // Not under the lock: a close may take time.
        drop(closed);
        Ok(file)
    }

    /// The files are removed, or renamed.
    pub(crate) fn forget(&self, number: u64) {
        let mut open = self.0.lock();
        let closed = [0, 1].map(|home| open.files.remove(&(number, home)));
        drop(open);
        drop(closed);
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().files.len()
    }
}

impl Open {
    fn find(&mut self, which: DataFile) -> Option<Arc<File>> {
        self.uses += 1;
        let used = self.files.get_mut(&which)?;
        used.at = self.uses;
        Some(used.file.clone())
    }

    /// Returns the one that gives room.
    fn add(&mut self, which: DataFile, file: Arc<File>) -> Option<Used> {
        let at = self.uses;
        self.files.insert(which, Used { file, at });
        if self.files.len() <= DESCRIPTORS_MAX {
            return None;
        }
        let others = self.files.iter().filter(|(other, _)| **other != which);
        let oldest = others
            .min_by_key(|(_, used)| used.at)
            .map(|(other, _)| *other);
        self.files.remove(&oldest?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_not_used_for_longest_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let descriptors = Descriptors::default();
        let get = |number: u64, is_made| {
            let path = folder.path().join(number.to_string());
            descriptors.get((number, 0), &path, is_made)
        };
        assert!(get(0, false).is_err());
        let first = get(0, true).unwrap();
        for number in 1..3 * DESCRIPTORS_MAX as u64 {
            get(number, true).unwrap();
            let again = get(0, false).unwrap();
            assert!(Arc::ptr_eq(&first, &again));
        }
        assert_eq!(descriptors.count(), DESCRIPTORS_MAX);
        assert_eq!(Arc::strong_count(&first), 2);
        descriptors.forget(0);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
