//! READ, WRITE, COMMIT (RFC 1813 sections 3.3.6, 3.3.7, 3.3.21).
//!
//! How the bytes of a READ travel depends on where they are and how many they are:
//!
//! | payload | small | large |
//! |---|---|---|
//! | range of a file | read into the block of replies | spliced through a pipe |
//! | pages | copied into the block | sent from the page, which stays pinned |
//! | bytes made for the read | copied into the block | sent from where they are |

use std::os::fd::AsFd;
use std::sync::Arc;

use pagewell_counters::names as counters;
use pagewell_fs::{self as fs, OpenFile, PageSlice, Payload};
use pagewell_sunrpc::nfs3::{
    CommitArguments, CommitFailure, CommitOk, CommitReply, FileAttributes, ReadArguments,
    ReadFailure, ReadOk, ReadReply, Status, WriteArguments, WriteFailure, WriteOk, WriteReply,
};
use pagewell_sunrpc::xdr::{Encode, Encoder};

use super::Service;
use super::procedure::{Caller, Done, Out, Stop, failed};
use crate::convert;
use crate::output::Piece;
use crate::resident;

/// The most bytes of one READ.
pub(super) const READ_BYTES_MAX: u32 = 1 << 20;

/// The most bytes of one WRITE.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Reads up to this are copied: cheaper than the two system calls of a splice.
const COPIED_READ_BYTES_MAX: usize = 32 << 10;

/// The head of a READ reply that is about to be written.
struct Head {
    attributes: Option<FileAttributes>,
    end_of_file: bool,
}

impl Service {
    pub(super) fn read(
        &self,
        caller: &Caller,
        arguments: ReadArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let target = self.target(caller, arguments.file)?;
        let count = arguments.count.min(READ_BYTES_MAX);
        // Offsets past what a file can have are past its end.
        let offset = arguments
            .offset
            .min(i64::MAX as u64 - u64::from(READ_BYTES_MAX));
        match target
            .filesystem()
            .read(&target.call(), &target.id, offset, count)
        {
            Ok(read) => {
                let attributes = target.export.identity.attributes(&read.attributes);
                let head = Head {
                    attributes: Some(attributes),
                    end_of_file: read.end_of_file,
                };
                match self.send_payload(read.payload, &head, caller.may_block, out) {
                    Ok(done) => Ok(done),
                    Err(fs::Error::WouldBlock) => Err(Stop::WouldBlock),
                    Err(error) => Err(Stop::Status(convert::status(&error))),
                }
            }
            Err(error) => {
                let body = || ReadFailure {
                    file_attributes: target.attributes_now(),
                };
                let reply: ReadReply<'_> = failed(&error, body)?;
                out.put(reply)
            }
        }
    }

    fn send_payload(
        &self,
        payload: Payload,
        head: &Head,
        may_block: bool,
        out: &mut Out<'_>,
    ) -> fs::Result<Done> {
        let length = payload.len();
        if length <= COPIED_READ_BYTES_MAX {
            return head.copy(&payload, length, may_block, out);
        }
        match payload {
            Payload::File {
                file,
                offset,
                length,
            } => self.send_file(&file, offset, length as usize, head, may_block, out),
            Payload::Pages(pages) => Ok(head.send(
                pages.into_iter().map(Piece::Page),
                length,
                head.end_of_file,
                out,
            )),
            Payload::Bytes(bytes) => {
                Ok(head.send([Piece::Bytes(bytes)], length, head.end_of_file, out))
            }
        }
    }

    fn send_file(
        &self,
        file: &OpenFile,
        offset: u64,
        length: usize,
        head: &Head,
        may_block: bool,
        out: &mut Out<'_>,
    ) -> fs::Result<Done> {
        if !may_block && !resident::is_resident(file.as_fd(), offset, length) {
            return Err(fs::Error::WouldBlock);
        }
        if let Some(filled) = self.pipes.fill(file, offset, length)? {
            let count = filled.length();
            if count > 0 {
                let ends = head.end_of_file && count == length;
                return Ok(head.send([Piece::Pipe(filled)], count, ends, out));
            }
        }
        let payload = Payload::File {
            file: file.clone(),
            offset,
            length: u32::try_from(length).unwrap_or(READ_BYTES_MAX),
        };
        let Some(mut buffer) = self.memory.take(length) else {
            // No memory: a part is better than a wait; the client asks for the rest.
            return head.copy(&payload, COPIED_READ_BYTES_MAX, may_block, out);
        };
        let count = payload.copy_to(&mut buffer[..length], may_block)?;
        counters::COPIED_BYTES.add(count as u64);
        let page = PageSlice::new(Arc::new(buffer), 0, count);
        let ends = head.end_of_file || count < length;
        Ok(head.send([Piece::Page(page)], count, ends, out))
    }

