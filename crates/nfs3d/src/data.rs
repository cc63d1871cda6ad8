//! READ, WRITE, COMMIT (RFC 1813 sections 3.3.6, 3.3.7, 3.3.21).
//!
//! How the bytes of a READ leave:
//!
//! | payload | small | large |
//! |---|---|---|
//! | range of a file | read into the block of replies | sent from the kernel's cache (sendfile) |
//! | pages | copied into the block | sent from the page, which stays pinned |
//! | bytes made for the read | copied into the block | sent from where they are |

use pagewell_counters::names as counters;
use pagewell_fs::{self as fs, Payload};
use pagewell_sunrpc::nfs3::{
    CommitArguments, CommitOk, FileAttributes, ReadArguments, ReadHead, Status, WriteArguments,
    WriteOk,
};
use pagewell_sunrpc::xdr::{Encode, Encoder, padding};

use crate::convert::{self, WireIdentity, WireTarget};
use crate::handler::{Abort, Nfs3Handler, READ_BYTES_MAX, WRITE_BYTES_MAX};
use crate::volume::SIZE_MAX;
use pagewell_rpcd::call::Done;
use pagewell_rpcd::reply::Piece;
use pagewell_rpcd::reply::file_range::{FileRange, is_resident};

/// Longest READ whose data is copied into the block. For longer ones sendfile is fastest in 34 of
/// 36 rows of docs/results/serve.md and serve-epyc.md.
const COPIED_READ_BYTES_MAX: usize = 32 << 10;

/// The head of a READ reply.
struct Head {
    attributes: Option<FileAttributes>,
    end_of_file: bool,
    /// Whether the thread may wait for the data.
    may_block: bool,
}

pub(super) fn read(
    handler: &mut Nfs3Handler<'_>,
    arguments: ReadArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target(arguments.file)?;
    // No file is longer, so sources need not check for overflow.
    let offset = arguments.offset.min(SIZE_MAX);
    let left = u32::try_from(SIZE_MAX - offset).unwrap_or(u32::MAX);
    let count = arguments.count.min(READ_BYTES_MAX).min(left);
    let read = || -> fs::Result<Option<Done>> {
        let read = target
            .filesystem()
            .read(&target.call(), &target.id, offset, count)?;
        let head = Head {
            attributes: Some(target.export.identity.attributes(&read.attributes)),
            end_of_file: read.end_of_file,
            may_block: handler.may_block(),
        };
        send_payload(handler, read.payload, &head)
    };
    match ask_again(read) {
        Ok(done) => Ok(done),
        Err(error) => handler.fail(&target, error, |_| target.attributes_now()),
    }
}

/// `None`: the promised bytes are gone, and nothing was written.
fn send_payload(
    handler: &mut Nfs3Handler<'_>,
    payload: Payload,
    head: &Head,
) -> fs::Result<Option<Done>> {
    let length = payload.len();
    if length <= COPIED_READ_BYTES_MAX {
        return head.copy(&payload, handler.bytes());
    }
    match payload {
        Payload::File { file, offset, .. } => {
            if is_resident(&file, offset, length) {
                let piece = Piece::File(FileRange::new(file, offset, length));
                return Ok(Some(head.send([piece], length, handler)));
            }
            if !head.may_block {
                return Err(fs::Error::WouldBlock);
            }
            // Wait for uncached data here, not in the sending thread.
            let length = u32::try_from(length).unwrap_or(READ_BYTES_MAX);
            let payload = Payload::File {
                file,
                offset,
                length,
            };
            head.copy(&payload, handler.bytes())
        }
        Payload::Pages(pages) => {
            let pages = pages.into_iter().map(Piece::Page);
            Ok(Some(head.send(pages, length, handler)))
        }
        Payload::Bytes(bytes) => Ok(Some(head.send([Piece::Bytes(bytes)], length, handler))),
    }
}

pub(super) fn write(
    handler: &mut Nfs3Handler<'_>,
    arguments: WriteArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target_to_change(arguments.file)?;
    let (filesystem, offset) = (target.filesystem(), arguments.offset);
    let write = || {
        let count = arguments.count.min(WRITE_BYTES_MAX) as usize;
        let data = arguments.data.get(..count).ok_or(fs::Error::Invalid)?;
        let end = offset.checked_add(count as u64);
        if end.is_none_or(|end| end > filesystem.limits().file_bytes_max) {
            return Err(fs::Error::FileTooLarge);
        }
        let stability = convert::stability(arguments.stable);
        // The source counts what it copies.
        let written = filesystem.write(&target.call(), &target.id, offset, data, stability)?;
        Ok(WriteOk {
            file_wcc: target.export.identity.change(&written.change),
            count: written.count,
            committed: convert::stable_how(written.committed),
            verifier: written.verifier,
        })
    };
    handler.answer(&target, write(), |error| target.wcc_after_failure(error))
}

