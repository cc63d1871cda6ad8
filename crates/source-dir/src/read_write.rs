//! Data: read, write, commit; and the targets of symbolic links.
//!
//! The kernel's page cache is the cache. A read only says where the bytes are; a write goes to
//! the page cache and, as asked, on to the device. Permission is judged at every call. A write is
//! made as its caller, so that quotas count and set-user-id bits go as for a local writer.

use super::Tree;
use super::blocking;
use super::error_of;
use super::object::Object;
use super::status::Status;
use pagewell_counters::names;
use pagewell_fs::{
    Attributes, Call, Change, Committed, Error, FileId, FileType, OpenFile, Payload, ReadReply,
    Result, Seek, Stability, Written,
};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::time::Instant;

/// The most that is read at once of a file that says it is empty, in bytes.
const UNSIZED_BYTES_MAX: usize = 64 << 10;
/// The kernel knows no place behind it.
const UNSIZED_OFFSET_MAX: u64 = i64::MAX as u64 - UNSIZED_BYTES_MAX as u64;

impl Tree {
    /// [`pagewell_fs::FileSystem::read`].
    pub(super) fn read(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let object = self.object(call, id)?;
        object.file_type.expect_regular()?;
        let status = self.look_once(call, &object)?;
        self.judge(call, &object, &status).check_read()?;
        if status.attributes.size == 0 && count > 0 && offset <= UNSIZED_OFFSET_MAX {
            let file = self.readable(&object, call.may_block)?;
            return self.read_unsized(file, &status, offset, count);
        }
        let left = status.attributes.size.saturating_sub(offset);
        let length = u32::try_from(left.min(u64::from(count))).unwrap_or(count);
        let payload = if length == 0 {
            Payload::Bytes(Vec::new())
        } else {
            Payload::File {
                file: self.readable(&object, call.may_block)?.clone(),
                offset,
                length,
            }
        };
        Ok(ReadReply {
            payload,
            end_of_file: left <= u64::from(length),
            attributes: status.attributes,
        })
    }

    /// Reads a file that says it is empty. Some that say so are not: those of proc(5).
    fn read_unsized(
        &self,
        file: &OpenFile,
        status: &Status,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let mut bytes = vec![0; UNSIZED_BYTES_MAX.min(count as usize)];
        let length = rustix::io::pread(file, &mut bytes, offset).map_err(error_of)?;
        bytes.truncate(length);
        Ok(ReadReply {
            payload: Payload::Bytes(bytes),
            end_of_file: length == 0,
            attributes: status.attributes,
        })
    }

    /// [`pagewell_fs::FileSystem::seek`].
    pub(super) fn seek(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        wanted: Seek,
    ) -> Result<u64> {
        blocking::may_wait(call)?;
        let object = self.object(call, id)?;
        object.file_type.expect_regular()?;
        let status = self.look_once(call, &object)?;
        self.judge(call, &object, &status).check_read()?;
        let from = match wanted {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        // It moves the position of the descriptor, which nothing here goes by.
        rustix::fs::seek(self.readable(&object, true)?, from).map_err(error_of)
    }

    /// [`pagewell_fs::FileSystem::read_link`].
    pub(super) fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let object = self.object(call, id)?;
        Error::Invalid.unless(object.file_type == FileType::Symlink)?;
        let status = self.look_once(call, &object)?;
        blocking::may_read_target(call, &status)?;
        let target = rustix::fs::readlinkat(object.as_fd(), c"", Vec::new()).map_err(error_of)?;
        Ok((target.into_bytes(), status.attributes))
    }

    /// [`pagewell_fs::FileSystem::write`].
    pub(super) fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let object = self.object(call, id)?;
        object.file_type.expect_regular()?;
        let verifier = self.durability.verifier();
        let changing = self.begin_change(&object, call.may_block)?;
        let before = &changing.before;
        let judge = self.judge(call, &object, before);
        judge.check_write()?;
        offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= self.limits.file_bytes_max)
            .ok_or(Error::FileTooLarge)?;
        let began = Instant::now();
        if self.held_writes.are_likely(began) {
            blocking::may_wait(call)?;
        }
        blocking::may_write(call, &object, before, offset, data.len(), stability)?;
        let file = self.writable(&object)?;
        self.acting.become_caller(&judge.caller)?;
        let writing = object.begin_write(before);
        let inline = (!call.may_block).then(|| self.held_writes.begin(began));
        let count = write_all(file, data, offset)?;
        drop(inline);
        drop(writing);
        names::COPIED_BYTES.add(u64::from(count));
        // A sync changes no attribute.
        let change = changing.end();
        match stability {
            Stability::Unstable => {}
            Stability::DataSync => self.durability.sync_data(&object, file)?,
            Stability::FileSync => self.durability.sync_all(&object, file)?,
        }
        Ok(Written {
            count,
            committed: stability,
            verifier,
            change,
        })
    }

    /// [`pagewell_fs::FileSystem::commit`]. The whole file is brought to the device, whatever the
    /// range: syncing a part of a file durably is not something Linux offers.
    pub(super) fn commit(&self, call: &Call<'_>, id: &FileId) -> Result<Committed> {
        blocking::may_wait(call)?;
        let object = self.object(call, id)?;
        object.file_type.expect_regular()?;
        self.look(&object, true)?;
        let open = object.write_if_open();
        let file = open.map_or_else(|| self.readable(&object, true), Ok)?;
        self.durability.sync_data(&object, file)?;
        // It changes nothing: how the file is at one moment is how it was before and after.
        let settled = object.status().ok().map(|status| object.settled(status));
        let after = settled.map(|status| status.attributes);
        Ok(Committed {
            verifier: self.durability.verifier(),
            change: Change {
                before: after.map(|after| after.wcc()),
                after,
            },
        })
    }

    /// The file or directory open for reading; the permission was checked before, or none is
    /// needed to sync it.
    pub(super) fn readable<'a>(&self, object: &'a Object, may_wait: bool) -> Result<&'a OpenFile> {
        if let Some(file) = object.read_if_open() {
            return Ok(file);
        }
        self.acting.become_server()?;
        self.with_room(may_wait, || object.open_to_read())
    }

    /// The file open for writing; the permission was checked before.
    pub(super) fn writable<'a>(&self, object: &'a Object) -> Result<&'a OpenFile> {
        if let Some(file) = object.write_if_open() {
            return Ok(file);
        }
        self.acting.become_server()?;
        self.with_room(true, || object.open_to_write())
    }
}

/// Writes all of `data`, or as much as goes before an error: then that is what counts.
fn write_all(file: &OpenFile, data: &[u8], offset: u64) -> Result<u32> {
    let mut done = 0usize;
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pwrite(file, rest, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) if done == 0 => return Err(error_of(errno)),
            Err(_) => break,
        }
    }
    Error::NoSpace.when(done == 0 && !data.is_empty())?;
    Ok(u32::try_from(done).unwrap_or(u32::MAX))
}