    pub(super) fn write(
        &self,
        caller: &Caller,
        arguments: WriteArguments<'_>,
    ) -> Result<WriteReply, Stop> {
        let target = self.target_to_change(caller, arguments.file)?;
        let failure = || WriteFailure {
            file_wcc: target.wcc_after_failure(),
        };
        let count = arguments.count.min(WRITE_BYTES_MAX) as usize;
        let limit = target.filesystem().limits().file_bytes_max;
        let end = arguments.offset.checked_add(count as u64);
        let Some(data) = arguments.data.get(..count) else {
            return failed(&fs::Error::Invalid, failure);
        };
        if end.is_none_or(|end| end > limit) {
            return failed(&fs::Error::FileTooLarge, failure);
        }
        let stability = convert::stability(arguments.stable);
        let filesystem = target.filesystem();
        let result = filesystem.write(
            &target.call(),
            &target.id,
            arguments.offset,
            data,
            stability,
        );
        match result {
            Ok(written) => {
                counters::COPIED_BYTES.add(u64::from(written.count));
                Ok(Ok(WriteOk {
                    file_wcc: target.export.identity.change(&written.change),
                    count: written.count,
                    committed: convert::stable_how(written.committed),
                    verifier: written.verifier,
                }))
            }
            Err(error) => failed(&error, failure),
        }
    }

    pub(super) fn commit(
        &self,
        caller: &Caller,
        arguments: CommitArguments<'_>,
    ) -> Result<CommitReply, Stop> {
        let target = self.target_to_change(caller, arguments.file)?;
        let CommitArguments { offset, count, .. } = arguments;
        match target
            .filesystem()
            .commit(&target.call(), &target.id, offset, count)
        {
            Ok(committed) => Ok(Ok(CommitOk {
                file_wcc: target.export.identity.change(&committed.change),
                verifier: committed.verifier,
            })),
            Err(error) => failed(&error, || CommitFailure {
                file_wcc: target.wcc_after_failure(),
            }),
        }
    }
}

impl Head {
    /// Appends status and head for `count` bytes of data.
    fn put(&self, count: usize, end_of_file: bool, bytes: &mut Vec<u8>) {
        let mut encoder = Encoder::new(bytes);
        Status::Ok.encode(&mut encoder);
        #[allow(clippy::cast_possible_truncation)] // at most READ_BYTES_MAX
        ReadOk::encode_head(&mut encoder, &self.attributes, count as u32, end_of_file);
    }

    /// Copies the data into the block behind the head.
    fn copy(
        &self,
        payload: &Payload,
        length_max: usize,
        may_block: bool,
        out: &mut Out<'_>,
    ) -> fs::Result<Done> {
        let wanted = payload.len().min(length_max);
        let bytes = out.batch.bytes();
        let start = bytes.len();
        self.put(wanted, self.end_of_file && wanted == payload.len(), bytes);
        let data = bytes.len();
        bytes.resize(data + wanted.next_multiple_of(4), 0);
        let count = payload.copy_to(&mut bytes[data..data + wanted], may_block)?;
        counters::COPIED_BYTES.add(count as u64);
        if count < wanted {
            // The file was truncated in between: say what there was.
            let kept = bytes[data..data + count].to_vec();
            bytes.truncate(start);
            self.put(count, true, bytes);
            bytes.extend_from_slice(&kept);
            bytes.resize(start + (data - start) + count.next_multiple_of(4), 0);
        }
        Ok(Done {
            failed: false,
            sent_bytes: None,
        })
    }

    /// Lets the data follow from where it is.
    fn send(
        &self,
        pieces: impl IntoIterator<Item = Piece>,
        count: usize,
        end_of_file: bool,
        out: &mut Out<'_>,
    ) -> Done {
        self.put(count, end_of_file, out.batch.bytes());
        let sent = out.batch.end_with(out.mark, pieces, count);
        Done {
            failed: false,
            sent_bytes: Some(sent),
        }
    }
}
