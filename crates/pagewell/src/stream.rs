//! Locations which are streams: standard input, pipes and terminals, read to the end, once.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

use anyhow::Context;
use pagewell_tree::READ_BYTES;

use crate::location::Location;

/// An open stream, with its name.
pub(crate) struct Stream {
    pub(crate) file: File,
    name: String,
}

/// The stream that a location means; none for a file.
pub(crate) fn of(location: &Location) -> anyhow::Result<Option<Stream>> {
    let Some(path) = location.plain_path() else {
        return Ok(None);
    };
    let name = location.shown();
    let bytes = path.as_os_str().as_encoded_bytes();
    // These may lead to files without a name, or that were read in part.
    let is_descriptor = bytes.starts_with(b"/dev/fd/") || bytes.starts_with(b"/proc/self/fd/");
    let opened = if matches!(bytes, b"-" | b"/dev/stdin") {
        std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(File::from)
    } else {
        let is_stream = path.metadata().is_ok_and(|metadata| {
            let kind = metadata.file_type();
            kind.is_fifo() || kind.is_char_device()
        });
        if !is_descriptor && !is_stream {
            return Ok(None);
        }
        File::open(path)
    };
    let file = opened.with_context(|| name.clone())?;
    let is_directory = file.metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_directory {
        return Ok(None);
    }
    Ok(Some(Stream::new(file, name)))
}

impl Stream {
    /// An open file, to read from its position.
    pub(crate) fn new(file: File, name: String) -> Self {
        Self { file, name }
    }

    /// Gives all bytes to `take`, and returns how many there were.
    pub(crate) fn read(
        mut self,
        take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let mut buffer = vec![0; READ_BYTES as usize];
        let mut bytes = 0;
        loop {
            let got = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context(self.name),
            };
            take(buffer.get(..got).unwrap_or_default())?;
            bytes += got as u64;
        }
    }
}
