//! Data of files, and targets of symbolic links.
//!
//! A read only names the bytes; a write goes to the kernel's page cache and, if wanted, on to the
//! device. A write runs as its caller, so that quotas count and set-user-id bits are cleared.

use super::blocking::{self, HeldWrites};
use super::durability::Durability;
use super::object::{Object, Status};
use super::objects::Objects;
use super::system::error_of;
use pagewell_counters::names;
use pagewell_fs::{
    Attributes, Call, Change, Committed, Error, FileId, FileType, OpenFile, Payload, ReadReply,
    Result, Seek, Space, Stability, Written,
};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

/// Of a file with a reported length of 0.
const UNSIZED_BYTES_MAX: usize = 64 << 10;
/// The kernel has no positions behind it.
const UNSIZED_OFFSET_MAX: u64 = i64::MAX as u64 - UNSIZED_BYTES_MAX as u64;

/// Other calls wait meanwhile.
const COPY_BYTES_MAX: usize = 64 << 20;

pub(super) struct Data {
    objects: Arc<Objects>,
    durability: Arc<Durability>,
    held_writes: HeldWrites,
    file_bytes_max: u64,
}

impl Data {
    pub(super) fn new(
        objects: &Arc<Objects>,
        durability: &Arc<Durability>,
        file_bytes_max: u64,
    ) -> Self {
        Self {
            objects: Arc::clone(objects),
            durability: Arc::clone(durability),
            held_writes: HeldWrites::new(),
            file_bytes_max,
        }
    }

    pub(super) fn read(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let object = self.objects.object(call, id)?;
        object.file_type().expect_regular()?;
        let status = self.objects.look_once(call, &object)?;
        self.objects
            .access()
            .judge(call, &object, &status)
            .check_read()?;
        if status.attributes.size == 0 && count > 0 && offset <= UNSIZED_OFFSET_MAX {
            let file = self.objects.readable(&object, call.may_block)?;
            return self.read_unsized(file, &status, offset, count);
        }
        let left = status.attributes.size.saturating_sub(offset);
        let length = u32::try_from(left.min(u64::from(count))).unwrap_or(count);
        let payload = if length == 0 {
            Payload::Bytes(Vec::new())
        } else {
            Payload::File {
                file: self.objects.readable(&object, call.may_block)?.clone(),
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

    /// Files of proc(5) have data at a reported length of 0.
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

    pub(super) fn seek(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        wanted: Seek,
    ) -> Result<u64> {
        blocking::may_wait(call)?;
        let object = self.objects.object(call, id)?;
        object.file_type().expect_regular()?;
        let status = self.objects.look_once(call, &object)?;
        self.objects
            .access()
            .judge(call, &object, &status)
            .check_read()?;
        let from = match wanted {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        // Moves the descriptor's position, which no other code uses.
        rustix::fs::seek(self.objects.readable(&object, true)?, from).map_err(error_of)
    }

    pub(super) fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let object = self.objects.object(call, id)?;
        Error::Invalid.unless(object.file_type() == FileType::Symlink)?;
        let status = self.objects.look_once(call, &object)?;
        blocking::may_read_target(call, &status)?;
        let target = rustix::fs::readlinkat(object.as_fd(), c"", Vec::new()).map_err(error_of)?;
        Ok((target.into_bytes(), status.attributes))
    }

    pub(super) fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let object = self.objects.object(call, id)?;
        object.file_type().expect_regular()?;
        let verifier = self.durability.verifier();
        let (exclusion, before) = self.objects.begin_change(&object, call.may_block)?;
        let judge = self.objects.access().judge(call, &object, &before);
        judge.check_write()?;
        offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= self.file_bytes_max)
            .ok_or(Error::FileTooLarge)?;
        let began = Instant::now();
        if self.held_writes.are_likely(began) {
            blocking::may_wait(call)?;
        }
        blocking::may_write(call, &object, &before, offset, data.len(), stability)?;
        let file = self.objects.writable(&object)?;
        self.objects.access().become_caller(judge.caller())?;
        let writing = object.begin_write(&before);
        let inline = (!call.may_block).then(|| self.held_writes.begin(began));
        let count = write_all(file, data, offset)?;
        drop(inline);
        drop(writing);
        names::COPIED_BYTES.add(u64::from(count));
        // A sync changes no attribute.
        let change = exclusion.end(&before);
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

    /// Syncs the whole file: Linux has no durable sync of a range.
    pub(super) fn commit(&self, call: &Call<'_>, id: &FileId) -> Result<Committed> {
        blocking::may_wait(call)?;
        let object = self.objects.object(call, id)?;
        object.file_type().expect_regular()?;
        self.objects.look(&object, true)?;
        let open = object.write_if_open();
        let file = open.map_or_else(|| self.objects.readable(&object, true), Ok)?;
        self.durability.sync_data(&object, file)?;
        // It changes nothing: one status serves for before and after.
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

    pub(super) fn allocate(
        &self,
        call: &Call<'_>,
        id: &FileId,
        (offset, length): (u64, u64),
        space: Space,
    ) -> Result<()> {
        let flags = match space {
            Space::Reserve => FallocateFlags::empty(),
            Space::ReserveOnly => FallocateFlags::KEEP_SIZE,
            Space::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Space::Zero => FallocateFlags::ZERO_RANGE,
            Space::ZeroOnly => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        blocking::may_wait(call)?;
        let object = self.objects.object(call, id)?;
        self.change_data(call, &object, |file| {
            rustix::fs::fallocate(file, flags, offset, length)
        })
    }

    pub(super) fn copy(
        &self,
        call: &Call<'_>,
        (from, mut from_offset): (&FileId, u64),
        (to, mut to_offset): (&FileId, u64),
        length: u64,
    ) -> Result<u64> {
        blocking::may_wait(call)?;
        let (from, to) = (
            self.objects.object(call, from)?,
            self.objects.object(call, to)?,
        );
        from.file_type().expect_regular()?;
        let status = self.objects.look(&from, true)?;
        self.objects
            .access()
            .judge(call, &from, &status)
            .check_read()?;
        let source = self.objects.readable(&from, true)?;
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(COPY_BYTES_MAX);
        let copied = self.change_data(call, &to, |target| {
            let (at, to) = (Some(&mut from_offset), Some(&mut to_offset));
            rustix::fs::copy_file_range(source, at, target, to, length)
        })?;
        Ok(copied as u64)
    }

    fn change_data<T>(
        &self,
        call: &Call<'_>,
        object: &Object,
        act: impl FnOnce(&OpenFile) -> Result<T, Errno>,
    ) -> Result<T> {
        object.file_type().expect_regular()?;
        let (_exclusion, before) = self.objects.begin_change(object, true)?;
        let judge = self.objects.access().judge(call, object, &before);
        judge.check_write()?;
        let file = self.objects.writable(object)?;
        self.objects.access().become_caller(judge.caller())?;
        let _writing = object.begin_write(&before);
        act(file).map_err(error_of)
    }
}

/// Writes `data`, or the part before an error.
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
