//! A file with known bytes, made for an experiment. It has no name, so that it goes with the
//! process however that ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pagewell_layers::Pattern;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The file.
pub struct Scratch {
    /// What keeps it.
    _file: File,
    path: PathBuf,
    pattern: Pattern,
}

impl Scratch {
    /// Makes a file of so many bytes of a [`Pattern`] in `directory`, or where temporary files are,
    /// and has it written to storage.
    ///
    /// # Errors
    /// Those of the file system, with the path.
    pub fn new(directory: Option<&Path>, length_bytes: u64, seed: u64) -> io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pagewell-bench-{}-{number}", std::process::id());
        let path = directory.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = path.join(name);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).open(&path);
        let file = file.map_err(named)?;
        fs::remove_file(&path).map_err(named)?;
        let pattern = Pattern::new(length_bytes, seed);
        pattern.write_to(&file, length_bytes).map_err(named)?;
        Ok(Self {
            path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            _file: file,
            pattern,
        })
    }

    /// Where this process opens it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    #[must_use]
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_its_pattern_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let length = (1 << 20) + 4097;
        let scratch = Scratch::new(Some(directory.path()), length, 5).unwrap();
        let other = Scratch::new(Some(directory.path()), 1, 5).unwrap();
        assert_ne!(scratch.path(), other.path());
        let bytes = fs::read(scratch.path()).unwrap();
        assert_eq!(bytes.len() as u64, length);
        assert_eq!(scratch.pattern().check(0, &bytes), Ok(()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let missing = Scratch::new(Some(Path::new("/nonexistent")), 1, 5)
            .err()
            .unwrap();
        assert!(missing.to_string().contains("/nonexistent/pagewell-bench"));
    }
}
