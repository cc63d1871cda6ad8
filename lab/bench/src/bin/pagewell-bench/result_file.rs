//! Files for results of hours: opened before anything is measured, so that a run does not end with
//! a file that cannot be written.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

/// An open file for a result; its old content stays until the result is there.
pub(crate) struct ResultFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> ResultFile<'a> {
    pub(crate) fn open(path: &'a Path) -> anyhow::Result<Self> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = options.open(path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self { path, file })
    }

    pub(crate) fn write(mut self, text: &str) -> anyhow::Result<()> {
        // Devices and pipes have no length to cut.
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
