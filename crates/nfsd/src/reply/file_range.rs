//! File data to a socket without a copy in user space.
//!
//! A READ reply says how many bytes follow before they follow, and sendfile(2) finds out only while
//! it sends. A file that is cut short in that moment leaves a promise to be kept: what is there is
//! sent, and zeros follow, as from a mapping. If storage fails in that moment the connection ends,
//! and the call that the client makes again is told of the failure. (Splicing the data into a pipe
//! first would tell the true count before the head is sent, for a third system call with each
//! reply.)
//!
//! Known weaknesses: the pages are the file's own. A file that is changed between the reply and
//! the client's receipt shows the newer bytes, as with every server that does not copy; a READ
//! is not atomic in NFSv3. And a page that left the kernel's cache since it was seen there is
//! waited for by the thread that sends.

use std::os::fd::AsFd;

use pagewell_counters::names;
use pagewell_fs::OpenFile;
use rustix::io::Errno;

/// A range of a file that is still to be sent.
pub struct FileRange {
    file: OpenFile,
    offset: u64,
    length: usize,
}

impl FileRange {
    /// `length` bytes of `file` from `offset`.
    #[must_use]
    pub fn new(file: OpenFile, offset: u64, length: usize) -> Self {
        Self {
            file,
            offset,
            length,
        }
    }

    /// Bytes still to be sent.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Sends all of it, or what the socket takes: then [`Errno::AGAIN`]. [`Errno::NODATA`]: the
    /// file does not have the rest any more, or it cannot be sent from where it is.
    pub fn send_to(&mut self, socket: impl AsFd) -> Result<(), Errno> {
        while self.length > 0 {
            names::SEND_CALLS.add(1);
            let result =
                rustix::fs::sendfile(&socket, &self.file, Some(&mut self.offset), self.length);
            match result {
                Ok(count) if count > 0 => {
                    assert!(count <= self.length, "more was sent than was asked for");
                    self.length -= count;
                    names::SPLICED_BYTES.add(count as u64);
                }
                Err(Errno::INTR) => {}
                // The file ends, or its file system has no way to do this.
                Ok(_) | Err(Errno::INVAL) => return Err(Errno::NODATA),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// [`OpenFile::copied`] of the range.
    pub fn copied(&self) -> Result<Vec<u8>, Errno> {
        self.file.copied(self.offset, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn file_data_leaves_and_what_is_missing_is_told() {
        let mut file = tempfile::tempfile().unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|index| (index % 253) as u8).collect();
        file.write_all(&data).unwrap();
        let mut range = FileRange::new(OpenFile::new(file.into()), 100_000, 150_000);
        let (here, mut there) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; 100_000];
            there.read_exact(&mut received).unwrap();
            received
        });
        assert_eq!(range.send_to(&here), Err(Errno::NODATA));
        assert!(reader.join().unwrap() == data[100_000..]);
        assert_eq!(range.length(), 50_000);
        assert_eq!(range.copied().unwrap(), [0; 50_000]);
    }

    #[test]
    fn bytes_that_cannot_be_read_are_no_zeros() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10).unwrap();
        let write_only = std::fs::OpenOptions::new().write(true).open(file.path());
        let mut range = FileRange::new(OpenFile::new(write_only.unwrap().into()), 0, 10);
        let (here, _there) = UnixStream::pair().unwrap();
        assert_eq!(range.send_to(&here), Err(Errno::BADF));
        assert_eq!(range.copied(), Err(Errno::BADF));
    }
}