pub(super) fn commit(
    handler: &mut Nfs3Handler<'_>,
    arguments: CommitArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target_to_change(arguments.file)?;
    let CommitArguments { offset, count, .. } = arguments;
    let commit = || {
        // As for WRITE.
        if target.credentials.uid != 0 {
            target.permitted(fs::Access::MODIFY | fs::Access::EXTEND)?;
        }
        let (filesystem, call) = (target.filesystem(), target.call());
        let committed = filesystem.commit(&call, &target.id, offset, count)?;
        Ok(CommitOk {
            file_wcc: target.export.identity.change(&committed.change),
            verifier: committed.verifier,
        })
    };
    let result = commit();
    // The underlying source names its place itself; the client cannot know it here.
    if let Err(error @ (fs::Error::NoSpace | fs::Error::QuotaExceeded)) = &result {
        target.report(&error.to_string());
    }
    handler.answer(&target, result, |error| target.wcc_after_failure(error))
}

/// Attempts while a file shrinks between size and read.
const READ_ATTEMPTS: u32 = 3;

/// Repeats a read of a file that shrank. Storage that keeps promising bytes it does not have (a
/// truncated image) has failed.
fn ask_again(mut read: impl FnMut() -> fs::Result<Option<Done>>) -> fs::Result<Done> {
    for _ in 0..READ_ATTEMPTS {
        if let Some(done) = read()? {
            return Ok(done);
        }
    }
    Err(fs::Error::Io("the bytes are not there".to_owned()))
}

impl Head {
    /// Appends status and head for `count` bytes.
    fn put(&self, count: usize, end_of_file: bool, bytes: &mut Vec<u8>) {
        let mut encoder = Encoder::new(bytes);
        Status::Ok.encode(&mut encoder);
        #[allow(clippy::cast_possible_truncation)] // at most READ_BYTES_MAX
        let count = count as u32;
        let head = ReadHead {
            file_attributes: self.attributes,
            count,
            end_of_file,
            data_length: count,
        };
        head.encode(&mut encoder);
    }

    /// Appends head and data to the block of replies.
    fn copy(&self, payload: &Payload, bytes: &mut Vec<u8>) -> fs::Result<Option<Done>> {
        let wanted = payload.len();
        let start = bytes.len();
        self.put(wanted, self.end_of_file, bytes);
        let data = bytes.len();
        let copied = payload.append_to(bytes, wanted, self.may_block);
        if copied
            .as_ref()
            .map_or(true, |count| *count == 0 && wanted > 0)
        {
            // The next reply goes here.
            bytes.truncate(start);
            return copied.map(|_| None);
        }
        let count = copied?;
        counters::COPIED_BYTES.add(count as u64);
        if count < wanted {
            // Truncated meanwhile: answer with what was there; the client's next READ finds the
            // end.
            let kept = bytes[data..].to_vec();
            bytes.truncate(start);
            self.put(count, false, bytes);
            bytes.extend_from_slice(&kept);
        }
        bytes.extend_from_slice(padding(count));
        Ok(Some(Done::default()))
    }

    /// Sends the data in place behind the head.
    fn send(
        &self,
        pieces: impl IntoIterator<Item = Piece>,
        count: usize,
        handler: &mut Nfs3Handler<'_>,
    ) -> Done {
        self.put(count, self.end_of_file, handler.bytes());
        let sent = handler.end_with(pieces, count);
        Done {
            failed: false,
            sent_bytes: Some(sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::OpenFile;
    use pagewell_rpcd::reply::Batch;
    use std::io::Write;

    fn copied(promised: u32) -> (Option<Done>, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"12345").unwrap();
        let payload = Payload::File {
            file: OpenFile::new(file.into()),
            offset: 0,
            length: promised,
        };
        let head = Head {
            attributes: None,
            end_of_file: true,
            may_block: true,
        };
        let mut batch = Batch::default();
        batch.begin();
        let done = head.copy(&payload, batch.bytes()).unwrap();
        let bytes = batch.bytes().split_off(4);
        (done, bytes)
    }

    #[test]
    fn a_file_that_shrank_gives_what_is_there_and_no_end() {
        let (done, whole) = copied(5);
        assert!(done.is_some());
        // status, no attributes, count, end of file, length, data and padding
        let words = |end: u8| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, end, 0, 0, 0, 5];
        assert_eq!(whole, [&words(1)[..], b"12345\0\0\0"].concat());
        let (done, short) = copied(50);
        assert!(done.is_some());
        assert_eq!(short, [&words(0)[..], b"12345\0\0\0"].concat());
    }

    #[test]
    fn a_read_that_fails_leaves_nothing_of_its_reply() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write_only = std::fs::OpenOptions::new()
            .write(true)
            .open(file.path())
            .unwrap();
        let payload = Payload::File {
            file: OpenFile::new(write_only.into()),
            offset: 0,
            length: 10,
        };
        let head = Head {
            attributes: None,
            end_of_file: true,
            may_block: true,
        };
        let mut batch = Batch::default();
        batch.push(b"another reply");
        batch.begin();
        let before = batch.bytes().clone();
        assert!(head.copy(&payload, batch.bytes()).is_err());
        assert_eq!(*batch.bytes(), before);
    }

    #[test]
    fn bytes_that_stay_away_are_an_error() {
        let mut attempts = 0;
        let never = ask_again(|| {
            attempts += 1;
            Ok(None)
        });
        assert!(matches!(never, Err(fs::Error::Io(_))) && attempts == READ_ATTEMPTS);
    }
}
