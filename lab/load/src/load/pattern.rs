//! File data to check without a copy: that of a [`Pattern`] from its start.
//!
//! The data does not compress. Weakness: all files, and all versions of one, have the same bytes.

use std::fs::File;
use std::io;
use std::path::Path;

use pagewell_layers::Pattern;

/// The bytes of every checked file.
pub fn pattern() -> Pattern {
    Pattern::new(u64::MAX, 0)
}

/// Makes a file of `bytes` bytes with the pattern; replaces an existing one.
///
/// # Errors
///
/// Those of creating and writing the file.
pub fn write_pattern_file(path: &Path, bytes: u64) -> io::Result<()> {
    pattern().write_to(&File::create(path)?, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_pattern_to_its_last_byte() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        write_pattern_file(&path, (1 << 20) + 13).unwrap();
        let data = std::fs::read(&path).unwrap();
        assert_eq!(data.len(), (1 << 20) + 13);
        assert_eq!(pattern().check(0, &data), Ok(()));
    }
}
