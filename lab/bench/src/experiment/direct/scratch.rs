//! A file with known bytes for an experiment. It has no name, so that it ends with the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use pagewell_layers::Pattern;

/// The file.
pub struct Scratch {
    _file: File,
    path: PathBuf,
    pattern: Pattern,
}

impl Scratch {
    /// Makes a file of `length_bytes` of a [`Pattern`] in `directory`, or where temporary files
    /// are, and has it written to storage.
    ///
    /// # Errors
    /// Those of the file system, with the directory.
    pub fn new(directory: Option<&Path>, length_bytes: u64, seed: u64) -> io::Result<Self> {
        let directory = directory.map_or_else(std::env::temp_dir, Path::to_owned);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
        };
        let file = tempfile::tempfile_in(&directory).map_err(named)?;
        let pattern = Pattern::new(length_bytes, seed);
        pattern.write_to(&file, length_bytes).map_err(named)?;
        Ok(Self {
            path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            _file: file,
            pattern,
        })
    }

    /// Its path for this process.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        assert!(missing.to_string().contains("/nonexistent"));
    }
}
