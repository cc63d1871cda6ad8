//! A stream as a tree of one file, to be copied as any file.
//!
//! Its bytes come once, in order. A copy reads the first ones twice, so the last bytes that came
//! are kept. Any other place fails.
//!
//! Weakness: the length is known at the end, so that a target without room for it fails late.

use std::io::Read;
use std::sync::Arc;
use std::time::SystemTime;

use pagewell_base::sync::Mutex;
use pagewell_fs::{
    Access, Attributes, Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, FileSystem,
    FileType, Limits, Payload, ReadReply, Result, Statistics, Timestamp,
};
use pagewell_tree::Tree;
use rustix::io::Errno;

use crate::identity::FileIdentity;
use crate::location::{Links, Place};
use crate::stream::Stream;

/// The only object, which is its own root.
const FILE: [u8; 1] = [1];

struct StreamFile {
    attributes: Attributes,
    reading: Mutex<Reading>,
}

struct Reading {
    stream: Stream,
    /// What came last, and where it begins.
    last: Vec<u8>,
    start: u64,
    has_ended: bool,
}

/// A place to copy from that is this stream.
pub(crate) fn place(stream: Stream, label: &[u8]) -> (Place, Entry) {
    let identity = FileIdentity::of_open(&stream.file);
    let attributes = attributes();
    let entry = Entry {
        id: FileId::of(&FILE),
        attributes,
    };
    let file = StreamFile {
        attributes,
        reading: Mutex::new(Reading {
            stream,
            last: Vec::new(),
            start: 0,
            has_ended: false,
        }),
    };
    let place = Place {
        tree: Tree::new(Arc::new(file)),
        label: label.to_vec(),
        label_below: label.to_vec(),
        directory: entry.id,
        name: Vec::new(),
        copy_name: Vec::new(),
        entry: Some(entry),
        links: Links::Source(Vec::new()),
        is_remote: false,
        means_directory: false,
        is_image: false,
        files: identity.into_iter().collect(),
        disc: None,
    };
    (place, entry)
}

/// Those of a file that this process makes now, before its umask.
fn attributes() -> Attributes {
    let now = Timestamp::from(SystemTime::now());
    Attributes {
        file_type: FileType::Regular,
        mode: 0o666,
        link_count: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        size: 0,
        used: 0,
        device: (0, 0),
        filesystem_id: 0,
        file_id: 1,
        accessed: now,
        modified: now,
        changed: now,
        may_be_kept: true,
    }
}

impl Reading {
    /// The bytes from `offset` on: those that came last, or the next.
    fn read(&mut self, offset: u64, count: usize) -> Result<Vec<u8>> {
        if offset != self.start || self.last.is_empty() {
            if offset != self.start + self.last.len() as u64 {
                return Err(Error::Io("a stream is read once, in order".to_owned()));
            }
            self.start = offset;
            self.last = self.next(count)?;
        }
        Ok(self.last.clone())
    }

    /// As many as are asked for, unless the stream ends.
    fn next(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        let mut stream = (&self.stream.file).take(count as u64);
        stream.read_to_end(&mut bytes).map_err(|error| {
            Errno::from_io_error(&error).map_or_else(|| Error::Io(error.to_string()), Error::from)
        })?;
        self.has_ended = bytes.len() < count;
        Ok(bytes)
    }
}

impl FileSystem for StreamFile {
    fn describe(&self) -> String {
        "a stream".to_owned()
    }

    fn root(&self) -> FileId {
        FileId::of(&FILE)
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn lookup(&self, _call: &Call<'_>, _directory: &FileId, _name: &[u8]) -> Result<Entry> {
        Err(Error::NotDirectory)
    }

    fn attributes(&self, _call: &Call<'_>, _id: &FileId) -> Result<Attributes> {
        Ok(self.attributes)
    }

    fn access(&self, _call: &Call<'_>, _id: &FileId, want: Access) -> Result<(Access, Attributes)> {
        Ok((want & Access::READ, self.attributes))
    }

    fn read_link(&self, _call: &Call<'_>, _id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        Err(Error::Invalid)
    }

    fn read(&self, _call: &Call<'_>, _id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let mut reading = self.reading.lock();
        let bytes = reading.read(offset, count as usize)?;
        Ok(ReadReply {
            payload: Payload::Bytes(bytes),
            end_of_file: reading.has_ended,
            attributes: self.attributes,
        })
    }

    fn read_directory(
        &self,
        _call: &Call<'_>,
        _directory: &FileId,
        _cookie: u64,
        _with_attributes: bool,
        _visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        Err(Error::NotDirectory)
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics::default())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_come_in_order_and_the_last_come_again() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let stream = Stream::new(
            File::from(std::os::fd::OwnedFd::from(reader)),
            "-".to_owned(),
        );
        let (place, entry) = place(stream, b"-");
        let call = place.tree.call();
        let read = |offset, count| {
            let reply = place.tree.filesystem.read(&call, &entry.id, offset, count);
            reply.map(|reply| match reply.payload {
                Payload::Bytes(bytes) => (bytes, reply.end_of_file),
                _ => panic!("not bytes"),
            })
        };
        writer.write_all(b"0123456789").unwrap();
        assert_eq!(read(0, 4), Ok((b"0123".to_vec(), false)));
        assert_eq!(read(0, 4), Ok((b"0123".to_vec(), false)));
        assert_eq!(read(4, 4), Ok((b"4567".to_vec(), false)));
        for offset in [0, 3, 9, u64::MAX] {
            assert!(matches!(read(offset, 4), Err(Error::Io(_))), "{offset}");
        }
        drop(writer);
        assert_eq!(read(8, 4), Ok((b"89".to_vec(), true)));
        assert_eq!(read(8, 4), Ok((b"89".to_vec(), true)));
        assert_eq!(read(10, 4), Ok((Vec::new(), true)));
    }
}
