//! Files for what takes hours to find out: opened before anything is measured, so that it does not
//! end with a file that cannot be written.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

/// An open file for a result; what was in it stays until there is something else.
pub(crate) struct ResultFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> ResultFile<'a> {
    /// Opens it, or makes it.
    pub(crate) fn open(path: &'a Path) -> anyhow::Result<Self> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = options.open(path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self { path, file })
    }

    /// Puts the result into it.
    pub(crate) fn write(mut self, text: &str) -> anyhow::Result<()> {
        // Devices and pipes have no length to be cut.
        let is_file = self.file.metadata().is_ok_and(|found| found.is_file());
        let cut = if is_file {
            self.file.set_len(0)
        } else {
            Ok(())
        };
        cut.and_then(|()| self.file.write_all(text.as_bytes()))
            .with_context(|| self.path.display().to_string())
    }
}
